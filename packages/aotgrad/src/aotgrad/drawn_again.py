"""Whether a piece of a function runs where it may be asked for its random numbers again, by a call that does not come by compiled code.

A checkpoint runs a function, keeps none of what its backward needs, and runs it again in the backward, with the generators where they
stood. A piece of a compiled function may then run by eager's operators, which draw other numbers than kernels do. What such a
run looks like, whoever makes it, and on either occasion: hooks take what is saved for the backward, or it happens within a
`torch.autograd.Function`, in its forward and again in its backward.
"""

from __future__ import annotations

import sys

import torch
from torch.autograd import Function

from aotgrad import _torch

_APPLY = Function.apply.__func__.__code__  # type: ignore[attr-defined]


def may_draw_again() -> bool:
    """Whether the numbers that the program would draw now may be wanted once more, or were drawn before."""
    if _torch.top_saved_tensor_hooks(False) is not None or _torch.current_node() is not None:
        return True
    # A function's forward runs with forward-mode derivatives off, whatever it says of gradients; inference mode has them off as well.
    return not _torch.forward_derivatives() and (not torch.is_inference_mode_enabled() or _in_a_function())


def _in_a_function() -> bool:
    """Whether the forward of a `torch.autograd.Function` is on the stack: all begin in Python, by its `apply`."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code is _APPLY:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
