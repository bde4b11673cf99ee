"""Settings of the package; read when a frame is captured. Plain module attributes: ``capture.config.on_error = "raise"``."""

from __future__ import annotations

from typing import Literal

#: What a failure inside the compiler does: one warning and eager for that frame, or an exception.
on_error: Literal["fallback", "raise"] = "fallback"

#: Captures of one code object before it is left to the interpreter.
recompile_limit: int = 16

#: Instructions one capture may evaluate, loops unrolled, before it gives up on the frame.
max_instructions: int = 3_000_000
