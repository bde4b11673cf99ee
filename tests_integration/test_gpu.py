"""On a GPU: positions out of range, sizes beyond 32 bits, determinism, attention's operands. Elsewhere skipped.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpu.py` runs them.
"""

from __future__ import annotations

import gc
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import meta
from inductor.philox import random_bits
from inductor.seeds import drawn_seeds

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)

ROWS, COLUMNS, COUNT = 50, 16, 80
FAR = 2**31

Program = Callable[..., Any]


def tables() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return (
        torch.randn(ROWS, COLUMNS, device="cuda"),
        torch.randn(COUNT, COLUMNS, device="cuda"),
        torch.randn(COUNT, ROWS, device="cuda"),
    )


def wide(index: torch.Tensor) -> torch.Tensor:
    return index[:, None].expand(COUNT, COLUMNS)


REFUSING: dict[str, tuple[Program, type[Exception], bool]] = {
    "embedding": (lambda i, t, s, c: F.layer_norm(F.embedding(i, t), (COLUMNS,)), IndexError, False),
    "embedding, a part read": (lambda i, t, s, c: F.embedding(i, t)[:2] + 1, IndexError, False),
    "gather": (lambda i, t, s, c: t.gather(0, wide(i)), RuntimeError, False),
    "index_select": (lambda i, t, s, c: t.index_select(0, i) * 2, IndexError, False),
    "getitem": (lambda i, t, s, c: t[i] * 2, IndexError, True),
    "scatter_add": (lambda i, t, s, c: torch.zeros_like(t).scatter_add(0, wide(i), s), RuntimeError, False),
    "index_add": (lambda i, t, s, c: t.index_add(0, i, s), RuntimeError, False),
    "index_put": (lambda i, t, s, c: t.index_put((i,), s, accumulate=True), IndexError, True),
    "one_hot": (lambda i, t, s, c: F.one_hot(i, ROWS), RuntimeError, False),
    "cross_entropy": (lambda i, t, s, c: F.cross_entropy(c, i), IndexError, False),
    "reduced": (lambda i, t, s, c: t[i].sum(), IndexError, True),
}
"""Program, what it raises, and whether -1 is the last position."""


def positions(bad: int | None) -> torch.Tensor:
    index = torch.arange(COUNT, device="cuda") % ROWS
    if bad is not None:
        index[COUNT // 2] = bad
    return index


@pytest.mark.parametrize("name", REFUSING)
def test_a_bad_position_raises_and_the_next_right_call_works(name: str) -> None:
    program, error, wraps = REFUSING[name]
    compiled = meta.compile(program)
    given = tables()
    for bad in (-1, -ROWS - 1, ROWS, 2**40, -(2**63)):
        if bad == -1 and wraps:
            torch.testing.assert_close(compiled(positions(bad), *given), program(positions(bad), *given))
            continue
        with pytest.raises(error, match="out of range"):
            compiled(positions(bad), *given)
        torch.cuda.synchronize()
        torch.testing.assert_close(compiled(positions(None), *given), program(positions(None), *given))


def test_a_bad_position_in_training() -> None:
    table = torch.randn(ROWS, COLUMNS, device="cuda", requires_grad=True)
    compiled = meta.compile(lambda i: F.embedding(i, table).tanh().sum())
    with pytest.raises(IndexError):
        compiled(positions(ROWS)).backward()
    compiled(positions(None)).backward()
    other = table.detach().clone().requires_grad_()
    F.embedding(positions(None), other).tanh().sum().backward()
    torch.testing.assert_close(table.grad, other.grad)


def test_later_or_never_if_asked_for() -> None:
    table = tables()[0]
    later = meta.compile(lambda i: F.embedding(i, table) + 1, options={"index_checks": "async"})
    with pytest.raises(IndexError):  # by the call itself if the kernel was fast, else by the next
        later(positions(ROWS))
        torch.cuda.synchronize()
        later(positions(None))
    torch.testing.assert_close(later(positions(None)), table[positions(None)] + 1)
    never = meta.compile(lambda i: F.embedding(i, table) + 2, options={"index_checks": "off"})
    for bad in (ROWS, None):
        result = never(positions(bad))
        torch.cuda.synchronize()
    torch.testing.assert_close(result, table[positions(None)] + 2)


def test_capture_in_a_cuda_graph() -> None:
    table = tables()[0]
    compiled = meta.compile(lambda i: F.embedding(i, table) + 1)
    index = positions(None)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        compiled(index)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(index)
    index.copy_(index.flip(0))
    graph.replay()
    torch.testing.assert_close(result, table[index] + 1)


def big(count: int) -> torch.Tensor:
    x = torch.zeros(count, dtype=torch.int8, device="cuda")
    x[-5:] = torch.arange(5, device="cuda")
    x[:5] = torch.arange(5, 10, device="cuda")
    return x


LARGE: dict[str, tuple[Program, Callable[[], tuple[torch.Tensor, ...]]]] = {
    "a large constant": (lambda: torch.arange(FAR + 100, device="cuda")[-3:] + 1, lambda: ()),
    "many elements": (lambda x: x + 1, lambda: (big(FAR + 19),)),
    "a little less than 32 bits hold": (lambda x: x + 1, lambda: (big(FAR - 5),)),
    "a far offset": (lambda x: x[-7:] * 2 + x[3:10], lambda: (big(FAR + 19),)),
    "a large stride": (lambda x: x.view(-1, 2**20)[:, -1] + 1, lambda: (big(FAR + 2**20),)),
    "reversed": (lambda x: x.flip(0)[:9] + 1, lambda: (big(FAR + 19),)),
    "a far row": (lambda x, i: x.view(-1, 64)[i] + 1, lambda: (big(FAR + 64), torch.tensor([0, 2**25, 7]).cuda())),
    "rows to far places": (
        lambda x, i: x.view(-1, 64).index_put((i,), torch.ones_like(x[:192]).view(3, 64))[-2:],
        lambda: (big(FAR + 64), torch.tensor([0, 2**25, 7]).cuda()),
    ),
    "a long reduction": (lambda x: x.sum(dtype=torch.int64), lambda: (big(FAR + 19),)),
    "long rows": (lambda x: x.view(2, -1).amax(1), lambda: (big(FAR + 20),)),
    "the place of the largest": (lambda x: (x - 100).argmax(), lambda: (big(FAR + 19).sub_(5),)),
    "a broadcast": (
        lambda x, y: (x[:, None] + y)[-1],
        lambda: (torch.ones(70000, device="cuda"), torch.arange(40000, device="cuda")),
    ),
}


@pytest.fixture
def _much_memory() -> Iterator[None]:
    """Nothing of what a test takes stays with this process: others run beside it."""
    yield
    gc.collect()
    torch.cuda.empty_cache()


@pytest.mark.xdist_group("much memory")
@pytest.mark.usefixtures("_much_memory")
@pytest.mark.parametrize("name", LARGE)
def test_beyond_32_bits(name: str) -> None:
    program, make = LARGE[name]
    inputs = make()
    found = meta.compile(program)(*inputs)
    expected = program(*inputs)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["scatter_add", "index_add", "index_put", "embedding"])
def test_deterministic_sums(name: str) -> None:
    torch.manual_seed(1)
    index = torch.randint(0, 7, (30_000,), device="cuda")
    values = torch.randn(30_000, 4, device="cuda") * 10 ** torch.randint(-4, 4, (30_000, 1), device="cuda")

    def grown(i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        table = torch.zeros(7, 4, device="cuda", requires_grad=True)
        (gradient,) = torch.autograd.grad((F.embedding(i, table) * v).sum(), table)
        return gradient

    programs: dict[str, Program] = {
        "scatter_add": lambda i, v: torch.zeros(7, 4, device="cuda").scatter_add(0, i[:, None].expand(-1, 4), v),
        "index_add": lambda i, v: torch.zeros(7, 4, device="cuda").index_add(0, i, v),
        "index_put": lambda i, v: torch.zeros(7, 4, device="cuda").index_put((i,), v, accumulate=True),
        "embedding": lambda i, v: torch.ops.aten.embedding_dense_backward(v, i, 7, -1, False),
    }
    torch.use_deterministic_algorithms(True)
    try:
        compiled = meta.compile(programs[name])
        results = [compiled(index, values) for _ in range(5)]
        torch.testing.assert_close(results[0], programs[name](index, values), rtol=1e-4, atol=1.0)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(results[0], other) for other in results[1:])


HEADS: dict[str, tuple[int, int, int, int]] = {
    "of Segformer, one head": (2, 20, 1, 10),
    "one narrow head": (2, 21, 1, 5),
    "narrow heads": (2, 21, 3, 5),
    "of DETR": (1, 25, 4, 8),
    "wide": (2, 33, 4, 32),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("mask", ["none", "padding", "full", "learnt", "causal"])
@pytest.mark.parametrize("name", HEADS)
def test_attention_gets_the_operands_that_it_takes(name: str, mask: str, dtype: torch.dtype) -> None:
    batch, length, heads, width = HEADS[name]
    torch.manual_seed(2)
    x = torch.randn(batch, length, heads * width, device="cuda", dtype=dtype)
    weight = torch.randn(heads * width, 3 * heads * width, device="cuda", dtype=dtype) / (heads * width) ** 0.5
    keep = torch.rand(batch, length, device="cuda") > 0.3
    keep[:, 0] = True
    bias = torch.randn(heads, length, length, device="cuda", dtype=dtype)

    def attend(x: torch.Tensor, w: torch.Tensor, keep: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        q, k, v = ((x @ w) * 1.5).chunk(3, -1)
        q, k, v = (t.view(batch, length, heads, width).transpose(1, 2) for t in (q, k, v))
        given: torch.Tensor | None = None
        if mask == "padding":
            given = keep[:, None, None, :].expand(batch, 1, length, length)
        elif mask == "full":
            given = (1.0 - keep[:, None, None, :].to(dtype)) * torch.finfo(dtype).min
        elif mask == "learnt":
            given = (bias * 0.5).unsqueeze(0)
        out = F.scaled_dot_product_attention(q + 1, k, v, attn_mask=given, is_causal=mask == "causal")
        return out.transpose(1, 2).reshape(batch, length, heads * width) * 2

    results = []
    for run in (attend, meta.compile(attend)):
        leaves = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
        out = run(leaves[0], leaves[1], keep, leaves[2])
        out.float().square().mean().backward()
        with torch.no_grad():
            plain = run(x, weight, keep, bias)
        results.append([out.detach(), plain, leaves[0].grad, leaves[1].grad])
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.float16 else {"rtol": 2e-3, "atol": 2e-3}
    for found, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, expected, **tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_jumps_are_eagers(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    x, y = (torch.rand(64, 256, device="cuda") + 0.5).to(dtype), (torch.rand(64, 256, device="cuda") + 0.5).to(dtype)

    def jumps(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        v = x * y
        return v > 1.5, v.argmax(-1), (v * 1).floor(), v.to(torch.int32), v == v.amax(-1, keepdim=True)

    for found, expected in zip(meta.compile(jumps)(x, y), jumps(x, y), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("length", ["short", "long", "both"])
def test_sizes_that_only_the_launch_tells(length):
    """One compile; rows in registers and rows that are looped over, positions of 32 bits."""
    lengths = {"short": (3, 100, 128, 1, 700), "long": (5000, 4097, 9999), "both": (100, 5000, 64, 4096, 4097)}[length]

    def program(x):
        return (x * 2).softmax(1), x.sum(0), x.amax(1), x.argmax(1), x.view(-1)[1:] + 1

    compiled = meta.compile(program, dynamic=True)
    for rows, columns in [(7, n) for n in lengths] + [(n, 9) for n in lengths]:
        x = torch.randn(rows, columns, device="cuda")
        torch.testing.assert_close(compiled(x), program(x), rtol=1e-4, atol=1e-4)


def test_arguments_that_lie_anywhere():
    """Addresses that are multiples of 16, then of 4 alone, then the first again."""

    def program(x, y):
        return x * 2 + y, (x - y).sum(-1)

    compiled = meta.compile(program, dynamic=True)
    whole = torch.randn(100_000, device="cuda")
    for start, rows, columns in [(0, 4, 64), (1, 4, 64), (4, 5, 63), (3, 7, 129), (0, 4, 64), (0, 6, 31), (2, 64, 64)]:
        x, y = (whole[at : at + rows * columns].view(rows, columns) for at in (start, start + 5000))
        torch.testing.assert_close(compiled(x, y), program(x, y))


@pytest.mark.xdist_group("much memory")
@pytest.mark.usefixtures("_much_memory")
def test_symbolic_sizes_beyond_32_bits():
    """Sizes that fit 32 bits, whose product does not."""
    rows, columns = 70_000, 40_000
    compiled = meta.compile(lambda x: x + 1, dynamic=True)
    small = torch.zeros(10, 12, dtype=torch.int8, device="cuda")
    assert bool((compiled(small) == 1).all())
    x = torch.zeros(rows, columns, dtype=torch.int8, device="cuda")
    assert bool((compiled(x) == 1).all())


def test_a_thread_that_never_met_the_gpu():
    compiled = meta.compile(lambda x: x.sin() + 1)
    x = torch.randn(1000, device="cuda")
    expected = x.sin() + 1
    compiled(x)
    results: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: results.append(compiled(x)))
    thread.start()
    thread.join()
    torch.testing.assert_close(results, [expected])


def test_streams_and_graphs():
    """Kernels go to the current stream, and into a graph that records it."""
    compiled = meta.compile(lambda x: (x.sin() * 2).sum(1))
    x = torch.randn(64, 300, device="cuda")
    expected = compiled(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = compiled(x)
    stream.synchronize()
    torch.testing.assert_close(result, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = compiled(x)
    x.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(recorded, (x.sin() * 2).sum(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_is_drawn_within_kernels(dtype: torch.dtype) -> None:
    """Masks follow from seeds, and are the backward's too."""

    def program(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.3) * 2 + residual * 0

    compiled = meta.compile(program)
    x, residual = (torch.rand(512, 1024, device="cuda", dtype=dtype) + 0.5 for _ in range(2))
    x.requires_grad_()
    torch.manual_seed(0)
    first = compiled(x, residual)
    (gradient,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(gradient == 0, first == 0)
    assert abs(float((first == 0).double().mean()) - 0.3) < 0.01
    second = compiled(x, residual)
    torch.manual_seed(0)
    assert torch.equal(compiled(x, residual), first)
    assert not torch.equal(first == 0, second == 0)
    with torch.no_grad():
        torch.manual_seed(0)
        eager = meta.compile(program, options={"random": "eager"})(x, residual)
        torch.manual_seed(0)
        torch.testing.assert_close(eager, program(x, residual))


def test_kernels_draw_what_the_operators_say() -> None:
    ours = torch.ops.in_kernel

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.rand_like(x), torch.randint_like(x, -5, 1000), torch.randn_like(x)

    def corner(x: torch.Tensor) -> torch.Tensor:
        return torch.rand(2**18, 2**17, device="cuda")[-2:, -3:] + x

    x = torch.ones(300, 70, device="cuda")
    torch.manual_seed(0)
    uniform, whole, normal = meta.compile(program)(x)
    torch.manual_seed(0)
    seeds = drawn_seeds(3, x.device)
    assert torch.equal(uniform, ours.uniform(seeds, 0, [300, 70], dtype=torch.float32))
    assert torch.equal(whole, ours.integers(seeds, 1, [300, 70], -5, 1000, dtype=torch.float32))
    # Logarithms and cosines are not exact to the last bits.
    torch.testing.assert_close(normal, ours.normal(seeds, 2, [300, 70], dtype=torch.float32), rtol=1e-4, atol=1e-3)
    torch.manual_seed(1)
    found = meta.compile(corner)(torch.zeros((), device="cuda"))
    torch.manual_seed(1)
    seeds = drawn_seeds(1, x.device)
    rows, columns = torch.meshgrid(*(torch.arange(n - k, n) for n, k in ((2**18, 2), (2**17, 3))), indexing="ij")
    bits = random_bits(seeds.cpu(), (rows * 2**17 + columns) >> 1) >> (columns % 2 * 32)
    assert torch.equal(found.cpu(), (bits & 0xFFFFFF) / 2**24)


def test_one_function_over_several_dtypes() -> None:
    """Kernels that read the same are compiled for each dtype in memory while all of them are in use."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y + x

    compiled = meta.compile(program)
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.float16, torch.bfloat16):
        given = [(8 * torch.randn(100, device="cuda")).to(dtype) for _ in range(2)]
        tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype.itemsize == 2 else {}
        torch.testing.assert_close(compiled(*given), program(*given), **tolerance)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize(
    "how", [{}, {"batch_first": True, "bidirectional": True, "num_layers": 2}], ids=["plain", "more"]
)
def test_cudnns_networks_find_their_weights(kind: Any, how: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = kind(16, 24, **how).cuda().eval()
    x = torch.randn(5, 7, 16, device="cuda")
    compiled = meta.compile(lambda x: module(x * 2), fullgraph=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")  # cuDNN's that it has to copy them at each call
        expected = module(x * 2)
        for _ in range(3):
            torch.testing.assert_close(compiled(x), expected)


NETWORKS: dict[str, Any] = {
    "lstm": lambda: torch.nn.LSTM(16, 24, batch_first=True),
    "lstm, more": lambda: torch.nn.LSTM(16, 24, batch_first=True, bidirectional=True, num_layers=2),
    "lstm, projected": lambda: torch.nn.LSTM(16, 24, batch_first=True, proj_size=8),
    "lstm, no bias": lambda: torch.nn.LSTM(16, 24, bias=False, num_layers=2),
    "gru": lambda: torch.nn.GRU(16, 24, batch_first=True, bidirectional=True),
    "rnn": lambda: torch.nn.RNN(16, 24, batch_first=True, num_layers=2),
}


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_recurrent_networks_train(name: str, scattered: bool) -> None:
    """In one graph, also where the weights lie as the program put them; the backward twice, if it is kept."""
    torch.manual_seed(0)
    module = NETWORKS[name]().cuda()
    x = torch.randn(5, 7, 16, device="cuda", requires_grad=True)
    if scattered:
        for key, weight in [*module.named_parameters()]:
            setattr(module, key, torch.nn.Parameter(weight.detach().clone()))
    found = []
    for run in (module, meta.compile(module, fullgraph=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if scattered else "error")  # cuDNN's that it has to copy them at each call
            output, last = run(x * 2)
        last = last if isinstance(last, tuple) else (last,)
        loss = output.square().sum() + sum((i + 1) * state.sum() for i, state in enumerate(last))
        inputs = [x, *module.parameters()]
        first = torch.autograd.grad(loss, inputs, retain_graph=True)
        again = torch.autograd.grad(loss, inputs)
        found.append([output.detach(), *(state.detach() for state in last), *first, *again])
    for one, other in zip(*found, strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other)


def test_networks_in_evaluation_have_no_backward() -> None:
    module = torch.nn.LSTM(16, 24).cuda().eval()
    x = torch.randn(5, 7, 16, device="cuda")
    expected, _ = module(x)
    output, _ = meta.compile(module, fullgraph=True)(x)
    torch.testing.assert_close(output, expected)
    for one in (expected, output):
        with pytest.raises(RuntimeError, match="backward can only be called in training mode"):
            one.sum().backward()


def test_networks_of_any_size_train() -> None:
    torch.manual_seed(0)
    module = torch.nn.LSTM(16, 24, batch_first=True).cuda()
    run = meta.compile(module, dynamic=True)
    for batch in (3, 5, 9):
        x = torch.randn(batch, 7, 16, device="cuda")
        found = []
        for each in (module, run):
            each(x)[0].square().sum().backward()
            found.append([p.grad.clone() for p in module.parameters()])
            module.zero_grad()
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other)


def test_a_gradient_within_leaves_networks_theirs() -> None:
    """What a network keeps is read by the gradient that the program asks for, and by the backward after it."""
    torch.manual_seed(0)
    module = torch.nn.LSTM(16, 24, batch_first=True).cuda()
    x = torch.randn(5, 7, 16, device="cuda", requires_grad=True)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = module(x)[0]
        (gradient,) = torch.autograd.grad(output.sum(), x, retain_graph=True)
        return output.square().sum(), gradient

    found = []
    for run in (program, meta.compile(program, fullgraph=True)):
        loss, gradient = run(x)
        found.append([loss.detach(), gradient, *torch.autograd.grad(loss, [x, *module.parameters()])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_networks_called_twice_train() -> None:
    """Each call keeps what its own backward writes over."""
    torch.manual_seed(0)
    module = torch.nn.GRU(16, 24).cuda()
    x = torch.randn(5, 7, 16, device="cuda", requires_grad=True)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return module(x)[0] * 2, module(x)[0].sin()

    found = []
    for run in (program, meta.compile(program, fullgraph=True)):
        one, other = run(x)
        found.append(torch.autograd.grad(one.square().sum() + other.sum(), [x, *module.parameters()]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("length", [5, 13, 21, 29, 31, 32])
def test_addresses_of_small_quotients(length: int) -> None:
    """Attention to relative positions, as speech models write it: where an address hangs on quotients of small numbers, LLVM computes them in
    pairs, of which the assembler lost a sum."""
    torch.manual_seed(0)
    scores = torch.randn(2, 2, length, length, device="cuda")
    relative = torch.randn(2, 2, length, 2 * length - 1, device="cuda")

    def program(scores: torch.Tensor, relative: torch.Tensor) -> torch.Tensor:
        padded = torch.cat([relative.new_zeros(2, 2, length, 1), relative], -1).view(2, 2, 2 * length, length)
        shifted = padded[:, :, 1:].view_as(relative)[..., :length]
        return ((scores + shifted) / 5.7).softmax(-1)

    torch.testing.assert_close(meta.compile(program)(scores, relative), program(scores, relative))


def test_products_of_float32_follow_the_precision_in_force() -> None:
    """Our own kernels are made for one, where the library asks at each call."""
    x, w = (torch.randn(512, 512, device="cuda") for _ in range(2))
    exact = (x.double() @ w.double()).relu()
    compiled = meta.compile(lambda: (x @ w).relu())
    before = torch.backends.cuda.matmul.fp32_precision
    errors = {}
    try:
        for precision in ("tf32", "ieee", "tf32"):
            torch.backends.cuda.matmul.fp32_precision = precision
            errors[precision] = (compiled() - exact).abs().max().item()
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    assert errors["ieee"] < 1e-3 < errors["tf32"], errors


def test_attention_follows_the_order_in_force() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = torch.randn(3, 2, 4, 64, 64, device="cuda", dtype=torch.float16)
    compiled = meta.compile(lambda: F.scaled_dot_product_attention(q, k, v))
    for order in ([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], [SDPBackend.MATH]):
        for each in (order, order[::-1]):
            with sdpa_kernel(each, set_priority=True):
                torch.testing.assert_close(compiled(), F.scaled_dot_product_attention(q, k, v), atol=2e-3, rtol=2e-3)
    assert compiled.session.report.graph_count == 3
