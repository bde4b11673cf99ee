"""An `if` on what a tensor holds whose arms only compute: both are evaluated into graphs, of which the run chooses one; no break.

In: a jump, and its condition. Out: the frame where the arms meet again, with what they computed as results of a `symshapes.Branch`.
Where an arm does more, the frame is evaluated again, and breaks at the jump.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, TypeGuard

import torch
from torch import fx

from capture._native import address
from capture._torch import inside as inside_of
from capture.errors import CaptureError, EvaluateAgain, NotConstant, Unsupported
from capture.lifetimes import lifetimes_of
from capture.resume import seen_by_super
from capture.variables.base import Variable
from capture.variables.constants import Constant, is_one_constant
from capture.variables.numbers import Symbolic
from capture.variables.sequences import Tuple
from capture.variables.tensors import Tensor
from symshapes import Arm, Branch, UnbackedError, connected, dataclass, is_unbacked

from .frame import RETURN, Frame
from .joins import Ways, next_condition, settled, ways_of
from .machine import Machine
from .program import Op
from .trials import is_programs_own

#: In words, with what a function does that it is not to do.
_WHAT = "an arm of an if"
#: Calls that are recorded for all arms of an `if`, and instructions: where one goes on to the end of a long function, or ways part again and again,
#: these would be for each.
_LONGEST, _MOST_INSTRUCTIONS = 200, 10_000
#: Calls that a second condition may cost where the first has decided.
_CHEAP = 8


class Impure(Unsupported):
    """Signal: an arm does more than to compute."""


@dataclass
class Way:
    """What one arm left: the frame's locals and stack, or what it returned; and the calls that it recorded."""

    local: dict[str, Variable] = field(default_factory=dict)
    stack: list[Variable] = field(default_factory=list)
    calls: list[fx.Node] = field(default_factory=list)
    #: What it made, by identity.
    made: set[int] = field(default_factory=set)


@dataclass
class Results:
    """What differs between the arms, a pair of tensors a result of the branch; and how it is put together again."""

    pairs: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    places: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Tuples of each arm's own, a pair a tuple.
    tuples: dict[tuple[int, int], Parts] = field(default_factory=dict)
    made: tuple[set[int], set[int]] = (set(), set())


@dataclass(frozen=True)
class Place:
    """Where a result of the branch goes."""

    number: int


@dataclass(frozen=True)
class Parts:
    """A tuple with results of the branch in it."""

    items: tuple[Any, ...]


def joined(m: Machine, frame: Frame, op: Op, condition: Variable, *, jumps_if: bool, keeps: bool = False) -> bool:
    """Whether both ways of a jump are in the graph now, and the frame is where they meet: `len(ops)` if it has returned.

    `keeps`: where it jumps the condition stays on the stack.
    """
    key = ("if", frame.code, op.index)
    if key in m.effects.ran_ahead or not _may_be(condition, m, frame):
        return False
    ways = ways_of(frame.code, op)
    impure = m.recorder.refusals.impure
    if ways is None or op.index in (impure.get(frame.code) or ()):
        return False
    if not m.state.in_arms:
        m.state.arms_began = m.state.instructions, m.effects.changes
    m.state.in_arms += 1
    try:
        _join(m, frame, ways, condition, key, jumps_if, keeps)
    except EvaluateAgain:
        raise
    except (CaptureError, NotConstant, UnbackedError, RecursionError) as problem:
        if m.state.in_arms > 1:  # which is up to the outermost
            raise Unsupported(f"{_WHAT} that does more than to compute") from problem
        m.effects.ran_ahead.add(key)
        if isinstance(problem, Impure):  # so it will be in further captures
            impure[frame.code] = {*(impure.get(frame.code) or ()), op.index}
        raise EvaluateAgain(f"{_WHAT} that does more than to compute") from problem
    finally:
        m.state.in_arms -= 1
    return True


def _may_be(condition: Variable, m: Machine, frame: Frame) -> TypeGuard[Tensor | Symbolic]:
    """Whether it is a condition of which only the run can tell, and nothing around it forbids that both ways of a jump are evaluated."""
    state, recorder = m.state, m.recorder
    if isinstance(condition, Symbolic):
        if condition.python_type() is not bool or not is_unbacked(condition.value):
            return False
    elif (
        not isinstance(condition, Tensor)
        or condition.cls not in (torch.Tensor, torch.nn.Parameter)
        or condition.replaced(m, "__bool__") is not None
        or any(type(size) is not int or size != 1 for size in condition.fake.shape)
    ):
        return False
    if m.levels.inside or m.modes.asks((condition,)) or recorder.graph.checkpoint is not None:
        return False
    if recorder.autocast_nesting_change or recorder.inference.inside or recorder.is_below_autograd:
        return False
    if state.freezes or state.probing or state.visit is not None or state.mortal or frame.names is not None:
        return False
    return not m.subgraphs.is_beside_generators()


def _join(
    m: Machine, frame: Frame, ways: Ways, condition: Tensor | Symbolic, key: Any, jumps_if: bool, keeps: bool
) -> None:
    resumable, frame.resumable = frame.resumable, False  # no arm is gone on with by itself
    op, local, stack = frame.op, frame.local.copy(), frame.stack[:]
    try:
        starts = (ways.target, ways.on) if jumps_if else (ways.on, ways.target)
        kept = condition
        if not keeps and isinstance(condition, Tensor):
            condition, starts = _with_more(m, frame, condition, starts)
        arms = []
        for start in starts:
            if keeps and start == ways.target:
                frame.push(kept)
            arms.append(_evaluated(m, frame, start, ways.join))
            frame.op = op
            _restore(frame, local, stack)
        _merge(m, frame, ways.join, condition, arms, key)
    finally:
        frame.resumable = resumable


def _restore(frame: Frame, local: dict[str, Variable], stack: list[Variable]) -> None:
    """In place: the frame's loop has both."""
    frame.local.clear()
    frame.local.update(local)
    frame.stack[:] = stack


# The condition


def _with_more(m: Machine, frame: Frame, condition: Tensor, starts: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
    """The condition together with those that come after it in a chain of `and` or `or`, and where the two ways of them all begin."""
    local, stack, op = frame.local.copy(), frame.stack[:], frame.op
    ops = frame.program.ops
    while True:
        for at in (0, 1):
            jump = next_condition(frame.code, starts[at], starts[1 - at])
            if jump is not None:
                break
        else:
            return condition, starts
        found: list[Variable] = []

        def second(jump: Op = jump, start: int = starts[at], found: list[Variable] = found) -> Variable:
            _run(m, frame, start, jump.index)
            found.append(frame.stack.pop().realize(m))
            return Constant(None)

        calls = m.subgraphs.calls_of(second, _WHAT)[1]
        unchanged = frame.local == local and len(frame.stack) == len(stack)
        frame.op = op
        _restore(frame, local, stack)
        (more,) = found
        if (
            not unchanged
            or not isinstance(more, Tensor)
            or not _may_be(more, m, frame)
            or len(calls) > _CHEAP
            or any(_does_more(call) or (callable(call.target) and is_programs_own(call.target)) for call in calls)
        ):
            m.recorder.forget(calls, computed=not any(map(_does_more, calls)))
            return condition, starts
        jumps_if = "TRUE" in jump.name
        if settled(ops, jump.target) == settled(ops, starts[1 - at]):
            new, leads = jump.index + 1, not jumps_if
        else:
            new, leads = jump.target, jumps_if
        # `at` 0: as long as all hold the way begins at `new`, else at the other.
        if not leads:
            more = _recorded(m, torch.logical_not, more) if at == 0 else more
        elif at == 1:
            more = _recorded(m, torch.logical_not, more)
        condition = _recorded(m, torch.logical_and if at == 0 else torch.logical_or, condition, more)
        starts = (new, starts[1]) if at == 0 else (starts[0], new)


def _recorded(m: Machine, function: Any, *args: Variable) -> Tensor:
    made = m.recorder.record("call_function", function, list(args), {})
    assert isinstance(made, Tensor)
    return made


# The arms


def _evaluated(m: Machine, frame: Frame, start: int, join: int) -> Way:
    """What an arm does, which must be nothing but to compute."""
    found = Way()
    cells = [(cell, cell.content) for each in m.state.frames for cell in each.cells.values()]
    own = frame.cells.copy()

    def arm() -> Variable:
        _run(m, frame, start, join)
        found.local, found.stack = frame.local.copy(), frame.stack[:]
        found.made = {*map(address, m.effects.made_apart)}
        if join == len(frame.program.ops):
            found.local, found.stack = {}, [frame.result]
        return Constant(None)

    try:
        found.calls = m.subgraphs.calls_of(arm, _WHAT)[1]
    except (Unsupported, NotConstant, UnbackedError) as problem:
        raise Impure(str(problem)) from problem
    if frame.cells != own or any(cell.content is not content for cell, content in cells):
        raise Unsupported(f"{_WHAT} that sets a variable of closures")
    if any(map(_does_more, found.calls)):
        raise Unsupported(f"{_WHAT} that does more than to compute")
    return found


def _run(m: Machine, frame: Frame, start: int, end: int) -> None:
    ops = frame.program.ops
    frame.ip = start
    instructions, changes = m.state.arms_began
    while frame.ip != end:
        if m.state.instructions - instructions > _MOST_INSTRUCTIONS or m.effects.changes - changes > _LONGEST:
            raise Unsupported(f"{_WHAT} that goes on for long")
        op = frame.op = ops[frame.ip]
        if op.name == "TO_BOOL" and op.index + 1 == end:  # of one step with the jump
            frame.ip = end
            return
        frame.ip += 1
        m.state.count_instructions(1)
        signal = op.handler(m, frame, op)
        if signal is not None:
            if signal != RETURN or end != len(ops):
                raise Unsupported(f"{_WHAT} that leaves the frame")
            return


def _does_more(call: fx.Node) -> bool:
    """Whether a call does more than to compute: draws random numbers, sets torch's state, may raise."""
    meta = call.meta
    return meta.get("effect", "write") != "write" or meta.get("val") is None or "risk" in meta or "caught" in meta


# What they leave


def _merge(m: Machine, frame: Frame, join: int, condition: Tensor | Symbolic, arms: list[Way], key: Any) -> None:
    """Set the frame to where its arms meet."""
    first, second = arms
    results, end = Results(made=(first.made, second.made)), len(frame.program.ops)
    if len(first.stack) != len(second.stack):
        raise Unsupported(f"{_WHAT} that leaves another stack")
    stack = [_merged(m, one, other, results) for one, other in zip(first.stack, second.stack, strict=True)]
    local: dict[str, Any] = {}
    live: set[str | None] = set()
    if join < end:
        live = {*lifetimes_of(frame.code).read[join], seen_by_super(frame.code)}
    for name in dict.fromkeys((*first.local, *second.local)):
        one, other = first.local.get(name), second.local.get(name)
        if one is other and one is not None:
            local[name] = one
        elif name not in live:
            continue
        elif one is None or other is None:
            raise Unsupported(f"{_WHAT} that gives a variable its value")
        else:
            local[name] = _merged(m, one, other, results)
    made = _called(m, condition, arms, results.pairs, key)
    tuples: dict[int, Variable] = {}
    frame.ip = join
    _restore(
        frame,
        {name: _put_together(m, each, made, tuples) for name, each in local.items()},
        [_put_together(m, each, made, tuples) for each in stack],
    )
    if join == end:
        frame.result = frame.stack.pop()


def _merged(m: Machine, one: Variable, other: Variable, results: Results) -> Any:
    """A value that is the same in both arms, or where results of the branch go."""
    if one is other:
        return one
    one, other = one.realize(m), other.realize(m)
    if one is other:
        return one
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        place = results.places.setdefault((id(one), id(other)), len(results.pairs))
        if place == len(results.pairs):
            results.pairs.append((one, other))
        return Place(place)
    if isinstance(one, Tuple) and isinstance(other, Tuple):
        if one.literal is not None and one.literal is other.literal:
            return one
        alike = one.cls is other.cls is tuple and len(one.items) == len(other.items)
        if alike and address(one) in results.made[0] and address(other) in results.made[1]:
            pair = id(one), id(other)
            if pair not in results.tuples:
                items = [_merged(m, each, beside, results) for each, beside in zip(one.items, other.items, strict=True)]
                results.tuples[pair] = Parts(tuple(items))
            return results.tuples[pair]
    elif isinstance(one, Constant) and isinstance(other, Constant) and is_one_constant(one.value, other.value):
        return one
    raise Unsupported(f"{_WHAT} that gives a variable another value than the other")


def _put_together(m: Machine, value: Any, made: list[Variable], tuples: dict[int, Variable]) -> Variable:
    if isinstance(value, Place):
        return made[value.number]
    if isinstance(value, Parts):
        found = tuples.get(id(value))
        if found is None:
            items = [_put_together(m, each, made, tuples) for each in value.items]
            found = tuples[id(value)] = m.builder.new_tuple(items)
        return found
    kept: Variable = value
    return kept


def _called(
    m: Machine, condition: Tensor | Symbolic, arms: list[Way], pairs: list[tuple[Tensor, Tensor]], key: Any
) -> list[Variable]:
    """The results of the branch, whose calls are taken out of the graph."""
    gone = [call for arm in arms for call in arm.calls]
    if not pairs:
        m.recorder.forget(gone, computed=True)
        return []
    for one, other in pairs:
        _require_alike(one, other)
    inside = set(gone)
    leaves = [[pair[at] for pair in pairs] for at in (0, 1)]
    free: dict[fx.Node, int] = {}
    for arm, results in zip(arms, leaves, strict=True):
        for node in (*(node for call in arm.calls for node in call.all_input_nodes), *(leaf.node for leaf in results)):
            if node not in inside:
                free.setdefault(node, len(free))
    shared = _shared(m, leaves, inside, free)
    graphs: list[fx.GraphModule] = []
    ways: list[Arm] = []
    for arm, results in zip(arms, leaves, strict=True):
        made = list(dict.fromkeys(leaf.node for leaf in results if leaf.node in inside))
        used = {node for call in arm.calls for node in call.all_input_nodes}
        taken = [node for node in free if node in used]
        gives = tuple(made.index(leaf.node) if leaf.node in inside else ~free[leaf.node] for leaf in results)
        ways.append(Arm(len(graphs) if made else None, tuple(free[node] for node in taken) if made else (), gives))
        if made:
            graphs.append(m.subgraphs.graph_of(arm.calls, taken, made))
    values = _values(m, [one for one, _ in pairs], list(free))
    items = m.subgraphs.called(Branch(graphs, ways), [condition.node, *free], values, gone, computed=True)
    recorder = m.recorder
    for item, storages, pair in zip(items, shared, pairs, strict=True):
        assert isinstance(item, Tensor)
        if any(map(_is_elsewhere, pair)):
            recorder.placed_by(key, item)
        if storages:
            item.either = key
            recorder.handed_on(key, [item.fake.storage_key, *storages])  # type: ignore[attr-defined]
    return items


def _require_alike(one: Tensor, other: Tensor) -> None:
    """Raise where two tensors are not the same but for what they hold, and for whether anything else is in their memory."""
    for each in (one, other):
        if each.cls is not torch.Tensor or (each.value is not None and type(each.value) is not torch.Tensor):
            raise Unsupported(f"{_WHAT} that gives a tensor of another class")
        if each.node is None or (each.fake.requires_grad and each.fake.is_leaf):
            raise Unsupported(f"{_WHAT} that gives a leaf of autograd's")
        if each.given and each.source is None:
            raise Unsupported(f"{_WHAT} that gives a tensor with attributes")
    a, b = one.fake, other.fake
    kinds = [
        (x.dtype, x.device, x.dim(), x.layout, x.requires_grad, x.is_conj(), x.is_neg(), x.is_inference())
        for x in (a, b)
    ]
    if kinds[0] != kinds[1] or a.layout is not torch.strided:
        raise Unsupported(f"{_WHAT} whose results differ in metadata")
    if not all(bool(x == y) for x, y in zip((*a.shape, *a.stride()), (*b.shape, *b.stride()), strict=True)):
        raise Unsupported(f"{_WHAT} whose results differ in metadata")


def _is_elsewhere(tensor: Tensor) -> bool:
    """Whether a tensor does not begin where its memory does, or was written to: as no other of the same metadata need be."""
    fake = tensor.fake
    return bool(fake.storage_offset() != 0) or (not fake.is_inference() and fake._version != 0)


def _shared(m: Machine, leaves: list[list[Tensor]], inside: set[fx.Node], free: Iterable[fx.Node]) -> list[set[object]]:
    """By result: the memory that it may be in which is something else's as well."""
    outside = {value.storage_key for node in free if isinstance(value := node.meta["val"], torch.Tensor)}  # type: ignore[attr-defined]
    found: list[set[object]] = [set() for _ in leaves[0]]
    for results in leaves:
        keys = [leaf.fake.storage_key for leaf in results]  # type: ignore[attr-defined]
        for at, (leaf, key) in enumerate(zip(results, keys, strict=True)):
            if leaf.node not in inside or key in outside or keys.count(key) > 1 or leaf.either is not None:
                found[at].add(key)
    hooked = {inside_of(act.tensor.fake).storage_key for act in m.recorder.autograd.acts if not act.is_over}
    if not hooked.isdisjoint(set().union(*found)):
        raise Unsupported(f"{_WHAT} that hands on a tensor with a hook")
    return found


def _values(m: Machine, like: list[Tensor], operands: list[fx.Node]) -> list[Any]:
    """Fakes of the results, in memory of their own; those that require grad do by all operands that do."""
    with m.recorder.fake_mode:
        with torch.no_grad():
            made: list[Any] = [
                torch.empty_strided(x.fake.shape, x.fake.stride(), dtype=x.fake.dtype, device=x.fake.device)
                for x in like
            ]
        needing = [at for at, each in enumerate(like) if each.fake.requires_grad]
        if needing:
            with torch.enable_grad():
                given = connected([made[at] for at in needing], [node.meta["val"] for node in operands])
            for at, value in zip(needing, given, strict=True):
                made[at] = value
    return made
