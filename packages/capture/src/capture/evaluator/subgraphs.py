"""Graphs within the graph: what a branch or a loop's body records becomes the graph of an operation of control flow.

In: functions of the program, evaluated into the one graph. Out: their calls taken out of it again, and one call of a
`symshapes.ControlFlow` in their place. Tensors of closures and modules become operands like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from capture.errors import Unsupported
from capture.settings import in_force
from capture.variables.base import Interpreter, SymbolicRaise, Variable
from capture.variables.functions import Cell, Function
from capture.variables.generators import Generator
from capture.variables.iterators import Iterator
from capture.variables.mappings import Dict
from capture.variables.sequences import List, Tuple
from capture.variables.tensors import Tensor
from symshapes import SYMBOLIC, Conditional, ControlFlow, LazyGraphModule, Loop, is_unbacked

from .globals import ProgramGlobals
from .recorder import GraphRecorder
from .side_effects import SideEffects
from .state import EvaluationState


@dataclass
class _Evaluated:
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
        first, second = parts = [self._evaluated(branch) for branch in branches]
        _require_alike(first, second)
        free = list(dict.fromkeys([*(o.node for o in operands), *first.free(), *second.free()]))
        self._require_apart(parts, free)
        conditional = Conditional([self._taken_out(part, free) for part in parts])
        fakes = [leaf.fake.detach() for leaf in first.leaves]
        return self._called(conditional, [condition.node, *free], fakes, free, first.result, parts)

    def loop(
        self,
        condition: Callable[[list[Variable]], Variable],
        body: Callable[[list[Variable]], Variable],
        carried: Sequence[Tensor],
    ) -> Variable:
        """The body's values, beginning with `carried`, as soon as the condition does not hold of them."""
        given = [self._stand_in(value) for value in carried]
        own = [value.node for value in given]
        test = self._evaluated(lambda: condition(list(given)), own)
        made = self._evaluated(lambda: body(list(given)), own)
        if len(test.leaves) != 1 or not isinstance(test.result, Tensor) or not _is_condition(test.leaves[0].fake):
            raise Unsupported("a loop's condition that is no tensor of one bool")
        if not isinstance(made.result, Tuple | List) or made.result.items != made.leaves:
            raise Unsupported("a loop's body that does not give the values that it takes")
        _require_alike(_Evaluated(made.result, list(given), []), made)
        outside = dict.fromkeys(node for part in (test, made) for node in part.free() if node not in own)
        self._require_apart([test, made], [*own, *outside])
        if any(v.requires_grad for node in (*own, *outside) if isinstance(v := node.meta["val"], torch.Tensor)):
            raise Unsupported("a loop with a gradient")
        loop = Loop([self._taken_out(part, [*own, *outside]) for part in (test, made)], len(carried))
        free = [*(value.node for value in carried), *outside]
        fakes = [leaf.fake.detach() for leaf in given]
        return self._called(loop, free, fakes, (), made.result, (_Evaluated(made.result, [], own), test, made))

    # Evaluating

    def _evaluated(self, function: Callable[[], Variable], own: Sequence[fx.Node] = ()) -> _Evaluated:
        """Evaluate a function, to which the nodes `own` belong, that must leave nothing behind but its result and calls."""
        recorder, effects = self._recorder, self._effects
        graph = recorder.graph.graph
        before = set(graph.nodes)
        outside = [fake for fake in recorder.graph.inputs if isinstance(fake, torch.Tensor)]
        outside += [tensor.fake for tensor in recorder.fakes.values()]
        versions = [_version(fake) for fake in outside]
        settings, module_globals, placed = in_force(), dict(self._globals.written), len(recorder.placed)
        promises = recorder.dynamic_sizes.env.runtime_asserts
        promised = len(promises)
        iterators = [(each, dict(vars(each))) for each in self._iterators()]
        if any(isinstance(each, Generator) for each, _ in iterators):
            raise Unsupported("control flow beside a generator, which it may step")
        with effects.apart() as changed:
            try:
                result = function().realize(self._m)
            except SymbolicRaise as error:
                raise Unsupported("control flow over a function that raises") from error
            leaves = list(self._leaves(result))
        if changed() or self._globals.written != module_globals or len(recorder.placed) != placed:
            raise Unsupported("control flow over a function that changes what is outside of it")
        if any(vars(each) != state for each, state in iterators) or in_force() != settings:
            raise Unsupported("control flow over a function that changes what is outside of it")
        if len(promises) != promised:
            raise Unsupported("control flow over a function that promises something of data")
        if [_version(fake) for fake in outside] != versions:
            raise Unsupported("control flow over a function that writes to a tensor from outside of it")
        calls: dict[fx.Node, None] = {}
        for node in graph.nodes:
            if node in before or node.op == "placeholder":
                continue
            number = isinstance(node.meta.get("val"), SYMBOLIC)
            if not number or any(part in calls or part in own for part in node.all_input_nodes):
                calls[node] = None
        if any(_is_of_data(node.meta.get("val")) for node in calls):
            raise Unsupported("control flow over a function with sizes that are in data")
        return _Evaluated(result, leaves, list(calls))

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
            if isinstance(value, Iterator | Generator):
                yield value
                waiting += [part for part in vars(value).values() if isinstance(part, Variable)]
            elif isinstance(value, Tuple | List | Dict):
                waiting += _parts(value)
            elif isinstance(value, Cell):
                waiting.append(value.content)
            elif isinstance(value, Function):
                waiting += value.closure

    def _leaves(self, value: Variable) -> Iterable[Tensor]:
        value = value.realize(self._m)
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (Tuple, List, Dict) and value.python_type() in (tuple, list, dict):
            for part in _parts(value):
                yield from self._leaves(part)
        else:
            raise Unsupported("control flow over a function that gives more than tensors")

    def _stand_in(self, value: Tensor) -> Tensor:
        """Another tensor like it, for the time of evaluation."""
        fake = value.fake
        with self._recorder.fake_mode, torch.no_grad():
            like = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)
        line = self._state.where()
        node = self._recorder.graph.call("call_function", torch.empty_like, (value.node,), {}, line)
        node.meta["val"] = like
        variable = self._recorder.fakes[id(like)] = self._effects.created(Tensor(node, like))
        return variable

    # Taking out

    def _require_apart(self, parts: Sequence[_Evaluated], free: Sequence[fx.Node]) -> None:
        keys = [v.storage_key for node in free if isinstance(v := node.meta["val"], torch.Tensor)]  # type: ignore[attr-defined]
        for part in parts:
            own = [leaf.fake.storage_key for leaf in part.leaves]  # type: ignore[attr-defined]
            if any(key in keys or own.count(key) > 1 for key in own):
                raise Unsupported("control flow over a function that gives what it was given, a view of it, or views")

    def _taken_out(self, part: _Evaluated, free: Sequence[fx.Node]) -> fx.GraphModule:
        """The calls as a graph of their own, which takes the values of `free`."""
        graph = fx.Graph()
        env: dict[fx.Node, fx.Node] = {}
        for node in free:
            env[node] = graph.placeholder(node.name)
            env[node].target = env[node].name
            env[node].meta["val"] = node.meta["val"]
        for node in part.calls:
            env[node] = graph.node_copy(node, env.__getitem__)
        graph.output(tuple(env[leaf.node] for leaf in part.leaves))
        return LazyGraphModule(torch.nn.Module(), graph)

    def _called(
        self,
        operation: ControlFlow,
        arguments: Sequence[fx.Node],
        fakes: list[Any],
        operands: Sequence[fx.Node],
        result: Variable,
        parts: Sequence[_Evaluated],
    ) -> Variable:
        """The operation's call instead of the parts' calls; its values in the structure of `result`."""
        recorder = self._recorder
        gone = [node for part in parts for node in part.calls]
        recorder.forget(gone)
        given = [node.meta["val"] for node in operands]
        with recorder.fake_mode:
            values = tuple(operation.connected(fakes, given)) if isinstance(operation, Conditional) else tuple(fakes)
        refused = recorder.refusals.reason(type(operation), [n.meta["val"] for n in arguments], {}, values)
        if refused is not None:
            raise Unsupported(refused)
        acts = any(node.meta.get("effect") == "other" for node in gone)
        variable = recorder.control(operation, tuple(arguments), values, acts)
        assert isinstance(variable, Tuple)
        items = iter(variable.items)
        return self._restored(result, items)

    def _restored(self, value: Variable, items: Any) -> Variable:
        value = value.realize(self._m)
        if isinstance(value, Tensor):
            return next(items)
        if isinstance(value, Dict):
            entries = {key: (name, self._restored(part, items)) for key, (name, part) in value.entries.items()}
            return self._effects.created(Dict(entries))
        assert isinstance(value, Tuple | List)
        made = [self._restored(part, items) for part in value.items]
        return self._effects.created(type(value)(made))


def _parts(value: Any) -> list[Variable]:
    return [part for _, part in value.entries.values()] if isinstance(value, Dict) else list(value.items)


def _structure(value: Variable) -> Any:
    if isinstance(value, Tensor):
        return None
    keys = list(value.entries) if isinstance(value, Dict) else None
    return type(value), keys, [_structure(part) for part in _parts(value)]


def _require_alike(first: _Evaluated, second: _Evaluated) -> None:
    """Raise where the results have not the same structure, sizes, strides, dtypes and devices; sizes are guarded to be."""
    if _structure(first.result) != _structure(second.result):
        raise Unsupported("control flow over functions whose results differ in structure")
    for one, other in zip(first.leaves, second.leaves, strict=True):
        a, b = one.fake, other.fake
        if (a.dtype, a.device, a.dim(), a.layout) != (b.dtype, b.device, b.dim(), b.layout) or not all(
            bool(x == y) for x, y in zip((*a.shape, *a.stride()), (*b.shape, *b.stride()), strict=True)
        ):
            raise Unsupported("control flow over functions whose results differ in metadata")


def _is_condition(fake: Any) -> bool:
    return bool(fake.dtype is torch.bool and fake.numel() == 1)


def _is_of_data(value: Any) -> bool:
    """Whether nobody knows a number in it before the program runs."""
    if isinstance(value, torch.Tensor):
        value = tuple(value.shape)
    if isinstance(value, tuple | list):
        return any(map(_is_of_data, value))
    return is_unbacked(value)


def _version(fake: Any) -> int:
    if fake.is_inference():
        raise Unsupported("control flow over tensors that count no writes")
    return int(fake._version)
