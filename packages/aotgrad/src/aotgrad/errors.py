"""What tracing refuses: one exception, so that whoever calls can run the program eagerly instead."""

from __future__ import annotations


class Unsupported(RuntimeError):
    """The program does something that has no functional form here. Eager execution of it is still right."""
