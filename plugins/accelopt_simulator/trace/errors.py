"""What is raised for a trace that can't be read."""

from __future__ import annotations


class TraceError(ValueError):
    """The bytes or columns are not a well-formed trace."""
