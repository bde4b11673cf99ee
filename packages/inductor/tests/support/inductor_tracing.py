"""A small tracer for tests: records the ATen calls of a function on real tensors as an fx graph with values in `meta`.

What aotgrad decomposes is decomposed, as in the graphs that inductor gets from it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from aotgrad import core_decompositions
from inductor.handlers.interpreter import run_program
from inductor.ir.parse_program import parse_program
from inductor.ir.program import Program
from inductor.lower import lower

DECOMPOSITIONS = core_decompositions()


class Tracer(TorchDispatchMode):
    """Records every ATen call below autograd. Values are the real tensors, kept alive in `nodes`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keeps torch from wrapping the dispatch function in what imports its own compiler."""
        return False

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.nodes: dict[int, fx.Node] = {}
        self.alive: list[Any] = []
        self.root: dict[str, torch.Tensor] = {}
        for at, value in enumerate(inputs):
            self._know(value, self.graph.placeholder(f"arg{at}"))

    def _know(self, value: Any, node: fx.Node) -> None:
        node.meta["val"] = value
        if isinstance(value, torch.Tensor):
            self.nodes[id(value)] = node
            self.alive.append(value)
        elif isinstance(value, tuple | list):
            for at, one in enumerate(value):
                if isinstance(one, torch.Tensor):
                    self._know(one, self.graph.call_function(operator.getitem, (node, at)))

    def node_of(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self.nodes:
            name = f"constant{len(self.root)}"
            self.root[name] = value
            self._know(value, self.graph.create_node("get_attr", name, name=name))
        return self.nodes[id(value)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        decomposed = DECOMPOSITIONS.get(func)
        if decomposed is not None:
            with self:
                result = decomposed(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        fx_args, fx_kwargs = pytree.tree_map(self.node_of, (args, kwargs))
        self._know(result, self.graph.call_function(func, tuple(fx_args), fx_kwargs))
        return result


def trace(function: Callable[..., Any], *inputs: Any) -> tuple[fx.GraphModule, list[Any]]:
    """The ATen graph of `function(*inputs)` (tensor inputs; outputs flattened) and what it returned."""
    with torch.no_grad(), Tracer(inputs) as tracer:
        result = function(*inputs)
    flat = pytree.tree_leaves(result)
    tracer.graph.output(tuple(tracer.node_of(v) for v in flat))
    return fx.GraphModule(tracer.root, tracer.graph), flat


def check(function: Callable[..., Any], *inputs: Any, **tolerance: float) -> Program:
    """Assert that lowering `function` and interpreting the program gives eager's results, dtypes and strides."""
    graph, expected = trace(function, *inputs)
    return check_graph(graph, expected, inputs, **tolerance)


def read_back(program: Program) -> Program:
    """The program, or the one that its text tells: asserts that both are the same."""
    text = str(program)
    if "<" in text:  # no text stands for an argument
        with pytest.raises(ValueError):
            parse_program(text, program.constants)
        return program
    read = parse_program(text, program.constants)
    assert str(read) == text
    if "nan" not in text:  # which is not equal to itself
        assert replace(read, constants={}) == replace(
            program, constants={}, operations=[replace(op, origins=()) for op in program.operations]
        )
    return read


def is_functional(graph: fx.GraphModule) -> bool:
    """Whether no call writes to its arguments."""
    schemas = [getattr(node.target, "_schema", None) for node in graph.graph.nodes]
    return not any(schema is not None and schema.is_mutable for schema in schemas)


def check_graph(graph: fx.GraphModule, expected: list[Any], inputs: Sequence[Any], **tolerance: float) -> Program:
    """`check` for a graph traced already."""
    program = read_back(lower(graph, inputs))
    actual = run_program(program, inputs)
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        if isinstance(want, torch.Tensor):
            options = tolerance or default_tolerance(want.dtype)
            torch.testing.assert_close(got, want, equal_nan=True, **options)
            strides = zip(got.size(), got.stride(), want.stride(), strict=True)
            assert not want.numel() or all(a == b or n == 1 for n, a, b in strides), (got.stride(), want.stride())
        else:
            assert got == want
    return program


def default_tolerance(dtype: torch.dtype) -> dict[str, float]:
    """Fused float16/bfloat16 programs keep intermediate values unrounded."""
    return {torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2}, torch.float16: {"rtol": 5e-3, "atol": 5e-3}}.get(dtype, {})
