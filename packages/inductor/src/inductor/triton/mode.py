"""Whether Triton's interpreter runs kernels."""

from __future__ import annotations

from triton import knobs

INTERPRETED: bool = knobs.runtime.interpret
"""Whether TRITON_INTERPRET was set when this module was imported; kernels are bound one way or the other then."""
