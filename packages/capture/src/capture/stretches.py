"""Stretches: operations after a graph break that are made for real with it, since no graph could hold them either.

In: a frame's instructions, where it was broken for the kind of a tensor, and the kinds of its values there. Out: the steps that belong to the
stretch. It ends before what a graph may hold, and, as the code runs, behind an operation that gives a tensor that graphs hold.
What belongs to it is a matter of speed alone: made for real, each step does what the program says.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from symshapes import dataclass

from .bytecode import Instruction, falls_through
from .bytecode.dialect import current
from .foreign import Kind, kind_of
from .resume import begins_with, body_from, group_end, pushes_null, stack_effects

#: Steps that only move values, make containers of them or choose where to go on.
_MOVES = frozenset(
    {
        "NOP", "NOT_TAKEN", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_CONST", "LOAD_SMALL_INT", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST",
        "STORE_DEREF", "DELETE_FAST", "COPY", "SWAP", "POP_TOP", "POP_ITER", "PUSH_NULL", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP",
        "BUILD_CONST_KEY_MAP", "BUILD_SLICE", "LIST_APPEND", "SET_ADD", "MAP_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE",
        "LIST_TO_TUPLE", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "GET_ITER", "FOR_ITER", "UNPACK_SEQUENCE", "IS_OP", "JUMP_FORWARD",
        "JUMP_BACKWARD", "RETURN_VALUE", "RETURN_CONST",
    }
)  # fmt: skip
#: Steps that compute.
_COMPUTES = frozenset(
    {
        "BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "STORE_SUBSCR", "STORE_SLICE", "COMPARE_OP", "CONTAINS_OP", "UNARY_INVERT",
        "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_POSITIVE", "FORMAT_VALUE", "FORMAT_SIMPLE", "BUILD_STRING", "CALL", "CALL_KW", "CALL_FUNCTION_EX",
        "CALL_INTRINSIC_1",
    }
)  # fmt: skip
_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_READS = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
#: What puts values into a container that stays on the stack, whose depth below them the operand is.
_FILLS = frozenset({"LIST_APPEND", "SET_ADD", "MAP_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE"})
_BRANCHES = ("POP_JUMP", "JUMP_IF")
#: Of values that are foreign, these do not ask for what no graph has.
_LEAVES_ALONE = _MOVES - _READS - {"GET_ITER", "FOR_ITER", "UNPACK_SEQUENCE"}
#: Steps that put nothing on the stack that could be a tensor.
_GIVES_NOTHING = frozenset(
    {"STORE_SUBSCR", "STORE_SLICE", "FORMAT_VALUE", "FORMAT_SIMPLE", "BUILD_STRING", "GET_ITER", "UNPACK_SEQUENCE"}
)
#: Of the program's loops most are gone through a few times until nothing new is found.
_MOST_STEPS = 10_000


@dataclass(frozen=True)
class Place:
    """A frame before a step: which slots of the stack hold values (False: NULL), the locals that have some, and the kinds of both."""

    stack: tuple[bool, ...]
    bound: frozenset[str]
    kinds: tuple[Kind, ...]
    local: Mapping[str, Kind]

    def pushed(self, kind: Kind) -> Place:
        """The place with one value more on the stack."""
        return Place((*self.stack, True), self.bound, (*self.kinds, kind), self.local)

    def without(self, names: frozenset[str]) -> Place:
        """The same, where these locals have no values."""
        return Place(self.stack, self.bound - names, self.kinds, self.local)

    def joined(self, other: Place) -> Place:
        """What holds whichever way it was come to, where slots and locals are the same ones."""
        kinds = tuple(map(max, self.kinds, other.kinds))
        names = self.local.keys() | other.local.keys()
        local = {name: max(each.get(name, Kind.UNKNOWN) for each in (self.local, other.local)) for name in names}
        return Place(self.stack, self.bound, kinds, local)


@dataclass
class Step:
    """One of a stretch: its operations from ``start`` to ``end``, and the places behind it.

    ``tells``: whether to go on is told by what it gives.
    """

    start: int
    end: int
    follow: Place | None
    jump: tuple[int, Place] | None
    tells: bool
    #: Whether it meets what no graph holds, or the frame ends with it.
    counts: bool

    def without(self, names: frozenset[str]) -> Step:
        """The same, where these locals have no values."""
        follow = None if self.follow is None else self.follow.without(names)
        jump = None if self.jump is None else (self.jump[0], self.jump[1].without(names))
        return Step(self.start, self.end, follow, jump, self.tells, self.counts)

    def targets(self) -> list[tuple[int, Place]]:
        """Where it leads, with the places there."""
        found = [] if self.follow is None else [(self.end + 1, self.follow)]
        return found if self.jump is None else [*found, self.jump]


@dataclass
class Stretch:
    """The steps, by the index of their first operation, and locals that are to be None before: they get values in it, and are not read before that.

    So the same locals have values whichever way a place is come to.
    """

    steps: dict[int, Step]
    unset: frozenset[str]


class Finder:
    """Finds the stretch that begins at a place of one frame's instructions."""

    def __init__(self, instructions: Sequence[Instruction], module_globals: Mapping[str, Any]) -> None:
        self._instructions = instructions
        self._globals = module_globals
        self._index = {id(each): at for at, each in enumerate(instructions)}

    def broken(self, at: int, place: Place) -> Stretch:
        """The step at an index alone, as one that is to be made for real, whatever it is."""
        return Stretch({at: self._made(at, place, broken=True)}, frozenset())

    def find(
        self,
        at: int,
        place: Place,
        read: frozenset[str],
        most: int,
        *,
        broken: bool,
        handled: Sequence[Instruction] = (),
        block: bool = False,
    ) -> Stretch:
        """The steps that are to be made for real from index ``at`` on, with that there itself, whatever it is, where it is ``broken``.

        ``read`` are the locals that may be read from there on, ``handled`` other handlers that may lead to it. At most ``most`` steps are looked at what they give.
        With ``block`` it is all of the ``with`` that begins there, whatever that is, where one does.
        """
        stored = self._names("STORE_FAST", range(len(self._instructions)))
        unset = stored - place.bound - read
        outside = self._outside(at, place) if block else None
        first = Place(place.stack, place.bound | unset, place.kinds, place.local)
        steps = None if block and outside is None else self._find(at, first, most, broken, outside)
        if steps is None or (
            self._is_led_to(steps, handled)
            and (
                stored - place.bound - unset or place.bound & self._names("DELETE_FAST", range(len(self._instructions)))
            )
        ):
            return self.broken(at, place) if broken else Stretch({}, frozenset())
        found = self._names("STORE_FAST", (i for step in steps.values() for i in range(step.start, step.end + 1)))
        return Stretch({start: step.without(unset - found) for start, step in steps.items()}, unset & found)

    def _outside(self, at: int, place: Place) -> int | None:
        """How deep the stack is outside of the ``with`` that begins at an index; None where none does."""
        opname = self._instructions[at].opname
        if opname != "BEFORE_WITH" and not begins_with(self._instructions, at):
            return None
        return stack_effects(self._instructions, at, list(place.stack), False)[0]

    def _names(self, opname: str, places: Iterable[int]) -> frozenset[str]:
        """The locals of operations of a kind."""
        return frozenset(self._instructions[i].argval for i in places if self._instructions[i].opname == opname)

    def _is_led_to(self, steps: dict[int, Step], handled: Sequence[Instruction]) -> bool:
        """Whether what handles exceptions goes on in the stretch: not all of it was gone through then."""
        own = [i for step in steps.values() for i in self._instructions[step.start : step.end + 1]]
        targets = [each.handler.target for each in own if each.handler is not None]
        remain = {id(each) for each in body_from(self._instructions, [*handled, *targets])}
        return any(id(each) in remain for each in own)

    def _find(
        self, at: int, place: Place, most: int, broken: bool, outside: int | None = None
    ) -> dict[int, Step] | None:
        """The same with what has a value as it is to be; None where there is no way. Given how deep the stack is ``outside``, all where it is deeper."""
        first = self._made(at, place, broken=True) if broken else None
        places: dict[int, Place] = {at: place}
        steps: dict[int, Step] = {}
        telling: set[int] = set()
        apart: set[int] = set()
        waiting = [at]
        left = _MOST_STEPS
        while waiting and left:
            left -= 1
            start = waiting.pop()
            if start in apart:
                continue
            step = first if first is not None and start == at else self._step(start, places[start], outside)
            if step is not None and outside is not None:
                step.tells = False  # whatever it gives, no graph begins before the block ends
            if step is None or (step.tells and start not in telling and len(telling) == most):
                steps.pop(start, None)
                continue
            steps[start] = step
            if step.tells:
                telling.add(start)
            for target, after in step.targets():
                known = places.get(target)
                if known is None:
                    places[target] = after
                elif known.stack != after.stack or known.bound != after.bound:
                    apart.add(target)  # what goes on there is not one function
                    steps.pop(target, None)
                    continue
                else:
                    joined = known.joined(after)
                    if joined == known:
                        continue
                    places[target] = joined
                waiting.append(target)
        if waiting or at in apart:
            return None
        return steps if outside is not None else _that_count(at, steps)

    def _step(self, start: int, place: Place, outside: int | None) -> Step | None:
        """The step at an index; None where it does not belong to a stretch."""
        if outside is not None:
            return self._made(start, place) if len(place.stack) > outside else None
        op = self._instructions[group_end(self._instructions, start)]
        name = op.opname
        if name in _COMPUTES:
            operands = self._operands(start, op, place)
            return self._made(start, place) if Kind.FOREIGN in operands or _is_plain(op, operands) else None
        return self._made(start, place) if name in _MOVES or name.startswith(_BRANCHES) else None

    def _operands(self, start: int, op: Instruction, place: Place) -> tuple[Kind, ...]:
        """The kinds of what a step takes off the stack; of the iterator that it asks."""
        if op.opname == "FOR_ITER":
            return place.kinds[-1:]
        return place.kinds[stack_effects(self._instructions, start, list(place.stack), False)[0] :]

    def _made(self, start: int, place: Place, *, broken: bool = False) -> Step:
        """The step, made for real."""
        end = group_end(self._instructions, start)
        op = self._instructions[end]
        name = op.opname
        operands = self._operands(start, op, place)
        foreign = broken or Kind.FOREIGN in operands
        counts = foreign and name not in _LEAVES_ALONE and not name.startswith(_BRANCHES)
        given = Kind.FOREIGN if foreign and name != "COPY" else self._given(op, place, operands)
        follow = self._after(start, op, place, given, jumps=False) if falls_through(op) else None
        jump = None
        if op.target is not None:
            target = self._index[id(op.target)]
            if name == "FOR_ITER":
                target += len(current().end_for())
            jump = target, self._after(start, op, place, given, jumps=True)
        tells = counts and follow is not None and name not in _GIVES_NOTHING and not pushes_null(op)
        tells = tells and self._pushes(start, place)
        return Step(start, end, follow, jump, tells, counts or broken or name in ("RETURN_VALUE", "RETURN_CONST"))

    def _pushes(self, start: int, place: Place) -> bool:
        kept, stack = stack_effects(self._instructions, start, list(place.stack), False)
        return len(stack) > kept

    def _given(self, op: Instruction, place: Place, operands: tuple[Kind, ...]) -> Kind:
        """The kind of what a step gives whose operands are none of them foreign."""
        match op.opname:
            case "LOAD_FAST" | "LOAD_FAST_CHECK" | "LOAD_FAST_AND_CLEAR" | "LOAD_DEREF":
                return place.local.get(op.argval, Kind.UNKNOWN)
            case "LOAD_CONST" | "LOAD_SMALL_INT":
                return Kind.PLAIN
            case "LOAD_GLOBAL":
                found = self._globals.get(op.argval, self)
                return kind_of(vars(builtins).get(op.argval) if found is self else found)
            case "COPY":
                return place.kinds[-(op.arg or 0)]
            case name if name in _READS:
                return Kind.UNKNOWN
            case _:
                return Kind.PLAIN if all(each <= Kind.BUILT_IN for each in operands) else Kind.UNKNOWN

    def _after(self, start: int, op: Instruction, place: Place, given: Kind, *, jumps: bool) -> Place:
        """The place behind a step that ends with such an operation, and gives what is of a kind."""
        kept, stack = stack_effects(self._instructions, start, list(place.stack), jumps)
        bound, local = place.bound, place.local
        kinds = [*place.kinds[:kept], *[given] * (len(stack) - kept)]
        match op.opname:
            case "SWAP":
                kinds = list(place.kinds)
                other = -(op.arg or 0)
                kinds[-1], kinds[other] = kinds[other], kinds[-1]
            case "STORE_FAST":
                bound = bound | {op.argval} if place.stack[-1] else bound - {op.argval}
                local = {**local, op.argval: place.kinds[-1]}
            case "STORE_DEREF":
                local = {**local, op.argval: place.kinds[-1]}
            case "DELETE_FAST":
                bound = bound - {op.argval}
            case "MAKE_CELL":  # a comprehension's, in the place of the cell that is put aside
                stack, kinds = [*place.stack, True], [*place.kinds, given]
            case "LOAD_FAST_AND_CLEAR":
                stack = [*place.stack, op.argval in bound]
                bound = bound - {op.argval}
            case name if name in _FILLS:
                at = -(op.arg or 0)
                kinds[at] = max(kinds[at], *place.kinds[kept:])
        return Place(tuple(stack), bound, tuple(kinds), local)


def _is_plain(op: Instruction, operands: tuple[Kind, ...]) -> bool:
    """Whether a step that computes meets no tensors."""
    name, arg = current().subscript
    if op.opname == name and arg in (None, op.arg):
        return Kind.TENSOR not in operands
    if op.opname not in _CALLS:
        return max(operands) <= Kind.BUILT_IN
    callee = operands[:2]
    return Kind.BUILT_IN in callee and max(operands) <= Kind.BUILT_IN


def _that_count(at: int, steps: dict[int, Step]) -> dict[int, Step]:
    """Those from which one that counts may be reached: what comes behind the last of them a graph may begin with."""
    leads_to: dict[int, list[int]] = {}
    for step in steps.values():
        for target, _ in step.targets():
            leads_to.setdefault(target, []).append(step.start)
    waiting = [step.start for step in steps.values() if step.counts]
    found: set[int] = set()
    while waiting:
        start = waiting.pop()
        if start not in found:
            found.add(start)
            waiting += leads_to.get(start, ())
    # And of these what the beginning leads to, over nothing else.
    reached: dict[int, Step] = {}
    waiting = [at] if at in found else []
    while waiting:
        start = waiting.pop()
        if start not in reached:
            reached[start] = steps[start]
            waiting += [target for target, _ in steps[start].targets() if target in found]
    return reached
