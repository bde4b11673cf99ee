"""Tracing a program, forward alone or forward and backward together.

In: an fx graph module (or any function of tensors) and its inputs, real or fake. Out: `InferenceGraph` or `JointGraph`:
functional ATen, and the `Signature` of the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils import _pytree as pytree

from aotgrad import _torch
from aotgrad.alias import History, sign
from aotgrad.chains import Chains, Edge, chains
from aotgrad.cleanup import clean_values, remove_dead
from aotgrad.decompositions import core_decompositions
from aotgrad.errors import Unsupported
from aotgrad.formulas import operator_of
from aotgrad.interpret import Shortcut, TracedRun, attached_tensors, swapped
from aotgrad.module import module_of
from aotgrad.routes import reached_inputs, separate_groups
from aotgrad.signature import Alias, Computed, InputItself, Signature
from aotgrad.standing import Standing, standing
from aotgrad.trace import Tracer
from symshapes import (
    FakeMode,
    FakeTensor,
    dataclass,
    finalizers_outside_modes,
    is_dense,
    levels_kept,
    phase,
    share_memory,
    undisturbed_autograd,
)

aten = torch.ops.aten

Table = Mapping[Any, Callable[..., Any]]


@dataclass(frozen=True)
class InferenceGraph:
    """A graph of `signature`'s results from the inputs (placeholders)."""

    graph: fx.Graph
    constants: dict[str, torch.Tensor]
    signature: Signature

    @property
    def module(self) -> fx.GraphModule:
        """The graph as a module, constants attached."""
        return module_of(self.graph, self.constants, "Inference")

    @property
    def inputs(self) -> list[Any]:
        """The fake inputs."""
        return [node.meta["val"] for node in self.graph.nodes if node.op == "placeholder"]


@dataclass(frozen=True)
class Cut:
    """Where a way back comes by another result (or by what leads to one) and goes on only with the sum of all gradients.

    Of `result` or, for a view that is made outside the graph, of output `output`. `asked`: users may ask about it;
    `standing`: from which call of the program's graph on it is there as it is, None if nobody can tell.
    """

    result: int | None
    output: int | None
    asked: bool
    standing: Standing | None


@dataclass(frozen=True)
class RunsOnce:
    """A backward of the program's that refuses to run again.

    It does if one of the results (by their tangents' numbers) has a gradient, and that of one of `inputs` (places in
    `Signature.grad_inputs`) is asked for. `refuse` raises the second time that it gets an object.
    """

    results: frozenset[int]
    inputs: frozenset[int]
    refuse: Callable[[Any], None]


@dataclass(frozen=True)
class JointGraph:
    """Forward and backward in one graph.

    Placeholders: the inputs, then one tangent for each differentiable result. The output is the results, then one
    gradient for each of `signature.grad_inputs` (None where there is none). Nodes that the backward made have
    `meta["backward"]`. `reached`: for each differentiable result, the places in `signature.grad_inputs` of the inputs that
    its gradient flows to. `groups`: the tangents' numbers, those of results together that are not differentiated one by one.

    `cuts` (see `trace_joint`): tangents of results (and, after them, of outputs) that others are computed from are sums
    of all gradients. A gradient for each follows those of the inputs: what others of its group add. Places in
    `reached` go on with the cuts; `groups` are in the order of the forward.

    `calls`: for differentiable results that are no outputs (views of them are), the node of the program's graph that has each; not
    of those of which nobody can tell.

    `once`: backwards of the program's that refuse to run again, where results are differentiated together.
    """

    graph: fx.Graph
    constants: dict[str, torch.Tensor]
    signature: Signature
    reached: tuple[frozenset[int], ...]
    groups: tuple[tuple[int, ...], ...]
    cuts: tuple[Cut, ...] = ()
    calls: Mapping[int, fx.Node] = field(default_factory=dict)
    once: tuple[RunsOnce, ...] = ()

    @property
    def module(self) -> fx.GraphModule:
        """The graph as a module, constants attached."""
        return module_of(self.graph, self.constants, "Joint")

    @property
    def result_count(self) -> int:
        """How many of the output's values are forward's."""
        return len(self.signature.differentiable)


@phase("trace")
@finalizers_outside_modes()
def trace_inference(
    program: Callable[..., Any],
    inputs: Sequence[Any],
    decompositions: Table | None = None,
    *,
    shortcuts: Mapping[fx.Node, Shortcut] | None = None,
) -> InferenceGraph:
    """Trace `program` forward, without gradients.

    Tensors that a module holds become inputs after the given ones (see `interpret.attached_tensors`). `shortcuts`: what is
    traced in place of some calls of a graph.
    Raises Unsupported for a program that has no functional graph.
    """
    with torch.no_grad():
        traced = _Traced.run(program, inputs, decompositions, shortcuts=shortcuts)
    return traced.inference()


@phase("trace")
@finalizers_outside_modes()
def trace_joint(
    program: Callable[..., Any],
    inputs: Sequence[Any],
    decompositions: Table | None = None,
    *,
    enable_grad: bool = True,
    cut: bool = False,
    shortcuts: Mapping[fx.Node, Shortcut] | None = None,
) -> JointGraph | InferenceGraph:
    """Trace `program` forward and backward; without gradients after all if no result requires one.

    `enable_grad`: grad mode where the program begins, which it may set otherwise for parts of itself. `cut`: cut the
    backward at results that others are computed from (`JointGraph.cuts`). `shortcuts`: see `trace_inference`.
    Raises Unsupported for a program that has no functional graph.
    """
    untraced: set[Any] = set()
    while True:
        try:
            with undisturbed_autograd():
                with torch.set_grad_enabled(enable_grad):
                    traced = _Traced.run(program, inputs, decompositions, untraced, shortcuts)
                return traced.joint(cut) if any(traced.signature.differentiable) else traced.inference()
        except Unsupported as refusal:
            op = operator_of(refusal.call)
            if op is None or op in untraced:
                raise
        untraced.add(op)  # the formula, if it was that, is applied as it runs


@dataclass
class _Traced:
    tracer: Tracer
    leaves: list[Any]
    nodes: list[Any]
    tensors: list[Any]
    signature: Signature
    returned: list[Any]
    ran: TracedRun | None
    history: list[History]

    @classmethod
    def run(
        cls,
        program: Callable[..., Any],
        inputs: Sequence[Any],
        table: Table | None,
        untraced: Collection[Any] = (),
        shortcuts: Mapping[fx.Node, Shortcut] | None = None,
    ) -> _Traced:
        if table is None:
            table = core_decompositions()
        fake_mode = _mode_of(inputs)
        tracer = Tracer(fake_mode, table)
        places = attached_tensors(program)
        with fake_mode:
            made = [_fresh_input(fake_mode, value) for value in (*inputs, *(place[2] for place in places))]
        leaves = [leaf for leaf, _ in made]
        fakes = [fake for _, fake in made]
        names = _names(program, len(inputs)) + [f"held_{name}" for _, name, _ in places]
        for fake, name in zip(fakes, names, strict=True):
            if isinstance(fake, torch.Tensor):
                tracer.add_input(fake, name)  # type: ignore[arg-type]
            elif isinstance(fake, (torch.SymInt, torch.SymFloat)):
                tracer.add_symbol(fake, name)
            else:
                tracer.graph.placeholder(name).meta["val"] = fake
        history = [
            History(fake.requires_grad, fake.grad_fn) if isinstance(fake, torch.Tensor) else History(False, None)
            for fake in fakes
        ]
        given, held = fakes[: len(inputs)], fakes[len(inputs) :]
        ran = None
        if isinstance(program, fx.GraphModule):
            symbolic = fake_mode.shape_env is not None and bool(fake_mode.shape_env.symbols())
            ran = TracedRun(
                program, tracer.recorder.enter_call, untraced, shortcuts, symbolic, tracer.note_data, fake_mode
            )
        with (
            _grad_mode_kept(),
            levels_kept(),
            torch.autograd.set_multithreading_enabled(False),
            fake_mode,
            tracer,
            swapped(places, held),
        ):
            returned = program(*given) if ran is None else ran.run(*given)
            tracer.keep_promises()
        results, signature = sign(tracer, fakes, returned, history)
        if signature.mutations:
            _refuse_aliased_writes((*inputs, *(place[2] for place in places)), signature)
        flat = pytree.tree_leaves(returned, is_leaf=lambda value: type(value) is torch.Size)
        return cls(tracer, leaves, results.nodes, results.tensors, signature, flat, ran, history)

    def inference(self) -> InferenceGraph:
        graph = self.tracer.graph
        graph.output(tuple(self.nodes))
        remove_dead(graph)
        clean_values(graph, self.tracer.fake_mode)
        return InferenceGraph(graph, self.tracer.constants, self.signature)

    def joint(self, cut: bool) -> JointGraph:
        tracer, graph = self.tracer, self.tracer.graph
        found, cuts = self._cut() if cut else (None, ())
        tracer.recorder.start_backward()
        wanted = [t for t, needed in zip(self.tensors, self.signature.differentiable, strict=True) if needed]
        asked = [*wanted, *(self.returned[c.output] for c in cuts if c.output is not None)]
        last = [node for node in graph.nodes if node.op == "placeholder"][-1]
        with tracer.fake_mode, torch.no_grad():
            tangents = [_tangent(t) for t in asked]
        for position, tangent in enumerate(tangents):
            with graph.inserting_after(last):
                last = tracer.add_input(tangent, f"tangent_{position}")
        leaves = [self.leaves[i] for i in self.signature.grad_inputs]
        edges = [_edge(t) for t in asked]
        groups = separate_groups([node for node, _ in edges]) if found is None else found.groups
        if found is not None:
            # A hidden result stands in the graph without history.
            edges[len(wanted) - len(found.hidden) : len(wanted)] = found.hidden
        passed: list[Any] = []
        once = tuple(_running_once(wanted, leaves)) if found is None else ()
        with (
            torch.autograd.set_multithreading_enabled(False),
            _torch.DisableAutocast(),
            tracer.fake_mode,
            tracer,
        ):
            if found is None:
                gradients = _gradients(tracer, asked, leaves, tangents)
            else:
                stopped = _stop(found.crossing)
                outputs = [GradientEdge(node, number) for node, number in edges]
                gradients = _gradients(tracer, outputs, leaves, tangents)
                with torch.no_grad():
                    passed = [_sum(stopped.get(edges[self._tangent_of(c, len(wanted), cuts)], ())) for c in cuts]
        if found is not None:
            reached = found.reached
        elif len(wanted) == 1:
            reached = (frozenset(i for i, g in enumerate(gradients) if g is not None),)
        else:
            reached = reached_inputs(wanted, leaves)
        nodes = [None if g is None else tracer.call(tracer.with_layout_of, g) for g in (*gradients, *passed)]
        graph.output((*self.nodes, *nodes))
        remove_dead(graph)
        clean_values(graph, tracer.fake_mode)
        return JointGraph(graph, tracer.constants, self.signature, reached, groups, cuts, self._calls(), once)

    def _calls(self) -> dict[int, fx.Node]:
        """See `JointGraph.calls`."""
        outputs = {out.result for out in self.signature.outputs if isinstance(out, Computed)}
        wanted = {i for i, needed in enumerate(self.signature.differentiable) if needed} - outputs
        made = {i: self.ran.call_of(self.tensors[i]) for i in sorted(wanted)} if self.ran is not None else {}
        return {i: call for i, call in made.items() if call is not None}

    def _cut(self) -> tuple[Chains | None, tuple[Cut, ...]]:
        """Where to cut. What is cut at besides results becomes one, of a size but without memory."""
        tracer, signature = self.tracer, self.signature
        results = [i for i, needed in enumerate(signature.differentiable) if needed]
        views = [
            p
            for p, out in enumerate(signature.outputs)
            if isinstance(out, Alias) and self.returned[p].grad_fn is not None
        ]
        places = {out.result: p for p, out in enumerate(signature.outputs) if isinstance(out, Computed)}
        written = {m.result: m.input for m in signature.mutations}
        ends: dict[Any, int] = {}
        for number, index in enumerate(signature.grad_inputs):
            ends[get_gradient_edge(self.leaves[index]).node] = number
            if self.history[index].grad_fn is not None and index not in written.values():
                ends[self.history[index].grad_fn] = number
        named = [_edge(self.tensors[i]) for i in results] + [_edge(self.returned[p]) for p in views]
        found = chains(named[: len(results)], named, ends, len(signature.grad_inputs))
        if found is None:
            return None, ()
        cuts = []
        for place in found.seen:
            result = results[place] if place < len(results) else None
            output = None if place < len(results) else views[place - len(results)]
            if output is not None:
                _refuse_written_later(signature, output)
            tensor = self.returned[output] if output is not None else self.tensors[results[place]]
            found_at = None if self.ran is None else standing(self.ran, tracer, tensor)
            cuts.append(Cut(result, output, output is not None or result in places or result in written, found_at))
        for node, number in found.hidden:
            fact = node._input_metadata[number]
            with torch.no_grad(), tracer.fake_mode, tracer:
                fake = torch.full((), 0, dtype=fact.dtype, device=fact.device).expand(fact.shape)
            cuts.append(Cut(len(self.nodes), None, False, None))
            self.nodes.append(tracer.node_of(fake))
            self.tensors.append(fake)
        self.signature = replace(signature, differentiable=signature.differentiable + (True,) * len(found.hidden))
        return found, tuple(cuts)

    def _tangent_of(self, cut: Cut, count: int, cuts: Sequence[Cut]) -> int:
        """The number of the tangent that belongs to a cut: of `count` for results, or after those, of outputs."""
        if cut.output is not None:
            return count + [c.output for c in cuts if c.output is not None].index(cut.output)
        return sum(self.signature.differentiable[: cut.result])


def _refuse_written_later(signature: Signature, position: int) -> None:
    """What is computed from a view of an input is connected to it before the input is written without a gradient, after
    which autograd gives up views that were made together."""
    quiet = {m.input for m in signature.mutations if not m.grad}
    several = False
    out: Any = signature.outputs[position]
    while isinstance(out, Alias):
        several = several or any(step.index is not None for step in out.steps)
        base = out.input
        out = None if out.output is None else signature.outputs[out.output]
    if several and (out.input if isinstance(out, InputItself) else base) in quiet:
        raise Unsupported("a result computed from one of several views of an input that is written")


def _edge(tensor: torch.Tensor) -> Edge:
    return tensor.grad_fn, tensor.output_nr


def _stop(crossing: Mapping[Any, Mapping[int, Edge]]) -> dict[Edge, list[Any]]:
    """Let gradients end where they cross a cut: for these nodes, by the number of the gradient. They are collected."""
    collected: dict[Edge, list[Any]] = {}

    def watch(node: Any, edges: Mapping[int, Edge]) -> None:
        def stop(made: tuple[Any, ...], _: Any) -> tuple[Any, ...]:
            for number, edge in edges.items():
                if made[number] is not None:
                    collected.setdefault(edge, []).append(made[number])
            return tuple(None if number in edges else g for number, g in enumerate(made))

        node.register_hook(stop)

    for node, edges in crossing.items():
        watch(node, edges)
    return collected


def _sum(gradients: Sequence[Any]) -> Any:
    return functools.reduce(torch.add, gradients) if gradients else None


def _gradients(tracer: Tracer, results: list[Any], leaves: list[Any], tangents: list[Any]) -> Any:
    """Autograd's gradients. Raises Unsupported where it refuses, since an eager forward would have gone through."""
    begun: list[int] = []
    env = tracer.fake_mode.shape_env
    # One whose backward sums what may have been repeated asks for a size before it calls an op.
    for node in _nodes(results, python_only=env is None or not env.repeating):
        number = node._sequence_nr()
        node.register_prehook(lambda grads, number=number: begun.append(number))
    try:
        return torch.autograd.grad(results, leaves, tangents, allow_unused=True)
    except Unsupported:
        raise
    except RuntimeError as error:
        blamed = begun[-1:] or [each._sequence_nr() for each in _nodes(results, python_only=False) if _is_sparse(each)]
        call = tracer.recorder.call_of(blamed[0]) if blamed else None
        raise Unsupported(f"the backward cannot be traced: {error}", call) from error


def _is_sparse(node: Any) -> bool:
    """Whether a node of autograd was asked for a sparse gradient, which has no strides (`Embedding(sparse=True)`)."""
    return any(getattr(node, name, False) is True for name in ("_saved_sparse", "_saved_sparse_grad"))


def _nodes(results: list[Any], python_only: bool) -> Iterator[Any]:
    """The nodes of autograd's graph; or those whose backward is the program's own Python, which may refuse without calling any op."""
    waiting = [t.node if isinstance(t, GradientEdge) else t.grad_fn for t in results]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if not python_only or isinstance(node, torch.autograd.function.BackwardCFunction):
            yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _running_once(results: list[Any], leaves: list[Any]) -> Iterator[RunsOnce]:
    """What among the nodes behind these results has a function `refuse_again`."""
    named = [node for node in _nodes(results, python_only=True) if hasattr(node, "refuse_again")]
    if not named:
        return
    ends = {get_gradient_edge(leaf).node: place for place, leaf in enumerate(leaves)}
    behind = [set(_nodes([result], python_only=True)) for result in results]
    for node in named:
        above = frozenset(number for number, nodes in enumerate(behind) if node in nodes)
        below = _nodes([GradientEdge(node, 0)], python_only=False)
        yield RunsOnce(above, frozenset(ends[each] for each in below if each in ends), node.refuse_again)


def _mode_of(inputs: Sequence[Any]) -> FakeMode:
    modes = {id(t.fake_mode): t.fake_mode for t in inputs if isinstance(t, FakeTensor)}
    if len(modes) > 1:
        raise Unsupported("inputs that belong to several FakeModes")
    mode = next(iter(modes.values()), None) or FakeMode()
    assert isinstance(mode, FakeMode)
    return mode


def _fresh_input(mode: FakeMode, value: Any) -> tuple[Any, Any]:
    """For an input: the leaf whose gradient is its gradient, and the fake that the program gets.

    They are one unless the input is the result of some op, which the program may write to.
    """
    if not isinstance(value, torch.Tensor):
        return value, value
    known = value if isinstance(value, FakeTensor) else mode.from_tensor(value)
    with torch.no_grad():
        leaf = _like(known)
        if not known.requires_grad:
            return leaf, leaf
        leaf.requires_grad_()
        if known.is_leaf:
            return leaf, leaf
        fake = _like(known)
    with torch.enable_grad():
        fake.copy_(leaf)
    return leaf, fake


def _like(known: torch.Tensor) -> torch.Tensor:
    """A new fake with the metadata of `known`."""
    made = _laid_out_like(known)
    if known.is_conj():
        made = made.conj().detach()
    return torch.ops.aten._neg_view.default(made).detach() if known.is_neg() else made


def _laid_out_like(known: torch.Tensor) -> torch.Tensor:
    options: dict[str, Any] = {"dtype": known.dtype, "device": known.device}
    offset = known.storage_offset()
    if type(offset) is int and offset == 0:
        return torch.empty_strided(known.shape, known.stride(), **options)
    block = torch.empty_strided((offset + 1,), (1,), **options)
    return block.as_strided(known.shape, known.stride(), offset).detach()


def _tangent(tensor: torch.Tensor) -> Any:
    """A fake gradient of a result: in its strides if they fill memory, else contiguous."""
    options: dict[str, Any] = {"dtype": tensor.dtype, "device": tensor.device}
    if is_dense(tensor):
        return torch.empty_strided(tensor.shape, tensor.stride(), **options)
    return torch.empty(tensor.shape, **options)


def _names(program: Any, count: int) -> list[str]:
    if isinstance(program, fx.GraphModule):
        names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
        if len(names) == count:
            return names
    return [f"arg_{position}" for position in range(count)]


@contextmanager
def _grad_mode_kept() -> Iterator[None]:
    """Put grad mode and autocast back where a graph that sets them leaves them changed."""
    before = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(before)
        torch.clear_autocast_cache()


def _refuse_aliased_writes(inputs: Sequence[Any], signature: Signature) -> None:
    """The graph takes inputs for separate, as those are that lie side by side in one storage."""
    tensors = {at: value for at, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
    written = {mutation.input for mutation in signature.mutations}
    places = [place for place, at in enumerate(tensors) if at in written]
    if share_memory([*tensors.values()], places, [_storage_of(tensor) for tensor in tensors.values()]):
        raise Unsupported("a write to an input that shares its memory with another input")


def _storage_of(tensor: torch.Tensor) -> Any:
    return tensor.storage_key if isinstance(tensor, FakeTensor) else tensor.untyped_storage()._cdata
