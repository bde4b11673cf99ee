"""The one file that touches private parts of torch; each name says why nothing public serves."""

from __future__ import annotations

import torch

# The class of what `torch.ops` holds: public code has the objects, not the name.
OpOverload = torch._ops.OpOverload


def native_call(path: str, op: OpOverload) -> str:
    """The text of what runs `op`, whose own text is `path`: its `__call__` is a frame of Python that passes all on to C."""
    return f"{path}._op" if type(op) is OpOverload else path
