"""Random kernels: compiled against the IR's interpreter. Operations are exact ones (torch's sqrt is not), so results match bit for bit, but for
sums and products of floats."""

from __future__ import annotations

import math
import random

import hypothesis.strategies as st
import pytest
import sympy
import torch
from hypothesis import HealthCheck, Phase, given, settings

from cpu_codegen import kernel, reductions, tiles, vectorize
from inductor import ops
from symshapes import FloorDiv, Mod

MEMORY = [
    torch.float32,
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]
SIZES = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70]
FLOAT_UNARY = "neg abs floor ceil trunc round sign".split()
FLOAT_BINARY = "add sub mul truediv maximum minimum copysign".split()
INT_UNARY = "neg abs bitwise_not sign".split()
INT_BINARY = "add sub mul maximum minimum bitwise_and bitwise_or bitwise_xor".split()
BOOL_BINARY = "bitwise_and bitwise_or bitwise_xor logical_and logical_or eq ne".split()
COMPARE = "eq ne lt le gt ge".split()


class Maker:
    """One random kernel: its body, buffers and data."""

    def __init__(self, rng: random.Random, name: str, dynamic: bool) -> None:
        self.rng, self.name = rng, name
        self.outer = [rng.choice(SIZES) for _ in range(rng.randint(0, 3))]
        self.inner = [rng.choice(SIZES) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
        while math.prod(self.outer + self.inner) > 40000:
            big = max((self.outer, self.inner), key=math.prod)
            big[big.index(max(big))] = 2
        self.symbols: dict[sympy.Symbol, int] = {}
        self.outer_sizes: list[sympy.Expr | int] = list(self.outer)
        self.inner_sizes: list[sympy.Expr | int] = list(self.inner)
        if dynamic:
            for sizes, values in ((self.outer_sizes, self.outer), (self.inner_sizes, self.inner)):
                for k, value in enumerate(values):
                    if rng.random() < 0.5:
                        s = sympy.Symbol(f"s{len(self.symbols)}", integer=True, positive=True)
                        self.symbols[s] = value
                        sizes[k] = s
        self.memory: dict[str, torch.Tensor] = {}
        self.buffers: dict[str, tuple[str, torch.dtype]] = {}
        self.exact = True
        self.generator = torch.Generator().manual_seed(rng.randrange(2**31))

    # ---- Buffers

    def data(self, dtype: torch.dtype, count: int) -> torch.Tensor:
        if dtype is torch.bool:
            return torch.rand(count, generator=self.generator) < 0.5
        if dtype.is_floating_point:
            values = torch.randn(count, generator=self.generator) * 4
            kind = self.rng.random()
            if kind < 0.15:
                values[torch.rand(count, generator=self.generator) < 0.1] = math.nan
            elif kind < 0.3:
                values = values.round()
            elif kind < 0.4:
                values[torch.rand(count, generator=self.generator) < 0.1] = math.inf
            return values.to(dtype)
        low, high = (0, 100) if dtype is torch.uint8 else (-50, 50)
        return torch.randint(low, high, (count,), generator=self.generator).to(dtype)

    def new_buffer(self, dtype: torch.dtype, count: int, role: str = "in") -> str:
        name = f"buf{len(self.memory)}"
        self.memory[name] = self.data(dtype, count) if role == "in" else torch.zeros(count, dtype=dtype)
        self.buffers[name] = (role, dtype)
        return name

    def layout(self, variables, sizes, values):
        """A dense index over all variables in random order; and the number of elements."""
        order = list(range(len(variables)))
        if self.rng.random() < 0.4:
            self.rng.shuffle(order)
        index, count, stride = sympy.S.Zero, 1, sympy.S.One
        for k in reversed(order):
            index += variables[k] * stride
            stride *= sizes[k]
            count *= values[k]
        return index, count

    def index(self, variables, sizes, values):
        """An index of a load: dense, broadcast over some variables, strided, or with divisions."""
        kind = self.rng.random()
        kept = [k for k in range(len(variables)) if self.rng.random() < 0.75]
        pick = lambda items: [items[k] for k in kept]  # noqa: E731
        if kind < 0.6:
            index, count = self.layout(pick(variables), pick(sizes), pick(values))
        elif kind < 0.8:
            index, count = self.layout(pick(variables), pick(sizes), pick(values))
            step = self.rng.choice([2, 3])
            index, count = index * step + 1, count * step + 1
        else:
            index, count = self.layout(variables, sizes, values)
            by = self.rng.choice([2, 3, 4])
            index = FloorDiv(index, by) if self.rng.random() < 0.5 else Mod(index, by * 2)
        return index, count

    # ---- Values: (value, dtype)

    def load(self, where):
        dtype = self.rng.choice(MEMORY)
        index, count = self.index(*where)
        value = ops.load(self.new_buffer(dtype, count), index)
        return value, torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype

    def condition(self, where):
        variables, _, values = where
        if not variables:
            return ops.constant(self.rng.random() < 0.5, torch.bool)
        k = self.rng.randrange(len(variables))
        position = ops.index_expr(variables[k], torch.int64)
        return ops.lt(position, ops.constant(self.rng.randint(0, values[k]), torch.int64))

    def masked(self, where):
        """Loads that are only in bounds where the mask holds."""
        variables, _sizes, values = where
        index, count = self.index(*where)
        dtype = self.rng.choice(MEMORY)
        if variables:
            k = self.rng.randrange(len(variables))
            limit = self.rng.randint(1, values[k])
            mask = ops.lt(ops.index_expr(variables[k], torch.int64), ops.constant(limit, torch.int64))
            stride = self.rng.choice([1, 2])
            index, count = variables[k] * stride, (limit - 1) * stride + 1
        else:
            mask = ops.constant(False, torch.bool)
        name = self.new_buffer(dtype, count)
        compute = torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype
        return ops.masked(mask, lambda: ops.load(name, index), self.rng.choice([0, 1])), compute

    def indirect(self, where):
        rows, columns = self.rng.choice([1, 4, 30]), self.rng.choice([1, 8])
        index, count = self.index(*where)
        positions = self.new_buffer(torch.int64, count)
        self.memory[positions] = torch.randint(-rows, rows, (count,), generator=self.generator)
        row = ops.indirect(ops.load(positions, index), rows)
        dtype = self.rng.choice(MEMORY)
        table = self.new_buffer(dtype, rows * columns)
        column = sympy.S.Zero
        for variable, value in zip(where[0], where[2], strict=True):
            if value <= columns:
                column = variable
        value = ops.load(table, row * columns + column)
        return value, torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype

    def convert(self, pair, dtype):
        value, source = pair
        if source.is_floating_point and not dtype.is_floating_point and dtype is not torch.bool:
            # Out of range conversions are undefined: bring the value in range.
            value = ops.where(ops.eq(value, value), value, ops.constant(0.0, source))
            value = ops.minimum(ops.maximum(value, ops.constant(0.0, source)), ops.constant(100.0, source))
        return ops.to_dtype(value, dtype), dtype

    def expression(self, where, depth, earlier=()):
        rng = self.rng
        if earlier and rng.random() < 0.3:
            return rng.choice(earlier)
        if depth == 0 or rng.random() < 0.1:
            return rng.choice([self.load, self.load, self.load, self.masked, self.indirect, self.leaf])(where)
        a, dtype = self.expression(where, depth - 1, earlier)
        kind = rng.random()
        if kind < 0.15:
            return self.convert(
                (a, dtype),
                rng.choice([torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.uint8]),
            )
        if kind < 0.2 and dtype is torch.float32:
            return ops.round_to(a, rng.choice([torch.bfloat16, torch.float16])), dtype
        if kind < 0.35:
            table = ["logical_not"] if dtype is torch.bool else FLOAT_UNARY if dtype.is_floating_point else INT_UNARY
            name = rng.choice([n for n in table if not (n == "neg" and dtype is torch.uint8)])
            return getattr(ops, name)(a), torch.bool if name == "logical_not" else dtype
        b, _ = self.convert(self.expression(where, depth - 1, earlier), dtype)
        if kind < 0.5:
            return ops.where(self.condition(where), a, b), dtype
        if kind < 0.6 and dtype is not torch.bool:
            return getattr(ops, rng.choice(COMPARE))(a, b), torch.bool
        if dtype is torch.bool:
            return getattr(ops, rng.choice(BOOL_BINARY))(a, b), dtype
        return getattr(ops, rng.choice(FLOAT_BINARY if dtype.is_floating_point else INT_BINARY))(a, b), dtype

    def leaf(self, where):
        if self.rng.random() < 0.5 or not where[0]:
            return ops.constant(self.rng.choice([0.0, 1.5, -0.0, math.inf]), torch.float32), torch.float32
        expr = sum((v * self.rng.choice([1, 2, 5]) for v in where[0]), sympy.S.Zero)
        return ops.index_expr(expr, torch.int64), torch.int64

    def reduction(self, where, earlier):
        value, dtype = self.expression(where, self.rng.randint(0, 2), earlier)
        kind = self.rng.choice(["sum", "prod", "max", "min", "argmax", "argmin", "any", "all"])
        if kind in ("sum", "prod"):
            value, dtype = self.convert((value, dtype), self.rng.choice([torch.float32, torch.float64, torch.int64]))
            if dtype.is_floating_point:
                # Small integers: sums are exact in any order; products stay -1, 0 or 1.
                value = ops.where(ops.eq(value, value), value, ops.constant(0.0, dtype))
                value = ops.minimum(ops.maximum(ops.round(value), ops.constant(-8.0, dtype)), ops.constant(8.0, dtype))
                value = ops.sign(value) if kind == "prod" else value
        elif kind in ("max", "min") and dtype is torch.bool:
            value, dtype = self.convert((value, dtype), torch.int32)
        result = ops.reduce(kind, value)
        return result, {"argmax": torch.int64, "argmin": torch.int64, "any": torch.bool, "all": torch.bool}.get(
            kind, dtype
        )

    def body(self, outer_vars, inner_vars):
        outer = (list(outer_vars), self.outer_sizes, self.outer)
        everything = (
            [*outer_vars, *inner_vars],
            [*self.outer_sizes, *self.inner_sizes],
            [*self.outer, *self.inner],
        )
        earlier = []
        if self.inner:
            for _ in range(self.rng.randint(1, 3)):
                earlier.append(self.reduction(everything, tuple(earlier)))
        for _ in range(self.rng.randint(1, 2)):
            if self.inner and self.rng.random() < 0.4:
                where = everything
            else:
                where = outer
            value, dtype = self.expression(where, self.rng.randint(1, 3), tuple(earlier))
            memory = self.rng.choice(
                [dtype, dtype, *([torch.bfloat16, torch.float16] if dtype is torch.float32 else [])]
            )
            index, count = self.layout(*where)
            ops.store(self.new_buffer(memory, count, "out"), index, value)


def random_case(rng, name, dynamic, case):
    maker = Maker(rng, name, dynamic)
    # Buffers come to be while the body is recorded, so `case` reads them from the maker.
    made = case(name, maker.body, maker.outer_sizes, maker.inner_sizes, maker.buffers, list(maker.symbols))
    return maker, made


LIMITS = {
    "CHUNK": 64,
    "TILE": 16,
    "FEW_ROWS": 100,
    "MANY_POINTS": 8,
    "FEW_COLUMNS": 512,
    "ENOUGH_POINTS": 8,
    "KEEP": 65536,
    "FOLD": 2,
}
"""Limits so low that small kernels take the ways of large ones."""


@pytest.mark.parametrize("limits", [{}, LIMITS], ids=["usual", "low"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(seed=st.integers(0, 2**32))
def test_random_kernels(isa, case, compiled, monkeypatch, dynamic, limits, seed):
    for name, value in limits.items():
        for module in (vectorize, kernel, reductions, tiles):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    check_seed(seed, dynamic, case, compiled)


def check_seed(seed, dynamic, case, compiled):
    """Ten random kernels of one seed."""
    rng = random.Random(seed)
    made = [random_case(rng, f"kernel{k}", dynamic, case) for k in range(10)]
    calls = compiled([c for _, c in made])
    for maker, one in made:
        expected = one.expected(maker.memory, maker.symbols)
        actual = one.call(calls, maker.memory, maker.symbols)
        for name in expected:
            torch.testing.assert_close(
                actual[name],
                expected[name],
                rtol=0,
                atol=0,
                equal_nan=True,
                msg=lambda m, one=one, name=name: (
                    f"{name}: {m}\n{one.kernel.outer_sizes} {one.kernel.inner_sizes}\n{one.kernel.body}"
                ),
            )
