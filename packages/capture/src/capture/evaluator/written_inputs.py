"""Inputs that a graph writes to in place. Some autograd refuses to be written to, which nothing in their metadata tells.

In: the tensors met so far, after a call that wrote. Out: guards, or ``Unsupported`` where the write itself will raise.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from capture._torch import is_view, refuses_writes
from capture.errors import Unsupported
from capture.guards import GuardKind, Predicate
from capture.sources import Source
from capture.variables.assumptions import Guards
from capture.variables.subclasses import SubclassTensor
from capture.variables.tensors import Tensor

#: Of what is no leaf; leaves' fakes refuse it as they do.
_MAY_BE = Predicate(lambda tensor: not refuses_writes(tensor), "autograd lets {} be written to")
#: Of a leaf for which the graph is given a view of it: where that is a view of something else it loses the leaf as it is written to.
_NO_VIEW = Predicate(lambda tensor: not is_view(tensor), "{} is no view")


def note_written(guards: Guards, tensors: Iterable[Tensor]) -> None:
    """Something was written: what of it came from outside is told by whether it may be."""
    for each in tensors:
        value = each.value
        if value is None or each.source is None or not each.fake.requires_grad:
            continue
        before = each.node.meta.get("version")
        if before is None or each.fake._version == before:
            continue
        if not each.fake.is_leaf:
            if torch.is_grad_enabled():
                _require(guards, each.source, value, _MAY_BE, "a write to a view raises RuntimeError")
        elif isinstance(each, SubclassTensor):
            _require(guards, each.source, value, _NO_VIEW, "a write to a leaf of a tensor subclass that is a view")


def _require(guards: Guards, source: Source, value: torch.Tensor, told: Predicate, why: str) -> None:
    if not told.check(value):
        raise Unsupported(why)
    guards.add(source, GuardKind.CALLABLE, told)
