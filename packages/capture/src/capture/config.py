"""Settings of the package; read when a frame is captured. Plain module attributes: ``capture.config.on_error = "raise"``."""

from __future__ import annotations

import os
from typing import Literal

#: What a failure inside the compiler does: one warning and eager for that frame, or an exception.
on_error: Literal["fallback", "raise"] = "fallback"

#: Numbers and sizes that are in a tensor's data (``item``, ``nonzero``, ``x[mask]``) stay in the graph, as symbols that
#: nothing is decided by; if not, they end it.
capture_data_dependent: bool = True

#: A call of a module that is like one before it in the same capture (of another layer of the same class and settings, on tensors of the
#: same metadata) is taken for that one again, on its own parameters, and not evaluated.
repeat_equal_calls: bool = True

#: A file where what changed from one capture to the next is kept, by code: processes that come later have it symbolic at
#: their first capture. None keeps it in the process alone.
profile: str | os.PathLike[str] | None = None

#: Captures of one code object before it is left to the interpreter.
recompile_limit: int = 16

#: Instructions one capture may evaluate, loops unrolled, before it gives up on the frame.
max_instructions: int = 3_000_000
