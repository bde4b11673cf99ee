"""The frames within a captured one at a graph break: those whose calls were evaluated into the graph, and had not ended.

In: such frames as evaluation left them. Out: bytecode of the captured frame that makes what stands for each, of its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .breaking import Interrupted, made_function, passing_on, stand_in
from .bytecode import build
from .emit import Emitter
from .errors import SkipFrame
from .evaluator.frame import Frame
from .foreign import Foreign, Kind, kind_of
from .lifetimes import lifetimes_of
from .resume import in_slots, taken
from .variables.base import Variable
from .variables.constants import Constant
from .variables.held_locals import Look, held_locals, held_parts
from .variables.placeholders import NULL, real_of, resolved
from .variables.tensors import Tensor


def interrupted(
    frame: Frame, bound: frozenset[str], *, awaits: bool, foreign: Foreign | None, stands_in: bool = False
) -> Interrupted:
    """Where a frame stands, for the code generator; ``bound`` are the locals that have their values.

    ``foreign`` is None where it was not broken for the kind of a tensor.
    """
    plain = next((name for name in frame.local if frame.holds_cell(name) and name not in frame.cells), None)
    if plain is not None:
        raise SkipFrame(f"a break where {plain!r} is a comprehension's variable, and a cell elsewhere")
    stack = tuple(value is not NULL for value in frame.stack)
    return Interrupted(
        frame.code,
        frame.globals,
        frame.op.index,
        stack,
        bound,
        awaits,
        awaits and frame.drops,
        awaits and frame.hands_over,
        foreign,
        tuple(map(_kind, frame.stack)) if foreign else (),
        {name: _kind(value) for name, value in frame.local.items()} if foreign else {},
        stands_in,
    )


def _kind(variable: Variable) -> Kind:
    """The kind of the value that a variable stands for."""
    found = resolved(variable)
    if isinstance(found, Tensor):
        return Kind.FOREIGN if found.node is None and found.fake.requires_grad else Kind.TENSOR
    real = real_of(found)
    return Kind.UNKNOWN if real is None and not isinstance(found, Constant) else kind_of(real)


class Within:
    """A frame whose call was evaluated into the graph, with the values that the rest of it takes."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._live = lifetimes_of(frame.code).read[frame.op.index]
        first, _, free = taken(frame.code, self._live)
        self.stack = [value for value in frame.stack if value is not NULL]
        self.first = [] if first is None else [_first(frame, first)]
        self._named = {name: value for name, value in frame.local.items() if name in self._live}
        self._beside = {*free, first}
        #: The locals that have their values.
        self.bound = frozenset(name for name in frame.local if name in self._live or name == first)
        self.cells: list[Variable] = [frame.cells[name] for name in free]
        #: What its caller holds until it returns.
        self.given: list[Variable] = []

    def hold(self, look: Look) -> Iterable[Variable]:
        """Take what the other locals hold as well, which is given: see ``held_locals``."""
        held = held_locals(self.frame, self._live, look)
        self._named |= held
        self.bound |= held.keys()
        self.given = [part for value in self.frame.given for part in held_parts(value, look)]
        return [*held.values(), *self.given]

    @property
    def locals(self) -> list[Variable]:
        """The values of locals, by their names."""
        return [self._named[name] for name in in_slots(self.frame.code, self._named) if name not in self._beside]

    def values(self) -> Iterator[Variable]:
        """All of them."""
        yield from self.first
        yield from self.stack
        yield from self.locals
        yield from self.cells


def _first(frame: Frame, name: str) -> Variable:
    """The first argument, as ``super()`` finds it."""
    content = frame.cells[name].content if name in frame.cells else frame.local.get(name)
    return content or Constant(None)  # which what goes on drops


def load_stand_ins(e: Emitter, caller: Frame, frames: Iterable[Within], *, foreign: Foreign | None) -> None:
    """Push the function that stands for the outermost of these frames and its arguments, among them the same of the next one.

    ``foreign`` as above.
    """
    for code, which in caller.passed:
        e.emit(build.load_const(passing_on(code, which)))
    frame, *inner = frames
    made = stand_in(interrupted(frame.frame, frame.bound, awaits=bool(inner), foreign=foreign, stands_in=True))
    if made.free:
        e.emit(build.push_callable(build.load_const(made_function)), build.load_const(made.code))
        e.load_globals(frame.frame.globals)
        e.emit(build.build_tuple(e.load_many(frame.cells)), build.call(3))
    elif e.reads_through_frame(frame.frame.globals):
        e.emit(build.load_const(made.code), build.make_function())
    else:
        e.emit(build.load_const(made_function(made.code, frame.frame.globals, ())))
    count = e.load_many([*frame.first, *frame.stack, *frame.locals])
    if inner:
        load_stand_ins(e, frame.frame, inner, foreign=foreign)
        count += 1
    e.emit(build.build_tuple(count), build.build_tuple(2))
    for _ in caller.passed:
        _load_held(e, frame)  # the functions on the way have them in their locals
        e.emit(build.build_tuple(1), build.build_tuple(2))
    if not caller.hands_over:
        _load_held(e, frame)


def _load_held(e: Emitter, frame: Within) -> None:
    """Put beside what is to be called what its caller holds until it returns."""
    e.emit(build.build_tuple(e.load_many(frame.given)), build.build_tuple(2))
