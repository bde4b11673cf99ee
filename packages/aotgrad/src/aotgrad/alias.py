"""What a traced program does to its inputs and how its outputs share storage: the `Signature`.

In: a tracer after a run, the inputs and outputs of the program. Out: the values its graph must return, and a
`Signature` from which the runtime rebuilds eager's results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from aotgrad.errors import Unsupported
from aotgrad.signature import (
    Alias,
    Computed,
    Constant,
    InputItself,
    Mutation,
    Output,
    Repeated,
    ResultSize,
    Shape,
    Signature,
)
from aotgrad.trace import Tracer
from aotgrad.tracked import Tracked
from aotgrad.views import ViewStep
from symshapes import SYMBOLIC, dataclass, facts_if_operator


@dataclass
class Results:
    """The graph's results while they are collected: nodes, and the tensors they are the values of (None: no tensor)."""

    nodes: list[Any]
    tensors: list[torch.Tensor | None]
    roots: dict[fx.Node, object]
    """The node whose storage each lies in, with the storage that it is in the program."""
    quiet: set[int] = field(default_factory=set)
    """Those of which all that the program gives is detached: nobody can go back from them."""

    def separate(self, tracer: Tracer, node: fx.Node, tensor: torch.Tensor, keep_layout: bool) -> fx.Node:
        """`node`, or a copy of it where its value would share storage with an input or another result, and `tensor` does not.

        Results are tensors of their own to the program, and to autograd.
        """
        root = storage_root(node)
        storage = tensor.storage_key  # type: ignore[attr-defined]
        if root.op != "call_function" or self.roots.get(root, storage) is not storage:
            node = root = tracer.call(tracer.clone_of, node, keep_layout)
        self.roots[root] = storage
        return node

    def add(self, node: Any, tensor: torch.Tensor | None) -> int:
        """Append a result and return its number."""
        self.nodes.append(node)
        self.tensors.append(tensor)
        return len(self.nodes) - 1


def sign(tracer: Tracer, inputs: Sequence[Any], returned: Any, history: Sequence[Any]) -> tuple[Results, Signature]:
    """Sort out mutations and aliases after a run.

    `inputs` are the fakes the program ran on, `returned` is what it returned, `history` each input's `grad_fn` before.
    Raises Unsupported where eager's result cannot be rebuilt.
    """
    leaves, spec = pytree.tree_flatten(returned, is_leaf=lambda value: type(value) is torch.Size)
    results = Results([], [], {})
    roots = {
        id(tracer.tracked(fake).storage): index for index, fake in enumerate(inputs) if isinstance(fake, torch.Tensor)
    }
    mutations = _mutations(tracer, inputs, history, results)
    sharers = _sharers(tracer, leaves, roots)
    views: dict[int, int] = {}
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            views.setdefault(id(tracer.tracked(leaf)), position)
    bases: dict[int, tuple[Tracked, int]] = {}
    outputs: list[Output] = []
    for position, leaf in enumerate(leaves):
        first = next((i for i in range(position) if leaves[i] is leaf), None)
        if isinstance(leaf, SYMBOLIC):
            outputs.append(Computed(results.add(tracer.symbols.node_of(leaf), None)))
        elif _symbolic_size(leaf):
            outputs.append(Shape(tuple(_replayable(tracer, length, results) for length in leaf)))
        elif not isinstance(leaf, torch.Tensor):
            outputs.append(Constant(leaf))
        elif first is not None:
            outputs.append(Repeated(first))
        else:
            _require_history(leaf)
            outputs.append(_output(tracer, leaf, roots, sharers, bases, views, results))
    # What differs from run to run of the graph is only known now that all results are there.
    differentiable = tuple(
        t is not None and t.requires_grad and i not in results.quiet for i, t in enumerate(results.tensors)
    )
    for mutation in mutations:
        if not mutation.grad:
            differentiable = (
                *differentiable[: mutation.result],
                False,
                *differentiable[mutation.result + 1 :],
            )
    grad_inputs = tuple(i for i, (t, before) in enumerate(zip(inputs, history, strict=True)) if before.requires_grad)
    return results, Signature(len(inputs), mutations, tuple(outputs), differentiable, grad_inputs, spec)


def _require_history(leaf: torch.Tensor) -> None:
    """Raise Unsupported for a view that autograd gave up, since its base was written: it is of no use, and has to stay so."""
    try:
        leaf.grad_fn  # noqa: B018  # asks how the view is made of what was written
    except RuntimeError as error:
        raise Unsupported(f"an output has no place in autograd: {error}") from error


def _symbolic_size(value: Any) -> bool:
    return type(value) is torch.Size and any(isinstance(length, torch.SymInt) for length in value)


@dataclass(frozen=True, slots=True)
class History:
    """An input's autograd state before the program ran."""

    requires_grad: bool
    grad_fn: Any


def _mutations(
    tracer: Tracer, inputs: Sequence[Any], history: Sequence[History], results: Results
) -> tuple[Mutation, ...]:
    mutations = []
    for index, (fake, before) in enumerate(zip(inputs, history, strict=True)):
        if not isinstance(fake, torch.Tensor):
            continue
        tracked = tracer.tracked(fake)
        if tracked.parent is not None:
            raise Unsupported("an input gets other sizes or strides")
        if tracked.storage.written:
            grad = fake.requires_grad and fake.grad_fn is not before.grad_fn
            node = tracer.node_of(fake)
            result = results.add(results.separate(tracer, node, fake, keep_layout=False), fake)
            mutations.append(Mutation(index, result, grad, tracked.storage.counted))
        elif fake.requires_grad != before.requires_grad:
            raise Unsupported("requires_grad of an input is changed")
    return tuple(mutations)


def _sharers(tracer: Tracer, leaves: Sequence[Any], roots: dict[int, int]) -> dict[int, list[Tracked]]:
    """For each storage of an intermediate, the different outputs that lie in it."""
    found: dict[int, list[Tracked]] = {}
    for leaf in {id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values():
        tracked = tracer.tracked(leaf)
        if id(tracked.storage) not in roots:
            found.setdefault(id(tracked.storage), []).append(tracked)
    return found


def _common_base(views: Sequence[Tracked]) -> Tracked:
    """The nearest tensor that all of `views` are views of (or are)."""
    lines = []
    for view in views:
        line = [view]
        while (origin := line[-1].origin) is not None:
            line.append(origin[0])
        lines.append(line[::-1])
    common = lines[0][0]
    for generation in zip(*lines, strict=False):
        if any(one is not generation[0] for one in generation):
            break
        common = generation[0]
    return common


def _output(
    tracer: Tracer,
    leaf: torch.Tensor,
    roots: dict[int, int],
    sharers: dict[int, list[Tracked]],
    bases: dict[int, tuple[Tracked, int]],
    views: dict[int, int],
    results: Results,
) -> Output:
    tracked = tracer.tracked(leaf)
    storage = tracked.storage
    index = roots.get(id(storage))
    if index is not None:
        if tracked is storage.root:
            return InputItself(index)
        steps, nearest = _steps(tracer, storage.root, tracked, views, results)
        return Alias(index if nearest is None else None, None, steps, nearest)
    if len(sharers[id(storage)]) == 1:
        return Computed(_add_tensor(tracer, leaf, results))
    if id(storage) not in bases:
        base = _common_base(sharers[id(storage)])
        bases[id(storage)] = base, _add_tensor(tracer, base.fake, results)
        if not any(view.fake.requires_grad for view in sharers[id(storage)]):
            results.quiet.add(bases[id(storage)][1])
    base, result = bases[id(storage)]
    if tracked is base:
        return Computed(result)
    steps, nearest = _steps(tracer, base, tracked, views, results)
    return Alias(None, result if nearest is None else None, steps, nearest)


def _add_tensor(tracer: Tracer, tensor: torch.Tensor, results: Results) -> int:
    if tensor.requires_grad and tensor.is_leaf:
        raise Unsupported("a leaf that requires grad is made inside the graph and leaves it")
    node = tracer.call(tracer.with_layout_of, tensor)
    return results.add(results.separate(tracer, node, tensor, keep_layout=True), tensor)


def _steps(
    tracer: Tracer, base: Tracked, tracked: Tracked, views: dict[int, int], results: Results
) -> tuple[tuple[ViewStep, ...], int | None]:
    """The way from `base` to its view `tracked`, outermost first, symbolic sizes made results of the graph.

    If it comes by one of `views` (outputs that have a gradient), from there on, and that output.

    Raises Unsupported if a view has a gradient that it does not have from its base.
    """
    wanted = tracked.fake.requires_grad
    steps: list[ViewStep] = []
    nearest = None
    while tracked is not base:
        assert tracked.origin is not None
        tracked, step = tracked.origin
        if step.op is torch.ops.aten.as_strided.default and wanted and tracked.storage.written and tracked.origin:
            # After a write autograd derives such a view from another tensor than the one it was made of.
            raise Unsupported("a strided view of a view, written to, with a gradient")
        args = tuple(_replayable(tracer, value, results) for value in step.args)
        kwargs = {name: _replayable(tracer, value, results) for name, value in step.kwargs.items()}
        steps.append(ViewStep(step.op, args, kwargs, step.index, step.grad))
        if wanted and tracked is not base and not tracked.storage.written and id(tracked) in views:
            nearest, base = views[id(tracked)], tracked
    detached = any(step.op is torch.ops.aten.detach.default for step in steps)
    if wanted != (base.fake.requires_grad and not detached):
        raise Unsupported("an output's gradient does not come from the tensor that it is a view of")
    return tuple(reversed(steps)), nearest


def _replayable(tracer: Tracer, value: Any, results: Results) -> Any:
    if isinstance(value, torch.SymInt):
        node = tracer.symbols.node_of(value)
        if not isinstance(node, fx.Node):
            return node
        known = results.nodes.index(node) if node in results.nodes else results.add(node, None)
        return ResultSize(known)
    if isinstance(value, (list, tuple)):
        return [_replayable(tracer, item, results) for item in value]
    return value


def _may_be_view(target: Any) -> bool:
    """Whether what a node calls gives views of its first argument, be it that the operator's schema says nothing of it."""
    facts = facts_if_operator(target)
    return facts is not None and (facts.views or facts.hides_views)


def storage_root(node: fx.Node) -> fx.Node:
    """The node whose storage the value of `node` may share."""
    while node.op == "call_function":
        target: Any = node.target
        source = node.args[0] if node.args else None
        if not isinstance(source, fx.Node):
            break
        if target.__name__ == "getitem":
            if not (source.op == "call_function" and _may_be_view(source.target)):
                break
        elif not _may_be_view(target):
            break
        node = source
    return node
