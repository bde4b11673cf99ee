"""All that registers what it knows of arrays: importing this is importing all of it."""

from __future__ import annotations

from . import calls, errors, inputs, values  # noqa: F401
