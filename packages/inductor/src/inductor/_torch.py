"""The one file that touches private parts of torch; each name says why nothing public serves."""

from __future__ import annotations

import torch


def native_call(path: str, op: torch._ops.OpOverload) -> str:
    """The text of what runs `op`, whose own text is `path`: its `__call__` is a frame of Python that passes all on to C."""
    return f"{path}._op" if type(op) is torch._ops.OpOverload else path
