"""Fixtures: compile a program with an interpreter as the compiler, and compare all that it does with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

import aotgrad


def interpreter(module: fx.GraphModule, inputs: list[Any]) -> Callable[[list[Any]], Any]:
    """A boxed compiler that runs the graph node by node and checks that values are as the graph says."""
    module.graph.lint()
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            schema = node.target._schema
            assert not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments), node.target
    assert type(next(n for n in module.graph.nodes if n.op == "output").args[0]) is tuple

    def run(args: list[Any]) -> Any:
        values = iter(list(args))
        args.clear()
        env: dict[fx.Node, Any] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(values)
            elif node.op == "get_attr":
                env[node] = getattr(module, node.target)
            elif node.op == "output":
                return fx.node.map_arg(node.args[0], lambda n: env[n])
            else:
                args_, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: env[n])
                env[node] = node.target(*args_, **kwargs)
            agrees(node, env[node], node.meta["val"])
        return None

    return run


class Writing:
    """A compiled graph that writes to inputs whatever it may, as the output node says: past autograd, as kernels do."""

    def __init__(self, module: fx.GraphModule, inputs: list[Any]) -> None:
        self.compute = interpreter(module, inputs)
        self.writes: dict[int, int] = module.graph.output_node().meta.get("writes", {})
        self.written_results = frozenset(self.writes)

    def __call__(self, args: list[Any]) -> list[Any]:
        given = list(args)
        results = list(self.compute(args))
        for result, place in self.writes.items():
            given[place].data.copy_(results[result])
            results[result] = given[place]
        return results


class Kept:
    """A compiler whose graph can be run once more by what was noted of the program, as text."""

    def __init__(self, compiler: Any) -> None:
        self.compiler = compiler
        self.graphs: list[Any] = []
        self.plans: list[aotgrad.Plan] = []

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Any:
        self.graphs.append(self.compiler(module, inputs))
        return self.graphs[-1]

    def again(self, program: Callable[..., Any], inputs: list[Any]) -> Any:
        """The program without compiling it; None where it is differentiated, or holds tensors, or returns no flat tuple."""
        if len(self.plans) != 1 or len(self.graphs) != 1 or isinstance(program, torch.nn.Module):
            return None
        (plan,), (graph,) = self.plans, self.graphs
        if not plan.signature.returns_tuple:
            return None
        return aotgrad.run_planned(aotgrad.plan_of(aotgrad.plan_text(plan)), program, inputs, graph)


def agrees(node: fx.Node, result: Any, value: Any) -> None:
    """The fake value of a node tells the truth about its real value."""
    if isinstance(value, (tuple, list)):
        for one, other in zip(result, value, strict=True):
            agrees(node, one, other)
    elif isinstance(value, torch.Tensor):
        assert not value.requires_grad, node
        assert result.dtype == value.dtype, (node, result.dtype, value.dtype)
        numbers = (*value.shape, *value.stride())
        if all(type(number) is int for number in numbers) and result.numel() > 1:
            assert tuple(result.shape) == tuple(value.shape), (node, result.shape, value.shape)
            strides = [(a, b) for a, b, n in zip(result.stride(), value.stride(), value.shape) if n != 1]
            assert all(a == b for a, b in strides), (node, node.target, result.stride(), value.stride())
        else:
            assert result.dim() == value.dim()


def twins(values: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Two independent copies of the inputs with the same strides and autograd state."""

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value.detach())
        made.requires_grad_(value.requires_grad)
        return made

    return [copy(v) for v in values], [copy(v) for v in values]


def check(
    program: Callable[..., Any],
    *inputs: Any,
    seed: int = 0,
    tolerance: dict[str, float] | None = None,
    calls: int = 2,
    nonleaf: bool = False,
    partitioner: Any = None,
) -> Any:
    """Compare `program` compiled and eager: outputs, layout, aliasing, effects on inputs, generator, gradients. By a compiler that
    leaves writes to inputs to the runtime, and by one that does them."""
    for compiler in (Writing, interpreter):
        compiled = check_with(compiler, program, inputs, seed, tolerance, calls, nonleaf, partitioner)
    return compiled


def check_with(
    compiler: Any,
    program: Callable[..., Any],
    inputs: tuple[Any, ...],
    seed: int = 0,
    tolerance: dict[str, float] | None = None,
    calls: int = 2,
    nonleaf: bool = False,
    partitioner: Any = None,
) -> Any:
    tolerance = tolerance or {"rtol": 1e-4, "atol": 1e-5}
    compiled = None
    for call in range(calls):
        eager_leaves, our_leaves = twins(inputs)
        eager_in, our_in = eager_leaves, our_leaves
        if nonleaf:
            eager_in, our_in = ([t * 1 if _wants(t) else t for t in side] for side in (eager_leaves, our_leaves))
        if compiled is None:
            kept = Kept(compiler)
            compiled = first = aotgrad.compile(
                program, our_in, inference_compiler=kept, partitioner=partitioner, planned=kept.plans.append
            )
        elif (again := kept.again(program, our_in)) is not None:
            compiled = again
        torch.manual_seed(seed + call)
        expected = program(*eager_in)
        state = torch.get_rng_state()
        torch.manual_seed(seed + call)
        got = compiled(*our_in)
        assert torch.equal(state, torch.get_rng_state()), "the generator was moved otherwise than eager moves it"
        expected_leaves, spec = torch.utils._pytree.tree_flatten(expected)
        got_leaves, got_spec = torch.utils._pytree.tree_flatten(got)
        assert spec == got_spec
        for one, other in zip(got_leaves, expected_leaves, strict=True):
            same(one, other, tolerance)
        for one, other in zip(our_in, eager_in, strict=True):
            same(one, other, tolerance)
        everything = [*expected_leaves, *eager_in], [*got_leaves, *our_in]
        assert sharing(everything[0]) == sharing(everything[1]), "outputs alias otherwise than eager's"
        differentiate(expected_leaves, seed)
        differentiate(got_leaves, seed)
        for one, other in zip(our_leaves, eager_leaves, strict=True):
            if isinstance(other, torch.Tensor):
                assert (one.grad is None) == (other.grad is None)
                if other.grad is not None:
                    same(one.grad, other.grad, tolerance, strides=False)
    return first


def _wants(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.requires_grad


def same(got: Any, expected: Any, tolerance: dict[str, float], strides: bool = True) -> None:
    if not isinstance(expected, torch.Tensor):
        assert type(got) is type(expected) and got == expected
        return
    torch.testing.assert_close(got.detach(), expected.detach(), equal_nan=True, **tolerance)
    assert got.requires_grad == expected.requires_grad
    if strides and expected.numel() > 1:
        assert [s for s, n in zip(got.stride(), got.shape) if n != 1] == [
            s for s, n in zip(expected.stride(), expected.shape) if n != 1
        ]


def sharing(values: list[Any]) -> list[list[bool]]:
    tensors = [v for v in values if isinstance(v, torch.Tensor) and v.numel()]
    return [[a.untyped_storage()._cdata == b.untyped_storage()._cdata for b in tensors] for a in tensors]


def differentiate(values: list[Any], seed: int) -> None:
    wanted = list({id(t): t for t in values if _wants(t) and t.grad_fn is not None}.values())
    if not wanted:
        return
    generator = torch.Generator().manual_seed(seed)
    tangents = [torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in wanted]
    torch.autograd.backward(wanted, tangents)


@pytest.fixture(name="check")
def _check() -> Callable[..., Any]:
    return check


@pytest.fixture(name="interpreter")
def _interpreter() -> Any:
    return interpreter


@pytest.fixture(name="writing")
def _writing() -> Any:
    return Writing
