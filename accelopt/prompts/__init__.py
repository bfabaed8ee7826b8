"""Prompts: typed requests become text here, and only here."""

from __future__ import annotations

from accelopt.prompts.render import RenderedPrompt, render

__all__ = ["RenderedPrompt", "render"]
