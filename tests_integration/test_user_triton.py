"""Triton kernels of the program's own: one graph, and all that eager does.

Under Triton's interpreter, on the CPU; `TRITON_INTERPRET=0 pytest tests_integration/test_user_triton.py` compiles them, on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture
import meta

triton = pytest.importorskip("triton", reason="Triton is not installed")
tl = pytest.importorskip("triton.language")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("needs Triton's interpreter (TRITON_INTERPRET=1) or a GPU", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"

BACKENDS = ["eager", "aot_eager", "inductor"]

SCALE = tl.constexpr(3)
SHIFT = tl.constexpr(2.0)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask), mask=mask)


@triton.jit
def increase_kernel(x_ptr, n, value, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=mask) + value, mask=mask)


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) * SCALE, mask=mask)


@triton.jit
def optional_kernel(x_ptr, bias_ptr, out_ptr, n, dtype: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask).to(dtype)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + at, mask=mask)
    tl.store(out_ptr + at, x, mask=mask)


@triton.jit
def rows_kernel(x_ptr, out_ptr, n, row_stride, column_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + row * row_stride + at * column_stride, mask=mask, other=0.0)
    tl.atomic_add(out_ptr + row, tl.sum(x))


@triton.jit
def moved(pointer, by):
    return pointer + by


@triton.jit
def put(pointer, at, value, mask):
    where = moved(pointer, at)
    tl.store(where, value + SHIFT, mask=mask)


@triton.jit
def helped_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    put(out_ptr, at, tl.load(moved(x_ptr, at), mask=mask), mask)


def _quickest(call: Callable[[], Any], quantiles: Any) -> list[float]:
    call()
    return [1.0, 1.0, 1.0]


@triton.autotune(
    configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64}, num_warps=2)],
    key=["n"],
    **({"do_bench": _quickest} if INTERPRETED else {}),
)
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) * 2, mask=mask)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def even_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + at, tl.load(x_ptr + at) + 1)
    else:
        mask = at < n
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) + 1, mask=mask)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})],
    key=["n"],
    reset_to_zero=["out_ptr"],
    **({"do_bench": _quickest} if INTERPRETED else {}),
)
@triton.heuristics({"WIDE": lambda args: args["BLOCK"] > 16})
@triton.jit
def summed_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at, mask=mask, other=0.0)))


def blocks(n: int) -> Callable[[dict[str, Any]], tuple[int, ...]]:
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = out.numel()
    add_kernel[blocks(n)](x, y, out, n, BLOCK=16)
    return out


def new(*size: int) -> torch.Tensor:
    return torch.randn(*size, device=DEVICE)


def same(program: Callable[..., Any], *inputs: Any, backend: str = "inductor", calls: int = 2) -> Any:
    """Compare results and effects with eager's."""
    compiled = meta.compile(program, fullgraph=True, backend=backend)
    for _ in range(calls):
        ours = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        theirs = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        expected = program(*theirs)
        torch.testing.assert_close(compiled(*ours), expected)
        torch.testing.assert_close(ours, theirs)
    return compiled


def sources(program: Callable[..., Any], *inputs: Any) -> str:
    """The wrappers that inductor makes of it."""
    graphs: list[Any] = []

    def backend(graph: Any, given: Any) -> Any:
        return meta.backends.inductor(graph, given, on_compiled=graphs.append)

    meta.compile(program, backend=backend, fullgraph=True)(*inputs)
    return "\n".join(graph.source for graph in graphs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sum_of_vectors(backend):
    same(added, new(100), new(100), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_within_pointwise_code(backend):
    def program(x, y):
        return added(x * 2 + 1, y.relu()).sin() + x

    same(program, new(100), new(100), backend=backend)


def test_output_made_before_is_not_copied():
    def program(x, y):
        return added(x * 2, y) + 1

    text = sources(program, new(100), new(100))
    assert "__in_place(" in text
    assert "copy_(" not in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_input_is_written(backend):
    def program(x):
        increase_kernel[(7,)](x, 100, 1.5, BLOCK=16)
        return x * 2

    same(program, new(100), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_views(backend):
    def program(x):
        y = x * 2
        increase_kernel[(1,)](y[2], 8, 1, BLOCK=16)
        increase_kernel[(1,)](x[1:].view(-1), 5, 2, BLOCK=16)
        columns = torch.zeros(8, device=x.device)
        rows_kernel[(8,)](y.t(), columns, 4, *y.t().stride(), BLOCK=16)
        return y, columns

    same(program, new(4, 8), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_beyond_the_view(backend):
    """A pointer into a tensor finds the rest of it."""

    def program(x):
        y = x * 2
        out = torch.zeros(4, device=x.device)
        rows_kernel[(4,)](y[0], out, 8, 8, 1, BLOCK=16)
        increase_kernel[(1,)](y[1], 16, 5, BLOCK=16)
        return y, out

    same(program, new(4, 8), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_that_share_memory(backend):
    def program(x):
        add_kernel[(1,)](x[:10], x[10:], x[5:15], 5, BLOCK=16)
        return x + 1

    same(program, new(20), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_writes_what_the_other_reads(backend):
    def program(x, y):
        a = added(x, y)
        before = a.sum()
        increase_kernel[blocks(100)](a, 100, 1, BLOCK=32, num_warps=2, num_stages=1)
        return added(a, x), before, a

    same(program, new(100), new(100), backend=backend)


def test_keywords_constants_and_none():
    def program(x, bias):
        out = torch.empty(100, dtype=torch.float32, device=x.device)
        optional_kernel[(7, 1, 1)](out_ptr=out, n=100, bias_ptr=None, x_ptr=x, BLOCK=16, dtype=tl.float32)
        more = torch.empty_like(out)
        optional_kernel[7,](x, bias, more, 100, tl.float32, 16)
        return out, more

    same(program, new(100).half(), new(100))


def test_helper_functions():
    def program(x):
        out = torch.empty_like(x)
        helped_kernel[blocks(100)](x, out, 100, BLOCK=32)
        return out

    same(program, new(100))
    assert "copy_(" not in sources(program, new(100))


@pytest.mark.parametrize("backend", BACKENDS)
def test_atomics(backend):
    def program(x):
        out = torch.zeros(4, device=x.device)
        rows_kernel[(4,)](x + 1, out, 8, 8, 1, BLOCK=16)
        return out * 2

    same(program, new(4, 8), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_autotuned(backend):
    def program(x):
        out = torch.empty_like(x)
        n = x.numel()
        tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.relu(), out, n)
        return out + 1

    same(program, new(100), backend=backend)
    same(program, new(77), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_heuristics(backend):
    def program(x):
        out = torch.empty_like(x)
        even_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK=16)
        return out

    same(program, new(96), backend=backend)
    same(program, new(100), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_autotuned_heuristics(backend):
    def program(x):
        out = torch.zeros(1, device=x.device)
        n = x.numel()
        summed_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]) if meta["WIDE"] else (n + 15) // 16,)](x, out, n)
        return out * 2

    same(program, new(100), backend=backend)


def test_in_a_module():
    class Adding(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(new(100))
            self.kernel = add_kernel

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            self.kernel[(7,)](x, self.weight, out, 100, BLOCK=16)
            return out.relu()

    module = Adding()
    same(module.forward, new(100))
    result = meta.compile(module, fullgraph=True)(new(100))
    assert not result.requires_grad


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_change(backend):
    def program(x, y):
        return added(x * 2, y) + x

    compiled = meta.compile(program, fullgraph=True, backend=backend, dynamic=True)
    for n in (100, 37, 64, 5, 1000):
        x, y = new(n), new(n)
        torch.testing.assert_close(compiled(x, y), program(x, y))


def test_sizes_that_change_of_an_autotuned_one():
    def program(x):
        out = torch.empty_like(x)
        n = x.numel()
        tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out + 1

    compiled = meta.compile(program, fullgraph=True, dynamic=True)
    for n in (100, 37, 64, 5):
        x = new(n)
        torch.testing.assert_close(compiled(x), program(x))


def test_no_derivative():
    """As in eager: what a kernel wrote has no history, and the rest keeps its own."""

    def program(x, y):
        return added(x, y), (x * y).sum()

    for compiled in (program, meta.compile(program, fullgraph=True)):
        x, y = new(100).requires_grad_(), new(100)
        out, loss = compiled(x, y)
        assert not out.requires_grad
        loss.backward()
        torch.testing.assert_close(x.grad, y)


def test_write_to_what_has_a_history():
    """Autograd does not see a kernel write."""

    def program(x):
        y = x * 2
        increase_kernel[(7,)](y, 100, 1.0, BLOCK=16)
        return (y * y).sum(), y

    results = []
    for compiled in (program, meta.compile(program, fullgraph=True)):
        torch.manual_seed(0)
        x = new(100).requires_grad_()
        loss, y = compiled(x)
        loss.backward()
        results.append((loss.detach(), y.detach(), x.grad))
    torch.testing.assert_close(*results)


def test_write_to_a_leaf():
    def program(x):
        increase_kernel[(7,)](x, 100, 1.0, BLOCK=16)
        return (x * x).sum()

    results = []
    for compiled in (program, meta.compile(program, fullgraph=True)):
        torch.manual_seed(0)
        x = new(100).requires_grad_()
        compiled(x).backward()
        results.append((x.detach(), x.grad))
    torch.testing.assert_close(*results)


def test_global_constant_changes(monkeypatch):
    def program(x):
        out = torch.empty_like(x)
        scale_kernel[(7,)](x, out, 100, BLOCK=16)
        return out

    compiled = meta.compile(program, fullgraph=True)
    x = new(100)
    torch.testing.assert_close(compiled(x), x * 3)
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(5))
    if INTERPRETED:
        torch.testing.assert_close(program(x), x * 5)
        torch.testing.assert_close(compiled(x), x * 5)
    else:  # Triton refuses, in eager, too
        with pytest.raises(RuntimeError, match="Global variable SCALE has"):
            compiled(x)


def test_kernel_is_replaced(monkeypatch):
    def program(x, y):
        out = torch.zeros_like(x)
        add_kernel[(7,)](x, y, out, 100, BLOCK=16)
        return out, x

    compiled = same(program, new(100), new(100))

    @triton.jit
    def writes_elsewhere(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + at, tl.load(y_ptr + at, mask=at < n), mask=at < n)

    monkeypatch.setitem(globals(), "add_kernel", writes_elsewhere)
    x, y = new(100), new(100)
    out, written = compiled(x, y)
    torch.testing.assert_close(out, torch.zeros_like(x))
    torch.testing.assert_close(written, y)
    assert torch.equal(x, y)


def test_wrapped_for_torch():
    def program(x):
        out = torch.empty_like(x)
        torch.library.wrap_triton(add_kernel)[(7,)](x, x, out, 100, BLOCK=16)
        return out

    if not INTERPRETED:
        same(program, new(100))
        return
    for compiled in (program, meta.compile(program)):
        with pytest.raises(RuntimeError, match="wrap_triton only works on functions"):
            compiled(new(100))


def test_result_is_an_input_returned():
    def program(x, out):
        add_kernel[(7,)](x, x, out, 100, BLOCK=16)
        return out, out.view(10, 10)

    compiled = meta.compile(program, fullgraph=True)
    x, out = new(100), new(100)
    first, second = compiled(x, out)
    assert first is out
    assert second.data_ptr() == out.data_ptr()
    torch.testing.assert_close(out, x * 2)


@triton.autotune(configs=[triton.Config({"BLOCK": 16}, pre_hook=lambda args: None)], key=["n"])
@triton.jit
def hooked_kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 1.0, mask=at < n)


def test_hooks_break_the_graph():
    def program(x):
        y = x * 2
        hooked_kernel[(7,)](y, 100)
        return y + 1

    with pytest.raises(capture.GraphBreakError, match="a configuration has a pre_hook"):
        meta.compile(program, fullgraph=True)(new(100))
    x = new(100)
    torch.testing.assert_close(meta.compile(program)(x), torch.full_like(x, 2.0))


def test_no_grid_breaks_the_graph():
    def program(x):
        return add_kernel(x, x, x, 100, BLOCK=16)

    with pytest.raises(capture.GraphBreakError, match="without a grid"):
        meta.compile(program, fullgraph=True)(new(100))


def test_kernel_as_constant_of_a_partial():
    def program(x):
        out = torch.empty_like(x)
        kernel = add_kernel[(7,)]
        kernel(x, x, out, 100, BLOCK=16)
        kernel(out, x, out, 100, BLOCK=16)
        return out

    same(program, new(100))


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_around_a_break():
    def program(x):
        y = x * 2
        increase_kernel[(7,)](y, 100, 1, BLOCK=16)
        torch.save(None, os.devnull)
        increase_kernel[(7,)](y, 100, 1, BLOCK=16)
        return y + 1

    x = new(100)
    torch.testing.assert_close(meta.compile(program)(x), program(x))
    trace = capture.explain(program, x)
    assert len(trace.graphs) == 2
    assert "torch.ops.triton_kernels.increase_kernel" in str(trace)


def test_value_saved_for_the_backward_is_overwritten():
    """As in eager, which does not notice."""

    def program(x):
        y = x * 2
        z = y * y
        increase_kernel[(7,)](y, 100, 5, BLOCK=16)
        return z.sum()

    results = []
    for compiled in (program, meta.compile(program, fullgraph=True)):
        x = torch.ones(100, device=DEVICE, requires_grad=True)
        compiled(x).backward()
        results.append(x.grad)
    torch.testing.assert_close(*results)


def test_numbers_that_change():
    def program(x, n):
        for i in range(3):
            increase_kernel[(7,)](x, n, float(i), BLOCK=16)
        return x + n

    compiled = meta.compile(program, fullgraph=True)
    for n in (3, 40, 5, 60):
        x = new(100)
        y = x.clone()
        torch.testing.assert_close(compiled(x, n), program(y, n))
        torch.testing.assert_close(x, y)


def test_frozen_buffer_is_written():
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(10, device=DEVICE))
            self.weight = torch.nn.Parameter(torch.ones(10, device=DEVICE))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            increase_kernel[(1,)](self.count, 10, 1, BLOCK=16)
            return x + self.count + self.weight

    ours, theirs = Counting(), Counting()
    compiled = meta.compile(ours, fullgraph=True, options={"freezing": True})
    x = new(10)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), theirs(x))
            torch.testing.assert_close(ours.count, theirs.count)


def test_found_on_disk(tmp_path):
    def program(x, y):
        return added(x * 2, y) + 1

    x, y = new(100), new(100)
    found = []
    for _ in range(2):
        meta.reset()
        graphs: list[Any] = []

        def backend(graph: Any, given: Any) -> Any:
            return meta.backends.inductor(graph, given, options={"cache_dir": str(tmp_path)}, on_compiled=graphs.append)

        torch.testing.assert_close(meta.compile(program, backend=backend, fullgraph=True)(x, y), program(x, y))
        found += [graph.stats.cache for graph in graphs]
    assert found == ["miss", "hit"]
