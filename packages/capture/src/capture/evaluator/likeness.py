"""Whether two calls are given the same, as far as an evaluation can tell: the same constants, results with equal metadata, the very same else.

In: arguments of a call that was evaluated, and of one that is to be. Out: which result stands where the other stood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import fx

from capture._native import address
from capture.sources import Source
from capture.variables.base import Variable
from capture.variables.constants import Constant, Known, is_one_constant
from capture.variables.modules import Module
from capture.variables.placeholders import Lazy, resolved
from capture.variables.sequences import Tuple
from capture.variables.tensors import Tensor
from symshapes import FakeTensor, dataclass

from .builder import VariableBuilder
from .recorder import GraphRecorder


@dataclass(frozen=True)
class Likeness:
    """What an evaluation sees of a tensor. `known`: it may tell what the tensor holds, and how often that was written to by then."""

    cls: type
    metadata: Any
    requires_grad: bool
    is_leaf: bool
    known: int | None


def likeness(recorder: GraphRecorder, tensor: Tensor) -> Likeness | None:
    """What an evaluation sees of a tensor that it does not write to; None where that is more than can be compared."""
    fake = tensor.fake
    if type(fake) is not FakeTensor or type(tensor) is not Tensor or tensor.given or fake.is_inference():
        return None
    if tensor.either is not None:  # which may be another argument, as an `if` decides
        return None
    meta = recorder.fake_mode.metadata(fake)
    for number in (*meta.size, *meta.stride, meta.offset):
        if type(number) is not int:
            return None
    known = fake._version if recorder.holds_known(fake) else None
    return Likeness(tensor.cls, meta, fake.requires_grad, fake.is_leaf, known)


def held_in(variable: Variable) -> Iterator[Variable]:
    """A value, what it turned out to be, and the same of what it holds in tuples."""
    yield variable
    value = resolved(variable)
    if value is not variable:
        yield value
    if type(value) is Tuple:
        for item in value.items:
            yield from held_in(item)


def can_match(variable: Variable) -> bool:
    """Whether a value may stand for another, or another for it: what else there is, nobody is to hold on to."""
    value = resolved(variable)
    if type(value) is Tuple:
        return all(map(can_match, value.items))
    return isinstance(value, (Lazy, Constant, Known, Module, Tensor))


def tensors_in(variable: Variable) -> Iterator[Tensor]:
    """The tensors that a value is or, in tuples, holds."""
    return (each for each in held_in(variable) if isinstance(each, Tensor))


def places_of(variable: Variable, builder: VariableBuilder) -> Iterator[Source]:
    """Where a value, or what it holds in tuples, is read from outside."""
    value = resolved(variable)
    if value.source is not None:
        yield value.source
    if isinstance(value, Lazy):
        met = builder.met(value.value)
        if met is not None and met.source is not None:
            yield met.source
    elif type(value) is Tuple:
        for item in value.items:
            yield from places_of(item, builder)


class Matching:
    """Compares the arguments of a call, of whose tensors the ``likenesses`` were noted, with those of another."""

    def __init__(self, builder: VariableBuilder, recorder: GraphRecorder, likenesses: dict[fx.Node, Likeness]) -> None:
        self._builder = builder
        self._recorder = recorder
        self._likenesses = likenesses
        #: What stands in the place of a tensor.
        self.tensors: dict[fx.Node, Tensor] = {}
        self._taken: set[fx.Node] = set()
        #: The same of arguments, and of what they hold in tuples, by identity.
        self.given: dict[int, Variable] = {}
        #: Inputs that nobody has looked at yet, which have to turn out to be what the earlier call had.
        self.waiting: list[tuple[Lazy, Variable]] = []

    def match(self, was: Variable, now: Variable) -> bool:
        """Whether one stands for the other. An input that the earlier call did not look at may be any other."""
        self.given[address(was)] = now
        was, now = resolved(was), resolved(now)
        self.given[address(was)] = now
        if isinstance(was, Lazy):
            return was is now
        if isinstance(now, Lazy):
            self.waiting.append((now, was))
            if isinstance(was, Constant):
                return type(was) is Constant and is_one_constant(was.value, now.value)
            now = self._builder.met(now.value) or now
            if now is not was:
                return False
        if isinstance(was, Tensor):
            return isinstance(now, Tensor) and self._match_tensors(was, now)
        if was is now:
            return self._stays(was)
        if isinstance(was, Constant):
            return type(now) is Constant and type(was) is Constant and is_one_constant(was.value, now.value)
        if type(was) is not Tuple or type(now) is not Tuple or was.cls is not now.cls:
            return False
        if len(was.items) != len(now.items):
            return False
        return all(map(self.match, was.items, now.items))

    def _stays(self, value: Variable) -> bool:
        """Whether a value is in the second call what it was in the first, if nothing from outside was changed meanwhile."""
        if type(value) is Tuple:
            return all(self.match(item, item) for item in value.items)
        return isinstance(value, (Constant, Known)) or (isinstance(value, Module) and value.source is not None)

    def _match_tensors(self, was: Tensor, now: Tensor) -> bool:
        found = self.tensors.get(was.node)
        if found is not None:
            return found is now
        like = self._likenesses.get(was.node)
        if like is None or (was is not now and not (was.source is None is now.source)):
            return False
        if (
            now.node in self._taken
            or likeness(self._recorder, now) != like
            or (like.known is not None and was is not now)
        ):
            return False
        self.tensors[was.node] = now
        self._taken.add(now.node)
        return True
