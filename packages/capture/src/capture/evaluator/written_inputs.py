"""Inputs that a graph writes to in place. Some autograd refuses to be written to, which nothing in their metadata tells.

In: the tensors met so far, after a call that wrote. Out: guards, or ``Unsupported`` where the write itself will raise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch

from capture import _torch
from capture._torch import is_view, loses_gradients, refuses_writes
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
#: Of what shares the memory of something that is written to without gradients: of some views autograd refuses to tell a gradient from then on.
_CAN_TELL = Predicate(lambda tensor: not loses_gradients(tensor), "writes leave {} its place in autograd")


def note_written(guards: Guards, tensors: Iterable[Tensor]) -> None:
    """Something was written: what of it came from outside is told by whether it may be."""
    outside = [each for each in tensors if each.value is not None and each.source is not None and each.node is not None]
    written = [each for each in outside if _is_written(each)]
    if not torch.is_grad_enabled():
        _note_sharers(guards, outside, {_torch.inside(each.fake).storage_key for each in written})
    for each in written:
        value = each.value
        if value is None or each.source is None or not each.fake.requires_grad:
            continue
        if not each.fake.is_leaf:
            if torch.is_grad_enabled():
                _require(guards, each.source, value, _MAY_BE, "a write to a view raises RuntimeError")
        elif isinstance(each, SubclassTensor):
            _require(guards, each.source, value, _NO_VIEW, "a write to a leaf of a tensor subclass that is a view")


def _is_written(tensor: Tensor) -> bool:
    before = tensor.node.meta.get("version")  # those of inference mode have none
    return before is not None and tensor.fake._version != before


def _note_sharers(guards: Guards, outside: Iterable[Tensor], written: Collection[object]) -> None:
    for each in outside:
        if not each.fake.requires_grad or _torch.inside(each.fake).storage_key not in written:
            continue
        assert each.source is not None and each.value is not None
        # A view that was made without gradients counts as a leaf. Of others, as parameters are, this is not asked at each call.
        if not each.fake.is_leaf or is_view(each.value):
            _require(
                guards, each.source, each.value, _CAN_TELL, "a write without gradients, after which a view has none"
            )


def _require(guards: Guards, source: Source, value: torch.Tensor, told: Predicate, why: str) -> None:
    if not told.check(value):
        raise Unsupported(why)
    guards.add(source, GuardKind.CALLABLE, told)
