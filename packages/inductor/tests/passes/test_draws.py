"""Random operators of a graph: which give way to draws within kernels, from which seeds, and which stay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

import aotgrad
from inductor import Options, prepare_graph
from inductor.draws import INTEGERS, NORMAL, UNIFORM
from inductor.passes import draw_in_kernels
from symshapes import DimPolicy, FakeMode, ShapeEnv

aten = torch.ops.aten
X = torch.ones(6, 4, 8, 8)


def traced(program: Any, *inputs: torch.Tensor, train: bool = False, dynamic: bool = False) -> Any:
    mode = FakeMode(ShapeEnv())
    policy = DimPolicy.DYNAMIC if dynamic else DimPolicy.STATIC
    fakes = [mode.from_tensor(t, source=f"x{i}", policy=[policy] * t.dim()) for i, t in enumerate(inputs)]
    return (aotgrad.trace_joint if train else aotgrad.trace_inference)(program, fakes)


def drawn(graph: fx.Graph) -> int:
    count = draw_in_kernels(graph, lambda device: True)
    graph.lint()
    return count


def targets(graph: fx.Graph) -> list[Any]:
    return [node.target for node in graph.nodes if node.op == "call_function"]


DRAWS: dict[str, tuple[Any, Any]] = {
    "bernoulli": (lambda x: torch.empty_like(x).bernoulli_(0.3), UNIFORM),
    "of tensors": (lambda x: torch.bernoulli(x * 0.5), UNIFORM),
    "of others": (lambda x: torch.empty_like(x).bernoulli_(x[0] * 0.5), UNIFORM),
    "native": (lambda x: torch.native_dropout(x, 0.3, True), UNIFORM),
    "rand": (lambda x: torch.rand(3, 5), UNIFORM),
    "rand_like": (torch.rand_like, UNIFORM),
    "uniform": (lambda x: torch.empty_like(x).uniform_(2, 3), UNIFORM),
    "exponential": (lambda x: torch.empty_like(x).exponential_(2.0), UNIFORM),
    "randn": (lambda x: torch.randn(3, 5, dtype=torch.float16), NORMAL),
    "randn_like": (torch.randn_like, NORMAL),
    "normal": (lambda x: torch.empty_like(x).normal_(1, 2), NORMAL),
    "normal of a size": (lambda x: torch.normal(1.0, 2.0, (3, 4)), NORMAL),
    "randint": (lambda x: torch.randint(7, (3, 5)), INTEGERS),
    "randint_like": (lambda x: torch.randint_like(x, -3, 7), INTEGERS),
    "random_": (lambda x: torch.empty_like(x, dtype=torch.int16).random_(-3, 7), INTEGERS),
}

CALLS: dict[str, Any] = {
    "a generator": lambda x: torch.empty_like(x).normal_(generator=torch.Generator()),
    "complex": lambda x: torch.randn(3, dtype=torch.complex64),
    "no probability": lambda x: torch.empty_like(x).bernoulli_(1.5),
    "upside down": lambda x: torch.empty_like(x).uniform_(3, 2),
    "no deviation": lambda x: torch.empty_like(x).normal_(0, -1),
    "too large": lambda x: torch.randint(300, (3,), dtype=torch.uint8),
    "randperm": lambda x: torch.randperm(9),
    "means": lambda x: torch.normal(x, 2.0),
    "evaluation": lambda x: torch.native_dropout(x, 0.3, False)[0] + torch.rand(3, dtype=torch.complex64).real.sum(),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_what_is_drawn(name: str, layout: torch.memory_format) -> None:
    program, target = DRAWS[name]
    x = X.contiguous(memory_format=layout)
    graph = traced(lambda x: program(x), x).graph
    before = [node.meta["val"] for node in graph.output_node().args[0]]
    assert drawn(graph) == 1
    assert target in targets(graph) and targets(graph).count(aten.randint.low) == 1
    assert not any("empty" in str(each) for each in targets(graph))
    for value, node in zip(before, graph.output_node().args[0], strict=True):
        after = node.meta["val"]
        assert (value.shape, value.stride(), value.dtype) == (after.shape, after.stride(), after.dtype)


@pytest.mark.parametrize("name", CALLS)
def test_what_stays_a_call(name: str) -> None:
    try:
        graph = traced(lambda x: CALLS[name](x), X).graph
    except RuntimeError:
        pytest.skip("refused while it is traced")
    assert not drawn(graph)
    assert not {UNIFORM, NORMAL, INTEGERS} & {*targets(graph)}


def test_one_call_draws_all_seeds_of_a_pass() -> None:
    """One for the forward and one for the backward, which may run again; none for what nobody reads."""

    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * torch.rand_like(grad)

    def program(x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        return Noisy.apply(F.dropout(F.dropout(x, 0.5), 0.5))  # type: ignore[no-any-return,no-untyped-call]

    joint = traced(program, X.clone().requires_grad_(), train=True)
    assert drawn(joint.graph) == 3
    seeds = [node for node in joint.graph.nodes if node.target is aten.randint.low]
    assert [(len(node.users), bool(node.meta.get("backward"))) for node in seeds] == [(2, False), (1, True)]
    assert [tuple(node.meta["val"].shape) for node in seeds] == [(2,), (1,)]
    assert aten.rand.default not in targets(joint.graph)
    whiches = [node.args[1] for node in joint.graph.nodes if node.target is UNIFORM]
    assert whiches == [0, 1, 0]


@pytest.mark.parametrize("program", [lambda x: F.dropout(x * 2, 0.5), lambda x: torch.rand_like(x) * x])
def test_sizes_that_change_are_saved_and_no_masks(program: Any) -> None:
    joint = traced(program, torch.ones(300, 400).requires_grad_(), train=True, dynamic=True)
    assert drawn(joint.graph) == 1
    for partitioner in (aotgrad.partition_default, aotgrad.partition_min_cut):
        partition = partitioner(joint)
        results = partition.forward.graph.output_node().args[0][1:]
        assert [r.target for r in results if isinstance(r.meta["val"], torch.Tensor)] == [aten.randint.low]
        assert UNIFORM in targets(partition.backward.graph)


def test_options_say_who_draws() -> None:
    for random, expected in ((None, False), ("eager", False), ("kernel", True)):
        graph = traced(lambda x: torch.rand_like(x), X).graph
        prepare_graph(graph, Options(random=random))  # type: ignore[arg-type]
        assert (UNIFORM in targets(graph)) is expected
    graph = traced(lambda x: torch.rand_like(x), X).graph
    with pytest.raises(ValueError, match="unknown random 'philox'"):
        prepare_graph(graph, Options(random="philox"))  # type: ignore[arg-type]
