"""Backwards and hooks of the program in the graph: each is evaluated once, of stand-ins for gradients, into a graph of its own.

In: what a function of autograd computed, and its backward; a tensor and its hook. Out: calls of `capture.custom_gradients`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx

from capture.custom_gradients import CustomGradient, Hook, remove_hook, replacing, saved_places
from capture.errors import Unsupported
from capture.late_code import Fact, LateGradient, PlainBackward
from capture.settings import SETTERS
from capture.variables.base import Interpreter, Variable
from capture.variables.tensors import Tensor
from symshapes import contiguous_strides

from .one_piece import require_place
from .recorder import GraphRecorder
from .subgraphs import Evaluated, Like, Subgraphs

_GRAD_MODE = frozenset(function for (function, _), name in SETTERS.items() if name == "grad mode")


class CustomGradients:
    """Records the program's own gradients in the graph of one attempt."""

    def __init__(self, m: Interpreter, recorder: GraphRecorder, subgraphs: Subgraphs) -> None:
        self._m = m
        self._recorder = recorder
        self._subgraphs = subgraphs
        self._handles: dict[fx.Node, Any] = {}

    def function(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Tensor],
        backward: Callable[[list[Variable]], tuple[Variable, Sequence[int]]],
        *,
        saved: Collection[Tensor],
        dirty: Collection[int],
        apart: Collection[int],
        once: bool,
        told: bool,
        clears: Callable[[], bool],
        plain: Callable[[list[fx.Node]], PlainBackward],
    ) -> list[Variable]:
        """The outputs, connected to the inputs. `backward` makes of gradients a tuple of those of inputs, and says of which.

        `clears` says afterwards whether it let go of what was saved. `plain` gives it as it is, and adds to the nodes that are given what that needs of the graph. So it runs where not all
        gradients are there, if it is `told` which are.
        """
        given: list[Sequence[int]] = []

        def called(gradients: list[Variable]) -> Variable:
            made, places = backward(gradients)
            given.append(tuple(places))
            return made

        looks = not dirty and self._recorder.graph.checkpoint is None
        if told and not looks:
            raise Unsupported(
                "a function of autograd whose backward is told which gradients there are, in a checkpoint"
            )
        own, made, facts = self._evaluated(called, [output.fake for output in outputs], looks=looks)
        free = self._free(made, own)
        as_it_is = plain(free) if facts or told else None
        graph = self._subgraphs.taken_out(made, [*own, *free])
        self._recorder.forget([*own, *made.calls])
        operation = CustomGradient(
            graph,
            tuple(given[0]),
            saved_places(free, {tensor.node for tensor in saved}),
            frozenset(dirty),
            frozenset(apart),
            once,
            clears(),
        )
        groups = [o.node for o in outputs], [i.node for i in inputs], free
        if as_it_is is None:
            return self._call(operation, *groups)
        counts = len(outputs), len(inputs)
        return self._call_late(LateGradient(operation, counts, tuple(facts.values()), as_it_is, told), *groups)

    def hook(self, tensor: Tensor, function: Callable[[list[Variable]], Variable]) -> fx.Node | None:
        """Have a hook called with each gradient of a tensor: the call in the graph; None for one that changes nothing."""
        own, made, _ = self._evaluated(lambda gradients: function(gradients), [tensor.fake])
        if not made.leaves:
            self._recorder.forget([*own, *made.calls])
            return None
        free = self._free(made, own)
        graph = self._subgraphs.taken_out(made, [*own, *free])
        self._recorder.forget([*own, *made.calls])
        return self._hang(Hook(graph), tensor, free)

    def replace(self, tensor: Tensor, gradient: Tensor) -> fx.Node:
        """Have each gradient of a tensor replaced by this one."""
        return self._hang(Hook(replacing), tensor, [gradient.node])

    def _hang(self, operation: Hook, tensor: Tensor, free: list[fx.Node]) -> fx.Node:
        require_place(self._recorder.graph.graph, tensor.node)
        with self._recorder.fake_mode:
            handle = operation(tensor.fake, [node.meta["val"] for node in free])
        call = self._recorder.call_for_effect(operation, (tensor.node, free))
        self._handles[call] = handle
        return call

    def unhook(self, node: fx.Node) -> None:
        """Take a hook away, by a call in the graph."""
        require_place(self._recorder.graph.graph, node)
        remove_hook(self._handles.pop(node))
        self._recorder.call_for_effect(remove_hook, (node,))

    def _evaluated(
        self, function: Callable[[list[Variable]], Variable], likes: Sequence[Any], *, looks: bool = False
    ) -> tuple[list[fx.Node], Evaluated, dict[Any, Fact]]:
        """Evaluate what runs in a backward: autograd has grad mode off there, and nobody casts. What it takes for granted, if it `looks`."""
        given = [
            self._subgraphs.stand_in(
                Like(tuple(f.shape), tuple(contiguous_strides(f.shape)), f.dtype, f.device, needs_grad=False)
            )
            for f in likes
        ]
        own = [value.node for value in given]

        facts: dict[Any, Fact] = {}

        def run() -> Variable:
            with _as_in_backward(), self._m.effects.later.reading(looks=looks) as taken:
                result = function(list(given)).realize(self._m)
            facts.update(taken)
            return result

        made = self._subgraphs.evaluated(run, own)
        if any(node.target in _GRAD_MODE for node in made.calls):
            raise Unsupported("a backward that sets grad mode")
        return own, made, facts

    def _free(self, made: Evaluated, own: Sequence[fx.Node]) -> list[fx.Node]:
        return list(dict.fromkeys(node for node in made.free() if node not in own))

    def _call(self, operation: Any, *groups: list[fx.Node]) -> list[Variable]:
        values = [tuple(node.meta["val"] for node in group) for group in groups]
        try:
            with self._recorder.fake_mode:
                results = operation(*values)
        except RuntimeError as error:  # what autograd lets nobody write to is marked as written to
            raise Unsupported(f"a function of autograd that raises RuntimeError: {error}") from error
        arguments: tuple[Any, ...] = tuple(tuple(group) for group in groups)
        found: Any = self._recorder.control(operation, arguments, results, False)
        return list(found.items)

    def _call_late(self, operation: LateGradient, *groups: list[fx.Node]) -> list[Variable]:
        nodes = [node for group in groups for node in group]
        with self._recorder.fake_mode:
            results = operation(*(node.meta["val"] for node in nodes))
        found: Any = self._recorder.control(operation, tuple(nodes), results, False)
        return list(found.items)


@contextmanager
def _as_in_backward() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield
