"""Constants of a graph: what is computed once, what goes into weights, and what stays for each call."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

import aotgrad
from inductor import Options, compile_graph
from inductor.passes import freeze
from inductor.passes.freezing import ROOM

aten = torch.ops.aten


@torch.library.custom_op("tests_freezing::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    return x + len(calls)


calls: list[int] = []


@counted.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Holding(nn.Module):
    """A function of inputs and of tensors that it holds."""

    def __init__(self, function: Any, **tensors: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, *inputs: torch.Tensor) -> Any:
        made = self.function(self, *inputs)
        return made if isinstance(made, tuple) else (made,)


def frozen(module: Any, *inputs: torch.Tensor) -> fx.GraphModule:
    """The graph with its constants folded, which gives what the module does."""
    found: list[fx.GraphModule] = []

    def compiler(graph: fx.GraphModule, fakes: Any) -> Any:
        before = str(graph.graph)
        made, _ = freeze(graph)
        assert str(graph.graph) == before
        made.graph.lint()
        found.append(made)
        return lambda args: made(*args)

    with torch.no_grad():
        run = aotgrad.compile(module, list(inputs), inference_compiler=compiler, freeze=True)
        for one, other in zip(run(*inputs), module(*inputs), strict=True):
            torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-4)
            assert one.stride() == other.stride()
    return found[0]


def called(module: fx.GraphModule) -> list[Any]:
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


def held(module: fx.GraphModule) -> list[torch.Tensor]:
    return [getattr(module, str(node.target)) for node in module.graph.find_nodes(op="get_attr")]


X, W = torch.randn(3, 4), torch.randn(4, 4)


def test_what_follows_from_constants_alone_is_computed_once():
    module = frozen(Holding(lambda m, x: x * (m.w.exp() + m.w.t().sin()), w=W), X[:1].expand(4, 4))
    assert called(module) == [aten.mul.Tensor]
    torch.testing.assert_close(held(module), [W.exp() + W.t().sin()])


def test_views_stay_views_of_the_tensor_itself():
    weight = torch.randn(5, 4)
    module = frozen(Holding(lambda m, x: x @ m.w.t(), w=weight), X)
    assert called(module) == [aten.permute.default, aten.mm.default]
    assert held(module)[0].data_ptr() == weight.data_ptr()


def test_a_result_is_made_by_each_call():
    module = frozen(Holding(lambda m, x: (m.w.exp().sin(), x + 1), w=W), X)
    assert aten.sin.default in called(module) and aten.exp.default not in called(module)
    first, second = module(X)[0], module(X)[0]
    assert first.data_ptr() != second.data_ptr()


def test_numbers_that_come_of_no_tensor_are_left_to_kernels():
    module = frozen(Holding(lambda m, x: x + torch.arange(4) + m.w[0].exp(), w=W), X)
    assert aten.arange.start_step in called(module) or aten.arange.default in called(module)
    assert aten.exp.default not in called(module)


def test_what_grows_is_computed_by_each_call():
    def program(m: Any, x: torch.Tensor) -> torch.Tensor:
        return (m.w[:, None] * m.w).repeat(1, 2).sum(0) + x

    size = int((2 * ROOM / 4) ** 0.5)
    module = frozen(Holding(program, w=torch.randn(size)), torch.randn(2 * size))
    assert max(each.numel() * 4 for each in held(module)) <= ROOM


def test_random_numbers_and_operators_of_the_users_are_not_constants():
    module = frozen(Holding(lambda m, x: x + m.w.exp() * 0 + torch.rand_like(m.w) * 0, w=W), X[:1].expand(4, 4))
    assert any("rand" in str(target) for target in called(module))
    before = len(calls)
    graph = freeze(traced(Holding(lambda m, x: x + counted(m.w), w=W), X[:1].expand(4, 4)))[0]
    assert torch.ops.tests_freezing.counted.default in called(graph) and len(calls) == before


def traced(module: Any, *inputs: torch.Tensor) -> fx.GraphModule:
    """The graph that a compiler gets, with constants."""
    found: list[fx.GraphModule] = []

    def compiler(graph: fx.GraphModule, fakes: Any) -> Any:
        found.append(graph)
        return lambda args: graph(*args)

    with torch.no_grad():
        aotgrad.compile(module, list(inputs), inference_compiler=compiler, freeze=True)
    return found[0]


# Scales and shifts


def norm(channels: int, dims: int) -> nn.Module:
    made = [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d][dims - 1](channels)
    for tensor in (made.running_mean, made.weight, made.bias):
        tensor.data.normal_()
    made.running_var.uniform_(0.5, 2)
    return made.eval()


class Sequence(nn.Sequential):
    """Modules in order, as a program of a graph: it returns a tuple."""

    def forward(self, x: torch.Tensor) -> Any:
        return (super().forward(x),)


CONVOLUTIONS = {
    "plain": (nn.Conv2d(3, 6, 3), 2),
    "without bias": (nn.Conv2d(3, 6, 3, bias=False), 2),
    "groups": (nn.Conv2d(3, 6, 3, groups=3, padding=1), 2),
    "rows": (nn.Conv1d(3, 6, 3), 1),
    "volumes": (nn.Conv3d(3, 6, 3), 3),
    "transposed": (nn.ConvTranspose2d(3, 6, 3, stride=2), 2),
    "channels last": (nn.Conv2d(3, 6, 3).to(memory_format=torch.channels_last), 2),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_batch_norm_goes_into_the_convolution(name: str):
    layer, dims = CONVOLUTIONS[name]
    module = frozen(Sequence(layer, norm(6, dims)), torch.randn(2, 3, *[8] * dims))
    assert called(module) == [aten.convolution.default]


def test_a_transposed_convolution_of_groups_stays():
    module = frozen(Sequence(nn.ConvTranspose2d(4, 6, 3, groups=2), norm(6, 2)), torch.randn(2, 4, 8, 8))
    assert len(called(module)) > 1


@pytest.mark.parametrize("bias", [False, True])
def test_batch_norm_goes_into_the_linear_layer(bias: bool):
    module = frozen(Sequence(nn.Linear(4, 6, bias=bias), norm(6, 1)), X)
    assert called(module) == [aten.addmm.default]


def test_a_scale_alone_needs_no_bias():
    module = frozen(Holding(lambda m, x: x @ m.w * m.s / 3, w=W, s=torch.randn(4)), X)
    assert called(module) == [aten.mm.default]


def test_scales_behind_views_and_permutations():
    def program(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = (F.linear(x, m.w, m.b) * m.s).permute(0, 3, 1, 2)
        return 3 * (y - 2) + m.t

    tensors = {"w": torch.randn(6, 4), "b": torch.randn(6), "s": torch.randn(6), "t": torch.randn(6, 1, 1)}
    module = frozen(Holding(program, **tensors), torch.randn(2, 5, 3, 4))
    assert not {aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor} & set(called(module))


@pytest.mark.parametrize(
    "program",
    [
        lambda m, x: (F.linear(x, m.w).view(3, 8, 3) * m.three).sum(),  # the channels are spread
        lambda m, x: F.linear(x, m.w).relu() * m.s,
        lambda m, x: (y := F.linear(x, m.w)) * m.s + y,
        lambda m, x: F.linear(x, m.w) * m.matrix,
        lambda m, x: F.linear(x, m.w) / m.zero,
        lambda m, x: F.linear(x, m.w) + m.wide,
        lambda m, x: (F.linear(x, m.w) * m.inf).nan_to_num(),
        lambda m, x: 1 / F.linear(x, m.w) + 0 * m.s,
        lambda m, x: F.linear(x, m.w) * (x.sum() * 0 + m.s),
        lambda m, x: (y := F.linear(x, m.w), y * m.s),
    ],
)
def test_what_is_no_scale_of_channels_stays(program: Any):
    tensors = {
        "w": torch.randn(24, 4),
        "s": torch.randn(24),
        "three": torch.randn(3),
        "matrix": torch.randn(3, 24),
        "zero": torch.zeros(24),
        "wide": torch.randn(24, dtype=torch.float64),
        "inf": torch.tensor(float("inf")),
    }
    module = Holding(program, **tensors)
    made = frozen(module, X)
    products = [getattr(made, str(node.args[-1].args[0].target)) for node in made.graph.find_nodes(op="call_function", target=aten.mm.default)]  # fmt: skip
    assert [each.data_ptr() for each in products] == [module.w.data_ptr()]


def test_a_weight_of_two_layers_gets_two_scales():
    def program(m: Any, x: torch.Tensor) -> torch.Tensor:
        return F.linear(F.linear(x, m.w) * m.s, m.w) * m.t + F.linear(x, m.w)

    frozen(Holding(program, w=W, s=torch.randn(4), t=torch.randn(4)), X)


def test_bfloat16_is_rounded_once():
    layer, after = nn.Conv2d(3, 6, 3).bfloat16(), norm(6, 2).bfloat16()
    x = torch.randn(2, 3, 8, 8).bfloat16()
    with torch.no_grad():
        made = freeze(traced(Sequence(layer, after), x))[0]
        assert not {aten.mul.Tensor, aten.add.Tensor} & set(called(made))
        exact = after.double()(layer.double()(x.double()))
        torch.testing.assert_close(made(x)[0].double(), exact, rtol=3e-2, atol=3e-2)


# The disk cache


def test_values_are_no_part_of_what_is_cached(tmp_path):
    def run(weight: torch.Tensor) -> tuple[str, torch.Tensor]:
        compiled = []

        def compiler(graph: fx.GraphModule, fakes: Any) -> Any:
            compiled.append(compile_graph(graph, fakes, Options(freezing=True, cache_dir=str(tmp_path))))
            return compiled[0]

        with torch.no_grad():
            module = Holding(lambda m, x: x @ m.w.exp().t() * 2, w=weight)
            (made,) = aotgrad.compile(module, [X], inference_compiler=compiler, freeze=True)(X)
            torch.testing.assert_close(made, X @ weight.exp().t() * 2)
        return compiled[0].stats.cache, made

    assert [run(torch.randn(4, 4))[0] for _ in range(3)] == ["miss", "hit", "hit"]
    assert not list(tmp_path.rglob("constants.bin"))
