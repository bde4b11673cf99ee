"""Random ops: which ones draw from a generator, and the functional op that draws the same stream.

A traced graph keeps every random op, in program order and even if unused, so that seeds give eager's numbers and leave
the generator where eager leaves it.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

FUNCTIONAL: dict[Any, Any] = {
    # The in-place kernel on an empty tensor is what the functional op runs, so both draw alike.
    aten.bernoulli_.Tensor: aten.bernoulli.Tensor,
    aten.normal_.default: aten.normal_functional.default,
}
"""In-place random ops whose functional form has another name; the rest are found by name."""


def is_random(op: Any) -> bool:
    """Whether `op` draws from a random generator."""
    return torch.Tag.nondeterministic_seeded in op.tags
