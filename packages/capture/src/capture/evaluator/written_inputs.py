"""Inputs that a graph writes to in place. Some autograd refuses to be written to, which nothing in their metadata tells.

In: the tensors met so far, after a call that wrote. Out: guards, or ``Unsupported`` where the write itself will raise.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from capture._torch import refuses_writes
from capture.errors import Unsupported
from capture.guards import GuardKind, Predicate
from capture.variables.tensors import Tensor

from .guards import GuardTable

_MAY_BE = Predicate(lambda tensor: not refuses_writes(tensor), "autograd lets {} be written to")


def note_written(guards: GuardTable, tensors: Iterable[Tensor]) -> None:
    """Something was written: what of it came from outside is told by whether it may be."""
    if not torch.is_grad_enabled():
        return
    for each in tensors:
        value = each.value
        if value is None or each.source is None or not each.fake.requires_grad or each.fake.is_leaf:
            continue  # of leaves a fake refuses it as they do
        before = each.node.meta.get("version")
        if before is None or each.fake._version == before:
            continue
        if refuses_writes(value):
            raise Unsupported("a write to a view that autograd lets nobody write to")
        guards.add(each.source, GuardKind.CALLABLE, _MAY_BE)
