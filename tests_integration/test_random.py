"""Random numbers drawn within kernels: the same whoever draws them, from torch's seeds, and drawn again by backwards."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import aotgrad
import capture
import meta
from cpu_codegen import CpuBackend
from inductor import Options, ReferenceBackend, compile_graph, prepare_graph
from inductor.philox import random_bits

KERNEL = Options(random="kernel", cache=False)
BACKENDS: dict[str, Callable[[], Any]] = {"cpp": CpuBackend, "reference": ReferenceBackend}
if importlib.util.find_spec("triton") is not None:
    from inductor.triton import TritonBackend

    BACKENDS["triton"] = functools.partial(TritonBackend, "cpu")


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    return meta.compile(function, options={"random": "kernel", **options}, fullgraph=True)


def by(backend: str, function: Callable[..., Any], *inputs: Any, **choices: Any) -> tuple[Any, list[Any]]:
    """The function compiled by a backend, and what graphs it was made of."""
    backends, graphs = {"cpu": BACKENDS[backend]()}, []

    def compiler(graph: Any, given: Any) -> Any:
        graphs.append(graph)
        return compile_graph(graph, given, KERNEL, backends=backends)

    rewrite = functools.partial(prepare_graph, options=KERNEL, backends=backends)
    return aotgrad.compile(function, inputs, rewrite=rewrite, inference_compiler=compiler, **choices), graphs


def targets(graph: Any) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


DRAWN: dict[str, Callable[[], Any]] = {
    "uniform": lambda: torch.rand(7, 33),
    "float64": lambda: torch.rand(7, 33, dtype=torch.float64),
    "bfloat16": lambda: torch.rand(7, 33, dtype=torch.bfloat16),
    "float16": lambda: torch.rand(7, 33, dtype=torch.float16),
    "turned": lambda: torch.rand(7, 33).t() + 0,
    "a corner": lambda: torch.rand(2**20, 2**20)[-3:, -5:] + 0,
    "integers": lambda: torch.randint(-5, 1000, (7, 33)),
    "bytes": lambda: torch.randint(0, 256, (7, 33), dtype=torch.uint8),
    "kept": lambda: torch.full((7, 33), 0.3).bernoulli(),
    "two": lambda: torch.rand(5, 5) + 2 * torch.rand(5, 5),
    "one": lambda: torch.rand(()),
    "none": lambda: torch.rand(0, 3),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_backend_draws_the_same_bits(name: str) -> None:
    results = []
    for backend in BACKENDS:
        function, graphs = by(backend, lambda x: DRAWN[name](), torch.ones(1))
        torch.manual_seed(5)
        results.append(function(torch.ones(1)))
        assert sum("aten.randint" in target for target in targets(graphs[0])) == 1
    assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_every_backend_draws_the_same_normal_numbers(dtype: torch.dtype) -> None:
    results = []
    for backend in BACKENDS:
        function, _ = by(backend, lambda x: torch.randn(50, 41, dtype=dtype), torch.ones(1))
        torch.manual_seed(5)
        results.append(function(torch.ones(1)))
    for other in results[1:]:
        torch.testing.assert_close(results[0], other)


def test_numbers_follow_from_seed_and_position() -> None:
    """Known answers of Philox2x32-10 (those of Random123), and positions beyond 32 bits."""

    def words(position: int, seed: int) -> tuple[int, int]:
        bits = int(random_bits(*(torch.tensor((n + 2**63) % 2**64 - 2**63) for n in (seed, position)))) % 2**64
        return bits % 2**32, bits >> 32

    assert words(0, 0) == (0xFF1DAE59, 0x6CD10DF2)
    assert words(2**64 - 1, 2**32 - 1) == (0x2C3F628B, 0xAB4FD7AD)
    assert words(0x85A308D3243F6A88, 0x13198A2E) == (0xDD7CE038, 0xF62A4C12)
    assert words(5, 7 << 32 | 9) == words(5 | 7 << 32, 9)
    # The last element of 2**20 rows of 2**20.
    function, _ = by("cpp", lambda x: torch.rand(2**20, 2**20)[-1:, -1:] + 0, torch.ones(1))
    torch.manual_seed(3)
    got = function(torch.ones(1))
    torch.manual_seed(3)
    seed = torch.randint(-(2**63), 2**63 - 1, (1,))
    assert got.item() == (int(random_bits(seed, torch.tensor(2**39 - 1))) >> 32 & 0xFFFFFF) / 2**24


def test_manual_seed_and_states() -> None:
    function = compiled(lambda x: F.dropout(x, 0.4) + torch.randn_like(x))
    x = torch.ones(100, 30)
    torch.manual_seed(0)
    first, second = function(x), function(x)
    state = torch.get_rng_state()
    third = function(x)
    assert not torch.equal(first, second) and not torch.equal(second, third)
    torch.manual_seed(0)
    assert torch.equal(function(x), first)
    with torch.random.fork_rng():
        torch.manual_seed(9)
        function(x)
    assert torch.equal(function(x), second)
    torch.set_rng_state(state)
    assert torch.equal(function(x), third)


def test_the_processor_draws_eagers_numbers_by_default() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.4) + torch.rand_like(x) * torch.randn(30)

    x = torch.ones(100, 30)
    for options in ({}, {"random": "eager"}):
        for function in (
            program,
            lambda x: torch.empty_like(x).random_(-3, 9),
        ):  # an overload named as a keyword of Python
            torch.manual_seed(0)
            expected = function(x)
            torch.manual_seed(0)
            assert torch.equal(meta.compile(function, options=options, fullgraph=True)(x), expected)
    with pytest.raises(ValueError, match="unknown random 'philox'"):
        prepare_graph(torch.fx.Graph(), Options(random="philox"))  # type: ignore[arg-type]


def even(numbers: torch.Tensor, count: int = 64) -> None:
    """Numbers of [0, 1) fall into equal parts about equally often: 5 standard deviations of chi squared."""
    found = torch.histc(numbers.double(), count, 0, 1)
    expected = numbers.numel() / count
    chi = float(((found - expected) ** 2 / expected).sum())
    assert abs(chi - (count - 1)) < 5 * (2 * (count - 1)) ** 0.5


def unrelated(a: torch.Tensor, b: torch.Tensor) -> None:
    a, b = a.double().flatten() - a.double().mean(), b.double().flatten() - b.double().mean()
    assert abs(float((a * b).mean() / (a.std() * b.std()))) < 5 / a.numel() ** 0.5


def test_distributions() -> None:
    n = 400_000

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = torch.rand(2**18, 2**17)[:: 2**15]
        return (
            torch.rand_like(x),
            torch.rand_like(x),
            torch.randn_like(x),
            torch.randn_like(x, dtype=torch.float64),
            torch.empty_like(x).exponential_(2),
            torch.randint(3, 13, (n,)),
            F.dropout(x, 0.3),
            torch.empty_like(x).uniform_(-3, 5),
            torch.empty_like(x).normal_(2, 0.5),
            # 2**32 places apart
            wide[:2] + 0,
        )

    torch.manual_seed(11)
    function = compiled(program)
    x = torch.ones(n)
    u, v, g, h, e, i, d, b, s, wide = function(x)
    u2 = function(x)[0]
    even(u)
    even(v)
    even((u * 256) % 1)  # bits further down
    for one, other in ((u, v), (u, u2), (u[1:], u[:-1]), (u[: n // 2], u[n // 2 :]), (g, h), (u, g), tuple(wide)):
        unrelated(one, other)
    for normal in (g, h, (s - 2) * 2):
        even(torch.special.ndtr(normal.double()))
    even(torch.exp(-2 * e.double()))
    assert e.min() > 0 and e.dtype is torch.float32
    counts = torch.bincount(i)
    assert i.min() == 3 and i.max() == 12 and ((counts[3:] - n / 10).abs() < 5 * (n * 0.09) ** 0.5).all()
    assert abs(float((d == 0).double().mean()) - 0.3) < 5 * (0.21 / n) ** 0.5
    assert torch.equal(d.unique(), torch.tensor([0, 1 / 0.7]))
    even((b.double() + 3) / 8)
    assert b.min() >= -3 and b.max() <= 5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_below_one(dtype: torch.dtype) -> None:
    u = compiled(lambda: torch.rand(200_000, dtype=dtype))()
    assert u.dtype is dtype and u.max() < 1 and abs(float(u.double().mean()) - 0.5) < 0.01
    x = torch.ones(100_000, dtype=dtype)
    d = compiled(lambda x: F.dropout(x, 0.1))(x)
    assert abs(float((d == 0).double().mean()) - 0.1) < 5 * (0.09 / 1e5) ** 0.5
    assert d.max() == F.dropout(x, 0.1).max()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_numbers_stay_within_their_bounds(dtype: torch.dtype) -> None:
    x = torch.ones(300_000, dtype=dtype)
    bounds = [(0, 2), (1, 2), (-2, -1), (-1, 0), (0, 1e-3), (1e4, 1e4 + 1), (5, 5)]
    results = compiled(lambda x: [torch.empty_like(x).uniform_(low, high) for low, high in bounds])(x)
    for (low, high), numbers in zip(bounds, results, strict=True):
        least, most = torch.tensor([low, high], dtype=dtype)
        assert numbers.min() >= least and (numbers.max().item() < high or least == most)
    # Half types' exponential numbers are not cut off where they become subnormal; those beyond their integers are eager's.
    small = compiled(lambda x: torch.empty_like(x).exponential_(1e3))(x)
    assert small.min() > 0 and abs(float(small.double().mean()) * 1e3 - 1) < 0.02
    if dtype is torch.float16:
        with pytest.raises(RuntimeError, match="out of bounds"):
            compiled(lambda x: torch.randint_like(x, 100_000))(x)
        with pytest.raises(RuntimeError, match="out of bounds"):
            compiled(lambda x: torch.empty_like(x).uniform_(0, 1e6))(x)
    if dtype is torch.bfloat16:
        assert compiled(lambda x: torch.randint_like(x, 1 << 40))(x).max() < 1 << 40


def test_dropout_at_its_ends() -> None:
    x = torch.randn(50, 40)
    assert torch.equal(compiled(lambda x: F.dropout(x, 0.0))(x), x)
    assert torch.equal(compiled(lambda x: F.dropout(x, 1.0))(x), x * 0)
    assert torch.equal(compiled(lambda x: F.dropout(x, 0.5, training=False))(x), x)
    assert compiled(lambda x: F.dropout(x, 0.5))(x[:0]).shape == (0, 40)
    ends = compiled(lambda p: torch.bernoulli(p))(torch.tensor([0.0, 1.0]).repeat(5000))
    assert torch.equal(ends, torch.tensor([0.0, 1.0]).repeat(5000))
    with pytest.raises(RuntimeError):
        meta.compile(lambda x: torch.empty_like(x).bernoulli_(1.5), options={"random": "kernel"})(x)


@pytest.mark.parametrize("bad", [1.5, -0.25, math.nan])
@pytest.mark.parametrize("program", [torch.bernoulli, lambda p: torch.zeros(7, 5).bernoulli_(p) * p])
def test_probabilities_that_are_none(program: Callable[[torch.Tensor], torch.Tensor], bad: float) -> None:
    given = torch.rand(7, 5)
    drawn = compiled(program)
    drawn(given)
    given[3, 2] = bad
    for run in (program, drawn):
        with pytest.raises(RuntimeError, match="p_in >= 0 && p_in <= 1"):
            run(given)


TRAINED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: F.dropout(x, 0.3) * 2,
    "after": lambda x: F.dropout(x.exp(), 0.3).sin(),
    "native": lambda x: torch.native_dropout(x, 0.3, True)[0],
}


@pytest.mark.parametrize("partitioner", [aotgrad.partition_default, aotgrad.partition_min_cut])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TRAINED)
def test_a_backward_draws_its_forwards_numbers(name: str, backend: str, partitioner: Any) -> None:
    x = (torch.rand(400, 200) + 0.1).requires_grad_()
    function, graphs = by(backend, TRAINED[name], x, partitioner=partitioner)
    for _ in range(2):
        y = function(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert torch.equal(gradient == 0, y == 0) and 0 < int((y == 0).sum()) < 80_000
    forward, backward = graphs
    assert sum("randint" in target for target in targets(forward)) == 1
    assert "in_kernel.uniform.default" in targets(backward)
    assert not any("randint" in target for target in targets(backward))
    saved = [value.shape for value in forward.graph.output_node().args[0][1:] for value in [value.meta["val"]]]
    assert torch.Size([1]) in saved and all(value == x.shape for value in saved if value != torch.Size([1]))
    assert not any(v.meta["val"].dtype is torch.bool for v in forward.graph.output_node().args[0])


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_draws_the_same(reentrant: bool, within: bool) -> None:
    layers = [torch.nn.Linear(64, 64) for _ in range(2)]

    def block(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(layers[1](F.dropout(layers[0](x), 0.5).relu()), 0.5)

    if within:
        inner = compiled(block)
        function = lambda x: checkpoint(inner, x, use_reentrant=reentrant) * 3  # noqa: E731
    else:
        function = meta.compile(
            lambda x: checkpoint(block, x, use_reentrant=reentrant) * 3, options={"random": "kernel"}
        )
    for _ in range(2):
        layers[1].zero_grad()
        x = torch.randn(512, 64, requires_grad=True)
        y = function(x)
        y.sum().backward()
        # The last layer's bias gets 1 / (1 - p) for each element that was kept.
        torch.testing.assert_close(layers[1].bias.grad, (y != 0).sum(0) * 6.0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_around_pieces_draws_the_same(reentrant: bool) -> None:
    def called(x: torch.Tensor) -> torch.Tensor:
        capture.disable(id)(x)  # a graph break
        return F.dropout(x, 0.5)

    function = meta.compile(lambda x: F.dropout(called(x) * 2, 0.3), options={"random": "kernel"})
    for _ in range(2):
        x = torch.randn(512, 64, requires_grad=True)
        y = checkpoint(function, x, use_reentrant=reentrant)
        y.sum().backward()
        assert x.grad is not None and torch.equal(x.grad == 0, y == 0)


@capture.disable
def cut(x: torch.Tensor) -> None:
    """A graph break."""


class Again(torch.autograd.Function):
    """What a checkpoint of somebody else's does: in some mode first, with gradients in the backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, called: Callable[..., Any], mode: Callable[[], Any]) -> Any:
        ctx.save_for_backward(x)
        ctx.called, ctx.state = called, torch.get_rng_state()
        with mode():
            y = called(x)
        return y.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        with torch.enable_grad(), torch.random.fork_rng(devices=()):
            torch.set_rng_state(ctx.state)
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = ctx.called(x)
        return *torch.autograd.grad(y, x, gradient), None, None


def dropped(x: torch.Tensor) -> torch.Tensor:
    cut(x)
    return F.dropout(x, 0.5)


AROUND: dict[str, Callable[[torch.Tensor], Any]] = {
    "checkpoint": lambda x: checkpoint(dropped, x, use_reentrant=False),
    "reentrant": lambda x: checkpoint(dropped, x, use_reentrant=True),
    "somebody else's": lambda x: Again.apply(x, dropped, torch.no_grad),
    "with gradients": lambda x: Again.apply(x, dropped, torch.enable_grad),
    "of inference": lambda x: Again.apply(x, dropped, torch.inference_mode),
}


@pytest.mark.parametrize("within", [False, True], ids=["after", "within"])
@pytest.mark.parametrize("around", AROUND)
def test_a_piece_that_is_run_again_draws_the_same(around: str, within: bool) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = AROUND[around](x * 2)
        if within:
            y.sum().backward()
        return y

    for _ in range(2):
        x = torch.randn(512, 64, requires_grad=True)
        y = meta.compile(step, options={"random": "kernel"})(x)
        if not within:
            y.sum().backward()
        assert x.grad is not None and torch.equal(x.grad == 0, y == 0)


def test_pieces_draw_within_kernels() -> None:
    """Where nothing asks for the numbers again a piece draws them as a whole function does: alike with gradients and without."""

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            torch.manual_seed(3)
            first = dropped(x)
        torch.manual_seed(3)
        return first, dropped(x)

    x = torch.ones(512, 64, requires_grad=True)
    function = meta.compile(both, options={"random": "kernel"})
    for _ in range(2):
        first, second = function(x)
        assert torch.equal(first, second) and second.requires_grad
        second.sum().backward()
        assert x.grad is not None and torch.equal(x.grad, second)
        x.grad = None
    torch.manual_seed(3)
    assert not torch.equal(dropped(x), second)  # eager's are others


def test_changing_sizes_and_strides() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = F.dropout(x * 2, 0.25)
        return y, torch.rand_like(x), torch.randn(x.shape[0], 3)

    function = meta.compile(program, dynamic=True, options={"random": "kernel"}, fullgraph=True)
    for rows in (300, 517, 2, 1):
        x = (torch.rand(rows, 64) + 1).requires_grad_()
        y, u, g = function(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert torch.equal(gradient == 0, y == 0)
        assert u.shape == x.shape and g.shape == (rows, 3) and 0 <= u.min() and u.max() < 1
    assert capture.report(function).graphs and len(capture.report(function).graphs) <= 3

    image = (torch.rand(2, 8, 16, 16) + 1).to(memory_format=torch.channels_last)
    function = compiled(lambda x: (F.dropout(x, 0.25), torch.rand_like(x), F.dropout2d(x, 0.5)))
    flat = compiled(lambda x: torch.rand_like(x))
    y, u, planes = function(image)
    assert all(t.stride() == image.stride() for t in (y, u))
    assert torch.equal((planes != 0).flatten(2).any(2), (planes != 0).flatten(2).all(2))
    torch.manual_seed(4)
    rows = flat(torch.ones(2, 8, 16, 16))
    torch.manual_seed(4)
    last = flat(image)
    assert torch.equal(rows, last) and last.stride() == image.stride()


OTHERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "dropout1d": lambda x: F.dropout1d(x.view(8, 16, 64), 0.5),
    "dropout3d": lambda x: F.dropout3d(x.view(2, 4, 4, 16, 16), 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.2, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x.view(8, 16, 64), 0.2, training=True),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, tau=0.5),
    "gumbel_hard": lambda x: F.gumbel_softmax(x, hard=True),
    "randperm": lambda x: x[torch.randperm(128)],
    "multinomial": lambda x: torch.multinomial(x.softmax(-1), 2),
    "attention": lambda x: F.scaled_dot_product_attention(*(x.view(2, 4, 16, 64),) * 3, dropout_p=0.2),
    "cauchy": lambda x: torch.empty_like(x).cauchy_(),
    "geometric": lambda x: torch.empty_like(x).geometric_(0.3),
    "log_normal": lambda x: torch.empty_like(x).log_normal_(),
    "choice": lambda x: x + torch.randint_like(x, 3),
    "a distribution": lambda x: torch.distributions.Normal(x, 2.0).rsample(),
    "of tensors": lambda x: torch.normal(x, 0.5),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_other_programs(name: str, train: bool) -> None:
    function = meta.compile(OTHERS[name], options={"random": "kernel"})
    x = torch.randn(128, 64)
    x.requires_grad_(train)
    torch.manual_seed(0)
    first = function(x)
    torch.manual_seed(0)
    again = function(x)
    expected = OTHERS[name](x)
    assert torch.equal(first, again) and not torch.equal(first, function(x))
    assert first.shape == expected.shape and first.dtype is expected.dtype and first.isfinite().all()
    if train and expected.requires_grad:
        (gradient,) = torch.autograd.grad(first.square().sum(), x)
        assert gradient.isfinite().all()


def test_a_generator_of_the_programs_own_is_eagers() -> None:
    generator = torch.Generator()
    x = torch.ones(40, 50)

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x).uniform_(generator=generator)

    generator.manual_seed(0)
    expected = program(x)
    generator.manual_seed(0)
    assert torch.equal(meta.compile(program, options={"random": "kernel"})(x), expected)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("option", ["autotune", "native_wrapper", "freezing", "fuse", "cache"])
def test_beside_other_options(option: str, train: bool) -> None:
    function = compiled(lambda x, w: F.dropout(F.linear(x, w).exp(), 0.3) * 2, **{option: option != "fuse"})
    x, w = torch.rand(512, 64, requires_grad=train), torch.randn(64, 64)
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        results.append(function(x, w))
    assert torch.equal(*results) and abs(float((results[0] == 0).double().mean()) - 0.3) < 0.02
    if train:
        bias = torch.zeros(64, requires_grad=True)
        with_bias = compiled(lambda x, w, b: F.dropout(F.linear(x, w) + b, 0.3), **{option: option != "fuse"})
        y = with_bias(x, w, bias)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), bias)[0], (y != 0).sum(0) / 0.7, rtol=1e-5, atol=1e-5)


def test_results_that_are_differentiated_apart() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = F.dropout(x, 0.5)
        return first, F.dropout(first * 2, 0.5), F.dropout(y.exp(), 0.2)

    function = compiled(program)
    x, y = (torch.rand(400, 200).add_(0.1).requires_grad_() for _ in range(2))
    for _ in range(2):
        a, b, c = function(x, y)
        for result, leaf in ((a, x), (b, x), (c, y)):
            (gradient,) = torch.autograd.grad(result.sum(), leaf, retain_graph=True)
            assert torch.equal(gradient == 0, result == 0)
        (gradient,) = torch.autograd.grad(b.sum(), a, retain_graph=True)
        assert torch.equal((gradient == 0)[a != 0], (b == 0)[a != 0])


def test_within_a_branch() -> None:
    def program(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(p, lambda x: F.dropout(x, 0.5), lambda x: x * 2, (x,))  # type: ignore[no-any-return]

    function = compiled(program)
    x = torch.ones(300, 100)
    assert abs(float((function(torch.tensor(True), x) == 0).double().mean()) - 0.5) < 0.02
    assert torch.equal(function(torch.tensor(False), x), x * 2)


def test_two_derivatives_are_refused() -> None:
    function = compiled(lambda x: F.dropout(x.exp(), 0.5))
    x = torch.randn(20, 30, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    with pytest.raises(RuntimeError, match="draws random numbers"):
        (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        gradient.sum().backward()
    # By autograd.grad as well, which asks only what leads to the input; the rest of the loss does without it.
    for given in (x, x * 2):
        y = function(given)
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="draws random numbers"):
            torch.autograd.grad(gradient.square().sum() + y.sum(), x)
