"""Triton kernels against eager: under Triton's interpreter here, compiled for sm_90 in a process of its own."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from inductor_apart import compiled_apart

from inductor.device import DeviceBackend, Kernel, KernelArg
from inductor.ir.body import record
from inductor.ops import ops
from inductor.philox import random_bits
from symshapes import FloorDiv, Mod

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip(
        "set TRITON_INTERPRET=1 before triton is imported, as the repository's conftest.py does",
        allow_module_level=True,
    )
from inductor.triton import TritonBackend

I0, I1 = sympy.symbols("i0 i1", integer=True, nonnegative=True)
R, R1 = sympy.symbols("r0 r1", integer=True, nonnegative=True)


def kernel_of(
    function: Callable[..., None],
    outer: Sequence[int],
    inner: Sequence[int],
    args: Sequence[tuple[str, str, torch.dtype]],
) -> Kernel:
    dtypes = {name: dtype for name, _, dtype in args}
    body = record(function, (I0, I1)[: len(outer)], (R, R1)[: len(inner)], lambda name: dtypes[name])
    return Kernel(
        name="kernel",
        device=torch.device("cpu"),
        outer_sizes=tuple(map(sympy.Integer, outer)),
        inner_sizes=tuple(map(sympy.Integer, inner)),
        body=body,
        args=tuple(KernelArg(name, role, dtype) for name, role, dtype in args),  # type: ignore[arg-type]
        symbols=(),
        origins=("a test",),
    )


def run(kernel: Kernel, *tensors: torch.Tensor) -> None:
    backend = TritonBackend("cpu")
    assert backend.supports(kernel)
    source = backend.emit(kernel)
    backend.build(backend.module_text([source]), [source])[kernel.name](*tensors)


def test_numbers_are_arguments_with_all_their_bits() -> None:
    number, count = sympy.Symbol("number0", real=True), sympy.Symbol("n0", integer=True)

    def scaled(o: Any, r: Any) -> None:
        x, f, n = ops.load("x", o[0]), ops.index_expr(number, torch.float64), ops.index_expr(count, torch.int64)
        ops.store("y", o[0], ops.add(ops.mul(x, f), ops.to_dtype(n, torch.float64)))

    double, args = torch.float64, [("x", "in"), ("y", "out")]
    kernel = kernel_of(
        scaled, (9,), (), [*((n, r, double) for n, r in args), ("n0", "size", torch.int64), ("number0", "size", double)]
    )
    assert 'number0: "fp64"' in TritonBackend("cpu").emit(kernel).text
    x, y = torch.arange(9.0, dtype=double), torch.empty(9, dtype=double)
    for n, f in ((3, 0.1), (-(2**40), -0.0), (0, 1e300)):
        run(kernel, x, y, n, f)  # type: ignore[arg-type]
        assert torch.equal(y, x * f + n)


UNARY = {
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "rsqrt": torch.rsqrt,
    "log1p": torch.log1p,
    "sign": torch.sign,
    "round": torch.round,
    "neg": torch.neg,
    "reciprocal": torch.reciprocal,
}


def test_it_is_a_device_backend() -> None:
    assert isinstance(TritonBackend(), DeviceBackend)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0], getattr(ops, name)(ops.load("x", o[0])))

    x = torch.cat([torch.linspace(-6, 6, 1001, dtype=dtype), torch.tensor([float("inf"), float("nan"), -0.0])])
    y = torch.empty_like(x)
    run(kernel_of(body, [x.numel()], [], [("x", "in", dtype), ("y", "out", dtype)]), x, y)
    torch.testing.assert_close(y, UNARY[name](x), equal_nan=True)


@pytest.mark.parametrize(
    ("name", "eager"),
    [
        ("floordiv", torch.floor_divide),
        ("remainder", torch.remainder),
        ("fmod", torch.fmod),
        ("maximum", torch.maximum),
        ("truncdiv", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
        ("bitwise_xor", torch.bitwise_xor),
        ("lt", torch.lt),
    ],
)
def test_integers(name: str, eager: Callable[..., torch.Tensor]) -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0], getattr(ops, name)(ops.load("a", o[0]), ops.load("b", o[0])))

    a = torch.arange(-20, 20)
    b = torch.tensor([3, -3, 7, -1]).repeat(10)
    expected = eager(a, b)
    y = torch.empty_like(expected)
    args = [("a", "in", torch.int64), ("b", "in", torch.int64), ("y", "out", expected.dtype)]
    run(kernel_of(body, [40], [], args), a, b, y)
    assert torch.equal(y, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.float32])
def test_signs(dtype: torch.dtype) -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0], ops.sign(ops.load("x", o[0])))

    x = torch.arange(-20, 20).to(dtype)
    y = torch.empty_like(x)
    run(kernel_of(body, [40], [], [("x", "in", dtype), ("y", "out", dtype)]), x, y)
    assert torch.equal(y, x.sign())


def test_a_number_beyond_a_dtype_wraps_around() -> None:
    """The compiler, and its interpreter, take no other."""

    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0], ops.add(ops.load("x", o[0]), ops.constant(-7, torch.uint8)))

    x = torch.arange(40, dtype=torch.uint8)
    y = torch.empty_like(x)
    run(kernel_of(body, [40], [], [("x", "in", torch.uint8), ("y", "out", torch.uint8)]), x, y)
    assert torch.equal(y, x + -7)


def test_random_bits_are_those_of_the_reference() -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0], ops.random_bits(ops.load("a", o[0]), ops.load("b", o[0])))

    seeds, positions = (torch.randint(-(2**63), 2**63 - 1, (1003,)) for _ in range(2))
    y = torch.empty_like(seeds)
    args = [(name, "out" if name == "y" else "in", torch.int64) for name in ("a", "b", "y")]
    run(kernel_of(body, [1003], [], args), seeds, positions, y)
    assert torch.equal(y, random_bits(seeds, positions))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_floor_division_of_floats_is_exact(dtype: torch.dtype) -> None:
    """1 // 0.1 is 9: the quotient rounds to 10."""

    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0], ops.floordiv(ops.load("a", o[0]), ops.load("b", o[0])))

    numbers = [1.0, 0.1, 0.3, -0.7, 2.5, 1 / 6, -7.0, 0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e30]
    a, b = torch.cartesian_prod(torch.tensor(numbers, dtype=dtype), torch.tensor(numbers, dtype=dtype)).unbind(1)
    a, b = a.contiguous(), b.contiguous()
    expected = torch.div(a, b, rounding_mode="floor")
    assert expected[1] == 9
    y = torch.empty_like(expected)
    run(kernel_of(body, [a.numel()], [], [("a", "in", dtype), ("b", "in", dtype), ("y", "out", dtype)]), a, b, y)
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(y.signbit() & ~y.isnan(), expected.signbit() & ~expected.isnan())


def test_bfloat16_widens_at_the_load_and_rounds_at_the_store() -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0] * 7 + o[1], ops.exp(ops.load("x", o[1] * 5 + o[0])))

    x = torch.randn(7, 5).bfloat16()
    y = torch.empty(5, 7, dtype=torch.bfloat16)
    run(kernel_of(body, [5, 7], [], [("x", "in", torch.bfloat16), ("y", "out", torch.bfloat16)]), x, y)
    # The interpreter truncates where the hardware rounds, so one unit in the last place is allowed.
    torch.testing.assert_close(y, x.float().exp().bfloat16().t(), rtol=2**-7, atol=0)


def softmax(width: int) -> Callable[..., None]:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        x = ops.load("x", o[0] * width + r[0])
        e = ops.exp(ops.sub(x, ops.reduce("max", x)))
        ops.store("y", o[0] * width + r[0], ops.truediv(e, ops.reduce("sum", e)))

    return body


@pytest.mark.parametrize("width", [1, 5, 64, 1000, 5000])
def test_softmax_persistent_and_looped(width: int) -> None:
    x = torch.randn(6, width)
    y = torch.empty_like(x)
    run(kernel_of(softmax(width), [6], [width], [("x", "in", x.dtype), ("y", "out", x.dtype)]), x, y)
    torch.testing.assert_close(y, x.softmax(-1))


@pytest.mark.parametrize("width", [8200, 20001])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_softmax_of_long_rows(width: int, dtype: torch.dtype) -> None:
    x = (3 * torch.randn(7, width)).to(dtype)
    x[1, :8195], x[2, 5], x[3, 8199], x[4], x[5, 0] = (float(v) for v in ("-inf", "inf", "nan", "-inf", "60000"))
    y = torch.empty(7, width)
    run(kernel_of(softmax(width), [7], [width], [("x", "in", dtype), ("y", "out", y.dtype)]), x, y)
    torch.testing.assert_close(y, x.float().softmax(-1), equal_nan=True)


@pytest.mark.parametrize("width", [8200, 20001])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_variance_of_long_rows(width: int, dtype: torch.dtype) -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        x = ops.load("x", o[0] * width + r[0])
        count = ops.constant(float(width), torch.float32)
        total = ops.reduce("sum", x)
        away = ops.sub(x, ops.truediv(total, count))
        ops.store("total", o[0], total)
        ops.store("y", o[0], ops.truediv(ops.reduce("sum", ops.mul(away, away)), count))

    x = torch.randn(4, width).to(dtype)
    x[1] += 1000
    x[2, 8199] = float("inf")
    total, y = torch.empty(2, 4)
    args = [("x", "in", dtype), ("total", "out", total.dtype), ("y", "out", y.dtype)]
    kernel = kernel_of(body, [4], [width], args)
    assert "add_squares" in TritonBackend("cpu").emit(kernel).text
    run(kernel, x, total, y)
    torch.testing.assert_close(total, x.double().sum(1).float(), rtol=1e-5, atol=1e-2)
    torch.testing.assert_close(y, x.double().var(1, correction=0).float(), rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.parametrize(("length", "read"), [(16, True), (2736, True), (15, False)])
def test_what_a_channel_shares_is_read_once_a_word(length: int, read: bool) -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        at = (o[0] * 3 + r[0]) * length + r[1]
        x = ops.load("x", at)
        scaled = ops.mul(ops.sub(x, ops.reduce("max", x)), ops.load("w", r[0]))
        ops.store("y", at, scaled)

    x, w = torch.randn(5, 3, length).half(), torch.randn(3)
    y = torch.empty(5, 3, length)
    kernel = kernel_of(body, [5], [3, length], [("x", "in", x.dtype), ("w", "in", w.dtype), ("y", "out", y.dtype)])
    assert ("repeated" in TritonBackend("cpu").emit(kernel).text) is read
    run(kernel, x, w, y)
    torch.testing.assert_close(y, (x.float() - x.float().amax((1, 2), keepdim=True)) * w[:, None])


@pytest.mark.parametrize("width", [64, 5000])
def test_a_row_written_over_is_read_first(width: int) -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        at = o[0] * width + r[0]
        x = ops.load("x", at)
        centred = ops.sub(x, ops.reduce("max", x))
        ops.store("x", at, centred)
        ops.store("y", at, ops.truediv(x, ops.reduce("sum", ops.exp(centred))))

    x = torch.randn(3, width)
    y = torch.empty_like(x)
    top = x.amax(1, keepdim=True)
    expected = x - top, x / (x - top).exp().sum(1, keepdim=True)
    run(kernel_of(body, [3], [width], [("x", "inout", x.dtype), ("y", "out", x.dtype)]), x, y)
    torch.testing.assert_close((x, y), expected)


REDUCTIONS = {
    "sum": lambda x: x.sum(1),
    "prod": lambda x: x.prod(1),
    "max": lambda x: x.amax(1),
    "min": lambda x: x.amin(1),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(1),
    "any": lambda x: x.bool().any(1),
    "all": lambda x: x.bool().all(1),
}


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("width", [3, 33, 5000])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions(kind: str, width: int, nan: bool) -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0], ops.reduce(kind, ops.load("x", o[0] * width + r[0])))

    torch.manual_seed(width)
    x = torch.randint(-3, 3, (9, width)).float() * 0.4
    x[1] = 1.0
    x[2] = 0.0
    if nan:
        x[3:5, width // 2] = float("nan")
    expected = REDUCTIONS[kind](x)
    y = torch.empty_like(expected)
    run(kernel_of(body, [9], [width], [("x", "in", x.dtype), ("y", "out", expected.dtype)]), x, y)
    torch.testing.assert_close(y, expected, equal_nan=True)


def test_masked_loads_touch_nothing() -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        inside = ops.lt(ops.index_expr(o[0], torch.int64), ops.constant(5, torch.int64))
        ops.store("y", o[0], ops.masked(inside, lambda: ops.load("x", o[0]), 7.0))

    x, y = torch.randn(5), torch.empty(9)
    run(kernel_of(body, [9], [], [("x", "in", x.dtype), ("y", "out", x.dtype)]), x, y)
    assert torch.equal(y, torch.cat([x, torch.full((4,), 7.0)]))


def test_indirect_indexing_wraps_and_scatter_accumulates() -> None:
    def gather(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        row = ops.indirect(ops.load("index", o[0]), 4)
        ops.store("y", o[0] * 3 + o[1], ops.load("table", row * 3 + o[1]))

    index, table, y = torch.tensor([3, -1, 0, 2, -4]), torch.randn(4, 3), torch.empty(5, 3)
    args = [("index", "in", torch.int64), ("table", "in", table.dtype), ("y", "out", table.dtype)]
    run(kernel_of(gather, [5, 3], [], args), index, table, y)
    assert torch.equal(y, table[index])

    def scatter(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("sums", ops.indirect(ops.load("index", o[0]), 4), ops.load("values", o[0]), mode="add")

    values, sums = torch.randn(5), torch.zeros(4)
    args = [("index", "in", torch.int64), ("values", "in", values.dtype), ("sums", "inout", values.dtype)]
    run(kernel_of(scatter, [5], [], args), index, values, sums)
    torch.testing.assert_close(sums, torch.zeros(4).index_add(0, index % 4, values))


def test_a_position_out_of_range_touches_no_memory_and_is_raised_later() -> None:
    def gather(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        row = ops.indirect(ops.load("index", o[0]), 4, "runtime")
        ops.store("y", o[0] * 3 + o[1], ops.load("table", row * 3 + o[1]))

    args = [("index", "in", torch.int64), ("table", "in", torch.float32), ("y", "out", torch.float32)]
    backend = TritonBackend("cpu")
    source = backend.emit(kernel_of(gather, [5, 3], [], args))
    calls = backend.build(backend.module_text([source]), [source])
    table, y = torch.randn(4, 3), torch.empty(5, 3)
    index = torch.tensor([3, 1, 0, 2, 1])
    for bad in (-1, 4, 2**62, -(2**63)):
        wrong = index.clone()
        wrong[2] = bad
        calls["kernel"](wrong, table, y)
        with pytest.raises(RuntimeError, match="out of range"):
            calls["_settle_cpu"]()
        assert torch.equal(y[2], torch.zeros(3))  # nothing was read
        calls["kernel"](index, table, y)
        calls["_mark_cpu"]()
        calls["_settle_cpu"]()
        assert torch.equal(y, table[index])

    def scatter(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("sums", ops.indirect(ops.load("index", o[0]), 4), ops.load("values", o[0]), mode="add")

    args = [("index", "in", torch.int64), ("values", "in", torch.float32), ("sums", "inout", torch.float32)]
    source = backend.emit(kernel_of(scatter, [5], [], args))
    calls = backend.build(backend.module_text([source]), [source])
    sums = torch.zeros(4)
    calls["kernel"](torch.tensor([0, 1, 7, 3, -9]), torch.ones(5), sums)
    with pytest.raises(IndexError):
        calls["_settle_cpu"]()
    assert torch.equal(sums, torch.tensor([1.0, 1.0, 0.0, 1.0]))


FAR = 2**31
INDICES: dict[str, tuple[Any, int, bool]] = {
    "small": (I0 + 5, 1000, False),
    "many elements": (I0, FAR + 5, True),
    "the last block reaches beyond": (I0, FAR - 5, True),
    "a large stride": (I0 * 3_000_000, 1000, True),
    "a large offset": (I0 + FAR, 10, True),
    "a large offset that cancels": (I0 + FAR - 7 - FAR * I0, 2, True),
    "a large product inside": (Mod(I0 * 40_000_007, 3_000_000_001), 100, True),
    "a large negative constant": (I0 - FAR, 10, True),
    "reversed": (999 - I0, 1000, False),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("place", ["load", "value"])
def test_the_width_of_indices_is_that_of_all_that_is_computed(name: str, place: str) -> None:
    expr, count, wide = INDICES[name]

    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        value = ops.load("x", expr) if place == "load" else ops.index_expr(expr, torch.int64)
        ops.store("y", o[0], value)

    kernel = kernel_of(body, [count], [], [("x", "in", torch.int64), ("y", "out", torch.int64)])
    assert ("tl.int64) * XBLOCK" in TritonBackend("cpu").emit(kernel).text) is wide


def test_large_constants_are_computed() -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", o[0], ops.index_expr(o[0] * 3 + 2**31 + 97, torch.int64))

    y = torch.empty(10, dtype=torch.int64)
    run(kernel_of(body, [10], [], [("y", "out", torch.int64)]), y)
    assert torch.equal(y, torch.arange(10) * 3 + 2**31 + 97)


@pytest.mark.parametrize("place", ["load", "value"])
def test_positions_are_divided_downwards(place: str) -> None:
    """Of what may be negative: what is rolled and flipped, say."""
    expr = 3 * Mod(-I0, 7) + FloorDiv(3 - I0, 5) + 3

    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        value = ops.load("x", expr) if place == "load" else ops.index_expr(expr, torch.int64)
        ops.store("y", o[0], value)

    kernel = kernel_of(body, [19], [], [("x", "in", torch.int64), ("y", "out", torch.int64)])
    x, y = torch.arange(30), torch.empty(19, dtype=torch.int64)
    run(kernel, x, y)
    assert y.tolist() == [3 * (-i % 7) + (3 - i) // 5 + 3 for i in range(19)]


@pytest.mark.parametrize("divisor", [1, 2])
def test_a_size_is_an_argument(divisor: int) -> None:
    n = sympy.Symbol("s0", integer=True, positive=True)
    body = record(
        lambda o, r: ops.store("y", o[0], ops.add(ops.load("x", o[0]), ops.load("x", o[0]))),
        (I0,),
        (),
        lambda name: torch.float32,
    )
    args = (
        KernelArg("x", "in", torch.float32),
        KernelArg("y", "out", torch.float32),
        KernelArg("s0", "size", torch.int64),
    )
    kernel = Kernel("dynamic", torch.device("cpu"), (FloorDiv(n, divisor),), (), body, args, (n,), ())
    backend = TritonBackend("cpu")
    source = backend.emit(kernel)
    call = backend.build(backend.module_text([source]), [source])["dynamic"]
    for size in (0, 1, 5, 3000):
        x = torch.randn(size // divisor)
        y = torch.empty(size // divisor)
        call(x, y, size)
        assert torch.equal(y, x + x)


def test_an_integer_power_is_left_to_others() -> None:
    def body(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        x = ops.load("x", o[0])
        ops.store("y", o[0], ops.pow(x, x))

    kernel = kernel_of(body, [4], [], [("x", "in", torch.int64), ("y", "out", torch.int64)])
    assert not TritonBackend("cpu").supports(kernel)


def test_kernels_compile_for_sm_90_without_a_gpu(tmp_path: Path) -> None:
    program = """
import torch, sympy
from inductor.ir.body import record
from inductor.device import Kernel, KernelArg
from inductor.ops import ops
from inductor.triton import TritonBackend, compile_ahead
from symshapes import FloorDiv, Mod
I, R = sympy.symbols("i0 r0", integer=True, nonnegative=True)
for width in (1000, 9000):
    def softmax(o, r):
        x = ops.mul(ops.load("x", o[0] * width + r[0]), ops.load("scale", 0))
        e = ops.exp(ops.sub(x, ops.reduce("max", x)))
        ops.store("y", o[0] * width + r[0], ops.tanh(ops.truediv(e, ops.reduce("sum", e))))
    body = record(softmax, (I,), (R,), lambda name: torch.bfloat16)
    args = tuple(KernelArg(n, role, torch.bfloat16) for n, role in (("x", "in"), ("scale", "in"), ("y", "out")))
    kernel = Kernel("softmax", torch.device("cuda"), (sympy.Integer(64),), (sympy.Integer(width),), body, args, (), ())
    cubin = compile_ahead(TritonBackend().emit(kernel))
    print(cubin[:4], len(cubin) > 1000)
def rolled(o, r):
    ops.store("y", o[0], ops.load("x", 3 * Mod(-o[0], 7) + FloorDiv(3 - o[0], 5) + 3))
body = record(rolled, (I,), (), lambda name: torch.float16)
args = tuple(KernelArg(n, role, torch.float16) for n, role in (("x", "in"), ("y", "out")))
kernel = Kernel("rolled", torch.device("cuda"), (sympy.Integer(19),), (), body, args, (), ())
cubin = compile_ahead(TritonBackend().emit(kernel))
print(cubin[:4], len(cubin) > 1000)
def far(o, r):
    row = ops.indirect(ops.load("i", o[0]), 2**31 + 9)
    ops.store("y", o[0], ops.add(ops.index_expr(o[0] + 2**31 + 97, torch.int64), ops.load("x", row * 3)))
body = record(far, (I,), (), lambda name: torch.int64)
args = tuple(KernelArg(n, role, torch.int64) for n, role in (("i", "in"), ("x", "in"), ("y", "out")))
kernel = Kernel("far", torch.device("cuda"), (sympy.Integer(3),), (), body, args, (), ())
cubin = compile_ahead(TritonBackend().emit(kernel))
print(cubin[:4], len(cubin) > 1000)
def longest(o, r):
    ops.store("y", 0, ops.reduce("argmax", ops.load("x", r[0])))
body = record(longest, (), (R,), lambda name: torch.int64)
args = tuple(KernelArg(n, role, torch.int64) for n, role in (("x", "in"), ("y", "out")))
kernel = Kernel("longest", torch.device("cuda"), (), (sympy.Integer(2**31 + 9),), body, args, (), ())
source = TritonBackend().emit(kernel)
cubin = compile_ahead(source)
print(cubin[:4], len(cubin) > 1000)
print("range(0, tl.full((), 2147483657, tl.int64), RBLOCK)" in source.text)
"""
    compiled_apart(program, tmp_path, ["b'\\x7fELF' True"] * 5 + ["True"])


def test_dropout_between_its_neighbours_is_one_kernel(tmp_path: Path) -> None:
    """A sum with what dropout leaves, and its layer norm: drawn within, compiled for sm_90."""
    program = """
import torch, torch.nn.functional as F, aotgrad
from inductor import Options, prepare_graph
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend, compile_ahead
from symshapes import FakeMode
backends, mode = {"cuda": TritonBackend()}, FakeMode()
def program(x, residual, w, b):
    return F.layer_norm(F.dropout(x, 0.1) + residual, (1024,), w, b)
with mode, torch.no_grad():
    fakes = [torch.empty(size, dtype=torch.bfloat16, device="cuda") for size in ((64, 1024), (64, 1024), (1024,), (1024,))]
with torch.no_grad():
    traced = aotgrad.trace_inference(program, fakes)
prepare_graph(traced.graph, backends=backends)
plan = lowered(traced.module, traced.inputs, Options(autotune=False), Devices(backends))
(kernel,) = plan.kernels
source = backends["cuda"].emit(kernel)
print(source.text.count("prelude.random_bits"), [str(step.op.target) for step in plan.steps if hasattr(step, "op")])
cubin = compile_ahead(source)
print(cubin[:4], len(cubin) > 1000)
"""
    compiled_apart(program, tmp_path, ["1 ['in_kernel.seeds.default']", "b'\\x7fELF' True"])
