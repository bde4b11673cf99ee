"""Values that are copied to row-major order, which lie so from the start."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_relaid import hold, traced
from torch import fx

import aotgrad
from inductor.lowerings import LOWERINGS
from inductor.lowerings.registry import READS_MEMORY
from inductor.passes import row_major
from symshapes import DimPolicy, FakeMode, ShapeEnv

aten = torch.ops.aten
SIGNAL, STEM, PLACES, WEIGHT = torch.randn(2, 3, 10), torch.randn(8, 3, 3), torch.randn(8, 8), torch.randn(8, 8)


def begun(graph: fx.Graph) -> int:
    return row_major(graph, LOWERINGS, lambda node: node.target not in LOWERINGS or node.target in READS_MEMORY)


def normed(h: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(h, (8,))


def stream(x: torch.Tensor, stem: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A residual stream whose sums eager stores column by column."""
    h = F.conv1d(x, stem).relu().transpose(1, 2) + places
    h = h + normed(h) @ weight
    return h + normed(h).relu() @ weight


def column_major(module: fx.GraphModule) -> list[str]:
    """Sums that are stored column by column."""
    return [n.name for n in module.graph.nodes if n.target is aten.add.Tensor if n.meta["val"].stride()[-1] != 1]


def test_a_residual_stream_is_stored_by_rows():
    inputs = SIGNAL, STEM, PLACES, WEIGHT

    def program(*inputs: torch.Tensor) -> tuple[torch.Tensor]:
        return (normed(stream(*inputs)),)

    module = traced(program, *inputs)
    assert len(column_major(module)) == 3
    assert begun(module.graph) == 1
    hold(module, program, *inputs)
    # The first is copied as it is computed; eager's own copies are no more.
    assert len(column_major(module)) == 1
    assert len([n for n in module.graph.nodes if n.target is aten.clone.default]) == 1


def test_a_stream_in_half_precision_is_widened_before_each_copy():
    inputs = [t.bfloat16() for t in (SIGNAL, STEM, PLACES, WEIGHT)]

    def program(*inputs: torch.Tensor) -> tuple[torch.Tensor]:
        return (normed(stream(*inputs)),)

    module = traced(program, *inputs)
    assert len(column_major(module)) == 3
    assert begun(module.graph) == 1
    hold(module, program, *inputs, tolerance=1e-2)
    assert len(column_major(module)) == 1
    assert [n.meta["val"].dtype for n in module.graph.nodes if n.target is aten.clone.default] == [torch.bfloat16]


def test_in_training_too():
    inputs = [t.clone().requires_grad_() for t in (SIGNAL, STEM, PLACES, WEIGHT)]
    module = traced(lambda *inputs: (normed(stream(*inputs)).square().sum(),), *inputs, train=True)
    assert begun(module.graph) == 1
    module.graph.lint()
    assert len(column_major(module)) == 1


def leaves(x: torch.Tensor, stem: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> Any:
    h = stream(x, stem, places, weight)
    return normed(h), h


def leaves_transposed(x: torch.Tensor, stem: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> Any:
    h = stream(x, stem, places, weight)
    return normed(h), h.transpose(1, 2)


def convolved_again(x: torch.Tensor, stem: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> Any:
    return (F.conv1d(stream(x, stem, places, weight).transpose(1, 2), stem.transpose(0, 1)),)


def copied_alone(x: torch.Tensor, stem: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> Any:
    return (normed(F.conv1d(x, stem).transpose(1, 2) + places) @ weight,)


def mixed(x: torch.Tensor, stem: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> Any:
    """Every other layer reads the normalised stream by columns."""
    h = F.conv1d(x, stem).transpose(1, 2) + places
    for _ in range(3):
        h = h + (normed(h).transpose(1, 2) @ weight).transpose(1, 2)
        h = h + normed(h) @ weight
    return (normed(h),)


def within_one_kernel(x: torch.Tensor, stem: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> Any:
    h = F.conv1d(x, stem).transpose(1, 2) + places
    return (normed(h + normed(h)),)


def counted_in_memory(x: torch.Tensor, stem: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> Any:
    h = stream(x, stem, places, weight)
    return normed(h), torch.as_strided(h, (3, 3), (7, 1), 5) * 1


@pytest.mark.parametrize(
    "program", [leaves, leaves_transposed, convolved_again, copied_alone, mixed, within_one_kernel, counted_in_memory]
)
def test_what_would_be_copied_back_or_is_never_stored_stays(program: Any) -> None:
    inputs = SIGNAL, STEM, PLACES, WEIGHT
    module = traced(program, *inputs)
    before = str(module.graph)
    assert not begun(module.graph)
    assert str(module.graph) == before
    hold(module, program, *inputs)


def test_what_depends_on_strides_takes_the_first_as_it_is() -> None:
    """Numbers are drawn in the order of memory."""
    inputs = SIGNAL, STEM, PLACES, WEIGHT

    def program(*inputs: torch.Tensor) -> tuple[torch.Tensor]:
        h = F.conv1d(inputs[0], inputs[1]).relu().transpose(1, 2) + inputs[2]
        h = h + torch.rand_like(h)
        return (normed(h + normed(h) @ inputs[3]),)

    def drawn(function: Any) -> Any:
        torch.manual_seed(0)
        return function(*inputs)

    module = traced(program, *inputs)
    assert begun(module.graph)
    module.recompile()
    torch.testing.assert_close(drawn(module), drawn(program))


def test_results_that_have_memory_of_their_own_keep_it() -> None:
    def program(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = stream(*inputs)
        copy = h.contiguous()
        return normed(h), h[0, 0, 0], copy[0, 0, 0]

    module = traced(program, SIGNAL, STEM, PLACES, WEIGHT)
    assert begun(module.graph)
    module.recompile()
    _, one, other = module(SIGNAL, STEM, PLACES, WEIGHT)
    kept = other.clone()
    one.add_(1)
    assert torch.equal(other, kept)


def test_symbolic_sizes_stay() -> None:
    mode = FakeMode(ShapeEnv())
    inputs = SIGNAL.repeat(2, 1, 1), STEM, PLACES, WEIGHT
    policies = [[DimPolicy.DYNAMIC, DimPolicy.STATIC, DimPolicy.STATIC], *[None] * 3]
    fakes = [
        mode.from_tensor(t, source=f"x{i}", policy=policy or [DimPolicy.STATIC] * t.dim())
        for i, (t, policy) in enumerate(zip(inputs, policies, strict=True))
    ]
    module = aotgrad.trace_inference(lambda *inputs: (normed(stream(*inputs)),), fakes).module
    assert not begun(module.graph)
