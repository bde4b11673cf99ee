"""Graphs within the graph: what a branch or a loop's body records becomes the graph of an operation of control flow.

In: functions of the program, evaluated into the one graph. Out: their calls taken out of it again, and one call of a
`symshapes.ControlFlow` in their place. Tensors of closures and modules become operands like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from capture._torch import inside
from capture.errors import Unsupported
from capture.settings import in_force
from capture.variables.base import Interpreter, SymbolicRaise, Variable
from capture.variables.functions import Cell, Function
from capture.variables.generators import Generator
from capture.variables.iterators import Iterator
from capture.variables.mapping_inputs import InputDict
from capture.variables.mappings import Dict
from capture.variables.sequences import InputList, List, Tuple
from capture.variables.tensors import Tensor
from symshapes import (
    SYMBOLIC,
    AssociativeScan,
    Checkpoint,
    Conditional,
    ControlFlow,
    LazyGraphModule,
    Loop,
    Scan,
    connected,
    contiguous_strides,
    dataclass,
)

from .globals import ProgramGlobals
from .recorder import GraphRecorder
from .side_effects import SideEffects
from .state import EvaluationState


@dataclass
class Evaluated:
    """What a function gave, and the calls that it recorded; those that are about sizes of what is outside stay there."""

    result: Variable
    leaves: list[Tensor]
    calls: list[fx.Node]

    def free(self) -> Iterable[fx.Node]:
        """The nodes outside that it uses."""
        inside = set(self.calls)
        used = [node for call in self.calls for node in call.all_input_nodes]
        used += [leaf.node for leaf in self.leaves]
        return [node for node in used if node not in inside]


@dataclass(frozen=True)
class Like:
    """What a tensor is like."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device
    needs_grad: bool


class Subgraphs:
    """Records control flow in the graph of one attempt."""

    def __init__(
        self,
        m: Interpreter,
        state: EvaluationState,
        effects: SideEffects,
        module_globals: ProgramGlobals,
        recorder: GraphRecorder,
    ) -> None:
        self._m = m
        self._state = state
        self._effects = effects
        self._globals = module_globals
        self._recorder = recorder

    def conditional(
        self, condition: Tensor, branches: Sequence[Callable[[], Variable]], operands: Sequence[Tensor]
    ) -> Variable:
        """What the first branch gives where the condition holds, else the second; `operands` get a gradient in any case."""
        first, second = parts = [self.evaluated(branch) for branch in branches]
        _require_alike(first, second)
        free = list(dict.fromkeys([*(o.node for o in operands), *first.free(), *second.free()]))
        self._require_apart(parts, free)
        conditional = Conditional([self.taken_out(part, free) for part in parts])
        values = self._connected([leaf.fake for leaf in first.leaves], free)
        called = self.called(conditional, [condition.node, *free], values, [*first.calls, *second.calls])
        return self._restored(first.result, iter(called))

    def loop(
        self,
        condition: Callable[[list[Variable]], Variable],
        body: Callable[[list[Variable]], Variable],
        carried: Sequence[Tensor],
    ) -> Variable:
        """The body's values, beginning with `carried`, as soon as the condition does not hold of them."""
        _require_plain(carried)
        given, made = self._step(body, [_like(value.fake) for value in carried], len(carried))
        own = [value.node for value in given]
        test = self.evaluated(lambda: condition(list(given)), own)
        if len(test.leaves) != 1 or not isinstance(test.result, Tensor) or not _is_condition(test.leaves[0].fake):
            raise Unsupported("a loop's condition that is no tensor of one bool")
        if not isinstance(made.result, (Tuple, List)) or made.result.items != made.leaves:
            raise Unsupported("a loop's body that does not give the values that it takes")
        _require_alike(Evaluated(made.result, given, []), made)
        free = _outside((test, made), own)
        self._require_apart([test, made], [*own, *free])
        loop = Loop([self.taken_out(part, [*own, *free]) for part in (test, made)], len(carried), _late(carried, given))
        arguments = [*(value.node for value in carried), *free]
        values = self._connected([leaf.fake for leaf in given], arguments)
        gone = [*own, *test.calls, *made.calls]
        return self._restored(made.result, iter(self.called(loop, arguments, values, gone)))

    def scan(
        self,
        step: Callable[[list[Variable]], Variable],
        carried: Sequence[Tensor],
        over: Sequence[Tensor],
        operands: Sequence[Tensor],
    ) -> list[Variable]:
        """What a step gives of what is carried and a slice of each of `over`, along their first dimension.

        Its first values are carried on, and given as they are in the end; the others are stacked. `operands` get a
        gradient in any case, as what is carried and scanned does.
        """
        _require_plain([*carried, *over])
        length, count = _length(over), len(carried)
        given, made = self._step(step, [*(_like(value.fake) for value in carried), *map(_slice, over)], count)
        own = [value.node for value in given]
        if len(made.leaves) < count:
            raise Unsupported("a scan whose function carries on fewer values than it takes")
        for one, other in zip(given[:count], made.leaves[:count], strict=True):
            _require_same_metadata(one.fake, other.fake)
        free = list(dict.fromkeys([*(value.node for value in operands), *_outside([made], own)]))
        self._require_apart([made], [*own, *free])
        scan = Scan([self.taken_out(made, [*own, *free])], count, len(over), _late(carried, given))
        fakes = [leaf.fake for leaf in made.leaves[:count]]
        fakes += [self._stacked(leaf.fake, length) for leaf in made.leaves[count:]]
        arguments = [*(value.node for value in (*carried, *over)), *free]
        return self.called(scan, arguments, self._connected(fakes, arguments), [*own, *made.calls])

    def associative_scan(self, combine: Callable[[list[Variable]], Variable], over: Sequence[Tensor]) -> list[Variable]:
        """What the function makes of all slices of `over` up to each, along their first dimension, of two of each at a time."""
        _require_plain(over)
        length = _length(over)
        slices = [_slice(x, dense=True) for x in over]
        given, made = self._step(combine, [*slices, *slices], len(over))
        own = [value.node for value in given]
        if len(made.leaves) != len(over):
            raise Unsupported("an associative scan whose function gives more or fewer values than it takes")
        for one, other in zip(given, made.leaves, strict=False):
            _require_same_metadata(one.fake, other.fake, laid_out=False)
        if any(node.meta.get("effect") == "other" for node in made.calls):
            raise Unsupported("an associative scan whose function draws random numbers")
        free = _outside([made], own)
        scan = AssociativeScan([self.taken_out(made, [*own, *free])], len(over), _late(over, given))
        fakes = [self._stacked(value.fake, length) for value in given[: len(over)]]
        arguments = [*(value.node for value in over), *free]
        return self.called(scan, arguments, fakes, [*own, *made.calls])

    def checkpointed(
        self, function: Callable[[], Variable], saves: Callable[..., bool] | None
    ) -> tuple[Variable, list[fx.Node]]:
        """What a function gives, and its calls, marked as a checkpoint that `saves` some values. It must do nothing that counts twice."""
        graph = self._recorder.graph
        before, around = set(graph.graph.nodes), graph.checkpoint
        graph.checkpoint = Checkpoint(saves, around)
        try:
            result = self._unchanging(function, "a checkpoint")
        finally:
            graph.checkpoint = around
        return result, [node for node in graph.graph.nodes if node not in before and node.op != "placeholder"]

    # Evaluating

    def evaluated(self, function: Callable[[], Variable], own: Sequence[fx.Node] = ()) -> Evaluated:
        """Evaluate a function, to which the nodes `own` belong, that must leave nothing behind but its result and calls."""
        if self._m.levels.inside:
            raise Unsupported("control flow within a function transform")
        if self._m.modes.asks(()):  # torch itself runs it in a way that modes do not see
            raise Unsupported("control flow under a torch-function mode")
        leaves: list[Tensor] = []

        def evaluated() -> Variable:
            result = function().realize(self._m)
            leaves.extend(self._leaves(result))
            return result

        result, calls = self.calls_of(evaluated, "control flow", own)
        return Evaluated(result, leaves, calls)

    def calls_of(
        self, function: Callable[[], Variable], what: str, own: Sequence[fx.Node] = ()
    ) -> tuple[Variable, list[fx.Node]]:
        """What a function gives, and the calls that it recorded, but for those about sizes of what is outside: it must do nothing else."""
        graph = self._recorder.graph.graph
        before = set(graph.nodes)
        result = self._unchanging(function, what)
        calls: dict[fx.Node, None] = {}
        for node in graph.nodes:
            if node in before or node.op == "placeholder":
                continue
            number = isinstance(node.meta.get("val"), SYMBOLIC)
            if not number or any(part in calls or part in own for part in node.all_input_nodes):
                calls[node] = None
        return result, list(calls)

    def is_beside_generators(self) -> bool:
        """Whether the program holds a generator, which what is evaluated could step."""
        return any(isinstance(each, Generator) for each in self._iterators())

    def _unchanging(self, function: Callable[[], Variable], what: str) -> Variable:
        """Evaluate a function that must leave nothing behind but its result and calls; `what` would be wrong otherwise, in words."""
        recorder, effects = self._recorder, self._effects
        before = set(recorder.graph.placeholders)
        outside = [fake for fake in recorder.graph.inputs if isinstance(fake, torch.Tensor)]
        outside += [tensor.fake for tensor in recorder.fakes.values()]
        written = recorder.fake_mode.written.copy()
        versions, uncounted = [self._writes(fake) for fake in outside], len(recorder.graph.uncounted)
        settings, module_globals, placed = in_force(), dict(self._globals.written), len(recorder.placed)
        switched = len(recorder.switches.made)
        env = recorder.dynamic_sizes.env
        promised, from_data = len(env.runtime_asserts), env.unbacked_count
        places = [(fake.requires_grad, fake.is_leaf) for fake in outside]
        iterators = [(each, _parts_of(each)) for each in effects.iterators]
        if self.is_beside_generators():
            raise Unsupported(f"{what} beside a generator, which it may step")
        with effects.apart() as changed:
            try:
                result = function().realize(self._m)
            except SymbolicRaise as error:
                raise Unsupported(f"{what} over a function that raises") from error
        if changed() or self._globals.written != module_globals or len(recorder.placed) != placed:
            raise Unsupported(f"{what} over a function that changes what is outside of it")
        set_apart = in_force() != settings or len(recorder.switches.made) != switched
        if set_apart or any(_parts_of(each) != state for each, state in iterators):
            raise Unsupported(f"{what} over a function that changes what is outside of it")
        if len(env.runtime_asserts) != promised:
            raise Unsupported(f"{what} over a function that promises something of data")
        inputs = zip(recorder.graph.inputs, recorder.graph.placeholders, strict=True)  # also those that were met within
        met = any(
            isinstance(f, torch.Tensor) and self._writes(f) != self._writes(f, n.meta["version"], written)
            for f, n in inputs
            if n not in before
        )
        # What `Tensor.data` gives counts its own writes.
        apart = {
            inside(fake).storage_key
            for fake in recorder.graph.uncounted[uncounted:]
            if self._writes(fake) != self._writes(fake, 0, written)
        }
        if apart:
            within = [fake for fake in recorder.graph.inputs[len(before) :] if isinstance(fake, torch.Tensor)]
            met |= any(inside(fake).storage_key in apart for fake in (*outside, *within))
        if met or [self._writes(fake) for fake in outside] != versions:
            raise Unsupported(f"{what} over a function that writes to a tensor from outside of it")
        if [(fake.requires_grad, fake.is_leaf) for fake in outside] != places:
            raise Unsupported(f"{what} over a function that changes the place of a tensor in autograd's graph")
        if env.unbacked_count != from_data:
            raise Unsupported(f"{what} over a function with sizes that are in data")
        return result

    def _writes(self, fake: Any, version: int | None = None, written: Mapping[object, int] | None = None) -> int:
        """How often a fake was written to; its version, or by what the mode counts, or has `written`, where it has none."""
        if not fake.is_inference():
            return int(fake._version if version is None else version)
        counts = self._recorder.fake_mode.written if written is None else written
        return counts.get(inside(fake).storage_key, 0)

    def _iterators(self) -> Iterable[Any]:
        """Those that the program holds: a step of one is a change that no object tells of."""
        waiting: list[Any] = []
        for frame in self._state.frames:
            waiting += [*frame.local.values(), *frame.stack, *(cell.content for cell in frame.cells.values())]
        seen: set[int] = set()
        while waiting:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, (Iterator, Generator)):
                yield value
                waiting += [part for part in vars(value).values() if isinstance(part, Variable)]
            elif isinstance(value, (Tuple, List, Dict)):
                waiting += _parts(value)
            elif isinstance(value, Cell):
                waiting.append(value.content)
            elif isinstance(value, Function):
                waiting += value.closure

    def _leaves(self, value: Variable) -> Iterable[Tensor]:
        value = value.realize(self._m)
        if isinstance(value, Tensor):
            _require_plain([value])
            yield value
        elif type(value) in (Tuple, List, InputList, Dict, InputDict) and value.python_type() in (tuple, list, dict):
            for part in _parts(value):
                yield from self._leaves(part)
        else:
            raise Unsupported("control flow over a function that gives more than tensors")

    def _step(
        self, step: Callable[[list[Variable]], Variable], likes: Sequence[Like], count: int
    ) -> tuple[list[Tensor], Evaluated]:
        """A step of a loop, evaluated over tensors like these, of which the first `count` are those that it carries on.

        What requires grad after a step does so before the next one, so it does before all.
        """
        while True:
            given = [self.stand_in(like) for like in likes]
            own = [value.node for value in given]
            made = self.evaluated(lambda now=given: step(list(now)), own)  # type: ignore[misc]
            late = [
                leaf.fake.requires_grad and not value.fake.requires_grad
                for value, leaf in zip(given[:count], made.leaves, strict=False)
            ]
            if not any(late):
                return given, made
            late += [False] * (len(likes) - len(late))
            likes = [replace(like, needs_grad=like.needs_grad or n) for like, n in zip(likes, late, strict=True)]
            self._recorder.forget([*own, *made.calls])

    def stand_in(self, like: Like) -> Tensor:
        """Another tensor like it, for the time of evaluation."""
        with self._recorder.fake_mode, torch.no_grad():
            fake = torch.empty_strided(like.shape, like.strides, dtype=like.dtype, device=like.device)
        fake.requires_grad_(like.needs_grad)
        self._effects.left_behind()  # where the evaluation cannot go on, the graph does not end with this call in it
        node = self._recorder.graph.call("call_function", torch.empty_strided, (), {}, self._state.where())
        node.meta["val"] = fake
        variable = self._effects.created(Tensor(node, fake))
        self._recorder.know(variable)
        return variable

    def _stacked(self, fake: Any, length: Any) -> Any:
        """What as many tensors as this come to, of which one may require grad."""
        with self._recorder.fake_mode:
            stacked = torch.empty((length, *fake.shape), dtype=fake.dtype, device=fake.device)
            return stacked.requires_grad_().clone() if fake.requires_grad else stacked

    # Taking out

    def _require_apart(self, parts: Sequence[Evaluated], free: Sequence[fx.Node]) -> None:
        keys = [v.storage_key for node in free if isinstance(v := node.meta["val"], torch.Tensor)]  # type: ignore[attr-defined]
        for part in parts:
            own = [leaf.fake.storage_key for leaf in part.leaves]  # type: ignore[attr-defined]
            if any(key in keys or own.count(key) > 1 for key in own):
                raise Unsupported("control flow over a function that gives what it was given, a view of it, or views")

    def taken_out(self, part: Evaluated, free: Sequence[fx.Node]) -> fx.GraphModule:
        """The calls as a graph of their own, which takes the values of `free`."""
        return self.graph_of(part.calls, free, [leaf.node for leaf in part.leaves])

    def graph_of(self, calls: Sequence[fx.Node], free: Sequence[fx.Node], results: Sequence[fx.Node]) -> fx.GraphModule:
        """Calls as a graph of their own, which takes the values of `free`."""
        graph = fx.Graph()
        env: dict[fx.Node, fx.Node] = {}
        for node in free:
            env[node] = graph.placeholder(node.name)
            env[node].target = env[node].name
            env[node].meta["val"] = node.meta["val"]
        for node in calls:
            env[node] = graph.node_copy(node, env.__getitem__)
        graph.output(tuple(env[node] for node in results))
        return LazyGraphModule(torch.nn.Module(), graph)

    def _connected(self, fakes: Sequence[Any], operands: Sequence[fx.Node]) -> tuple[Any, ...]:
        """The fakes of an operation's values, with their place in autograd as `symshapes.connected` makes it."""
        with self._recorder.fake_mode:  # within it detaching is cheaper
            apart = [fake.detach() for fake in fakes]
            return connected(apart, [node.meta["val"] for node in operands])

    def called(
        self,
        operation: ControlFlow,
        arguments: Sequence[fx.Node],
        values: Sequence[Any],
        gone: Sequence[fx.Node],
        *,
        computed: bool = False,
    ) -> list[Variable]:
        """The values of the operation's call, in the place of the calls `gone` that are in its graphs now; `computed`: see ``forget``."""
        recorder = self._recorder
        recorder.forget(gone, computed=computed)
        refused = recorder.refusals.reason(type(operation), [n.meta["val"] for n in arguments], {}, values)
        if refused is not None:
            raise Unsupported(refused)
        acts = any(node.meta.get("effect") == "other" for node in gone)
        variable = recorder.control(operation, tuple(arguments), tuple(values), acts)
        assert isinstance(variable, Tuple)
        return list(variable.items)

    def _restored(self, value: Variable, items: Any) -> Variable:
        value = value.realize(self._m)
        if isinstance(value, Tensor):
            return next(items)
        if isinstance(value, Dict):
            entries = {key: (name, self._restored(part, items)) for key, (name, part) in value.entries.items()}
            return self._effects.created(Dict(entries))
        assert isinstance(value, (Tuple, List))
        made = [self._restored(part, items) for part in value.items]
        return self._effects.created((Tuple if isinstance(value, Tuple) else List)(made))


def _parts(value: Any) -> list[Variable]:
    return [part for _, part in value.entries.values()] if isinstance(value, Dict) else list(value.items)


def _parts_of(iterator: Iterator) -> dict[str, Any]:
    """Its parts, as they are by now."""
    return {name: part[:] if type(part) is list else part for name, part in vars(iterator).items()}


def _require_plain(tensors: Iterable[Tensor]) -> None:
    if any(tensor.cls not in (torch.Tensor, torch.nn.Parameter) for tensor in tensors):
        raise Unsupported("control flow over a tensor subclass")


def _structure(value: Variable) -> Any:
    if isinstance(value, Tensor):
        return None
    keys = list(value.entries) if isinstance(value, Dict) else None
    return value.python_type(), keys, [_structure(part) for part in _parts(value)]


def _require_alike(first: Evaluated, second: Evaluated) -> None:
    """Raise where the results have not the same structure, sizes, strides, dtypes and devices; sizes are guarded to be."""
    if _structure(first.result) != _structure(second.result):
        raise Unsupported("control flow over functions whose results differ in structure")
    for one, other in zip(first.leaves, second.leaves, strict=True):
        _require_same_metadata(one.fake, other.fake)


def _require_same_metadata(a: Any, b: Any, *, laid_out: bool = True) -> None:
    """Raise where these differ in size, dtype, device or, if that counts, strides; sizes are guarded to be the same."""
    kinds = [(each.dtype, each.device, each.dim(), each.layout) for each in (a, b)]
    numbers = [(*each.shape, *(each.stride() if laid_out else ())) for each in (a, b)]
    if kinds[0] != kinds[1] or not all(bool(x == y) for x, y in zip(*numbers, strict=True)):
        raise Unsupported("control flow over functions whose results differ in metadata")


def _outside(parts: Sequence[Evaluated], own: Sequence[fx.Node]) -> list[fx.Node]:
    """What the parts use of what is around them."""
    return list(dict.fromkeys(node for part in parts for node in part.free() if node not in own))


def _late(carried: Sequence[Tensor], given: Sequence[Tensor]) -> list[int]:
    """The places of what is carried that requires grad from the first step on only."""
    pairs = enumerate(zip(carried, given, strict=False))
    return [at for at, (value, each) in pairs if each.fake.requires_grad and not value.fake.requires_grad]


def _like(fake: Any) -> Like:
    return Like(tuple(fake.shape), tuple(fake.stride()), fake.dtype, fake.device, fake.requires_grad)


def _slice(tensor: Tensor, *, dense: bool = False) -> Like:
    """A slice along the first dimension."""
    whole = _like(tensor.fake)
    strides = contiguous_strides(whole.shape[1:]) if dense else whole.strides[1:]
    return replace(whole, shape=whole.shape[1:], strides=tuple(strides))


def _length(over: Sequence[Tensor]) -> Any:
    """How many slices each has."""
    lengths = [tensor.fake.shape[0] for tensor in over]
    if not all(bool(length == lengths[0]) for length in lengths):
        raise Unsupported("a scan over tensors of different lengths")
    return lengths[0]


def _is_condition(fake: Any) -> bool:
    return bool(fake.dtype is torch.bool and fake.numel() == 1)
