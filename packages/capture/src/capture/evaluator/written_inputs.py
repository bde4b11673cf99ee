"""Inputs that a graph writes to in place. Some autograd refuses to be written to, which nothing in their metadata tells.

In: the tensors met so far, after a call that wrote. Out: guards, or ``Unsupported`` where the write itself will raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from capture import _torch
from capture._torch import is_view, loses_gradients, refuses_writes
from capture.errors import Unsupported
from capture.guards import GuardKind, Predicate
from capture.variables.assumptions import Guards
from capture.variables.subclasses import SubclassTensor
from capture.variables.tensors import Tensor

#: Of what is no leaf; leaves' fakes refuse it as they do.
_MAY_BE = Predicate(lambda tensor: not refuses_writes(tensor), "autograd lets {} be written to")
#: Of a leaf for which the graph is given a view of it: where that is a view of something else it loses the leaf as it is written to.
_NO_VIEW = Predicate(lambda tensor: not is_view(tensor), "{} is no view")
#: Of what shares the memory of something that is written to without gradients: of some views autograd refuses to tell a gradient from then on.
_CAN_TELL = Predicate(lambda tensor: not loses_gradients(tensor), "writes leave {} its place in autograd")


class WrittenInputs:
    """The tensors from outside that were met, by the memory they lie in: a write asks about those there, not about all inputs of a model."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self._there: dict[object, list[Tensor]] = {}
        self._written_without_gradients: set[object] = set()
        self._met_late: list[Tensor] = []

    def release(self) -> None:
        """Let go of the tensors."""
        self._there.clear()
        self._written_without_gradients.clear()
        self._met_late.clear()

    def met(self, tensor: Tensor) -> None:
        """A tensor has this fake from here on."""
        if tensor.value is None:
            return
        storage = _torch.inside(tensor.fake).storage_key
        self._there.setdefault(storage, []).append(tensor)
        if storage in self._written_without_gradients:
            self._met_late.append(tensor)

    def note(self, storages: Iterable[object]) -> None:
        """These were written to: what lies there and came from outside is told by whether it may be."""
        differentiates = torch.is_grad_enabled()
        for storage in dict.fromkeys(storages):
            sharing = [*self._outside(storage)]
            written = [each for each in sharing if _is_written(each)]
            if written and not differentiates:
                self._written_without_gradients.add(storage)
                self._note_sharers((*sharing, *(each for each in self._met_late if each.source is not None)))
                self._met_late.clear()
            for each in written:
                if not each.fake.requires_grad:
                    continue
                if not each.fake.is_leaf:
                    if differentiates:
                        self._require(each, _MAY_BE, "a write to a view raises RuntimeError")
                elif isinstance(each, SubclassTensor):
                    self._require(each, _NO_VIEW, "a write to a leaf of a tensor subclass that is a view")

    def _outside(self, storage: object) -> Iterator[Tensor]:
        # Another tensor may stand for one by now.
        return (
            each
            for each in self._there.get(storage, ())
            if each.source is not None and _torch.inside(each.fake).storage_key is storage
        )

    def _note_sharers(self, sharing: Iterable[Tensor]) -> None:
        for each in sharing:
            assert each.value is not None
            # A view that was made without gradients counts as a leaf. Of others, as parameters are, this is not asked at each call.
            if each.fake.requires_grad and (not each.fake.is_leaf or is_view(each.value)):
                self._require(each, _CAN_TELL, "a write without gradients, after which a view has none")

    def _require(self, tensor: Tensor, told: Predicate, why: str) -> None:
        assert tensor.source is not None and tensor.value is not None
        if not told.check(tensor.value):
            raise Unsupported(why)
        self._guards.add(tensor.source, GuardKind.CALLABLE, told)


def _is_written(tensor: Tensor) -> bool:
    before = tensor.node.meta.get("version")  # those of inference mode have none
    return before is not None and tensor.fake._version != before
