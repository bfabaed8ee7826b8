"""The rewrites, one concern per module."""
