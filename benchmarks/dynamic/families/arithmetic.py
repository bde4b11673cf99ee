"""Arithmetic on sizes: operators, builtins, math, comparisons, branches and loops."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch

from benchmarks.dynamic.registry import Family, over

row = Family("arithmetic on sizes")

row("sum_of_sizes", lambda x: x * (x.size(0) + x.size(1)), "n m")
row("product_of_sizes", lambda x: x / (x.size(0) * x.size(1) - 1), "n m")
row("floor_division", lambda x: x + x.size(0) // 3, "n m")
row("modulo", lambda x: x + x.size(0) % 5, "n m")
row("negative_modulo", lambda x: x + (-x.size(0)) % 7, "n m")
row("true_division", lambda x: x * (x.size(0) / x.size(1)), "n m")
row("power_square", lambda x: x + x.size(0) ** 2, "n m")
row("inverse_root", lambda x: x * x.size(-1) ** -0.5, "n m")
row("math_sqrt", lambda x: x / math.sqrt(x.size(1)), "n m")
row("math_log", lambda x: x * math.log(x.size(0) + 1), "n m")
row("math_ceil_floor", lambda x: x + math.ceil(x.size(0) / 2) - math.floor(x.size(1) / 2), "n m")
row("math_exp_pow", lambda x: x * math.exp(-x.size(0) / 10) + math.pow(x.size(1), 0.5), "n m")
row("math_prod_of_shape", lambda x: x + math.prod(x.shape), "n m 2")
row("math_gcd_of_even", lambda x: x + math.trunc(x.size(0) / 3), "n m")
row("sum_of_shape", lambda x: x + sum(x.shape), "n m 2")
row(
    "max_min_of_sizes",
    lambda x: x + max(x.size(0), x.size(1)) - min(x.shape),
    "n m",
    automatic=3,
    dynamic=2,
    why="either may be larger",
)
row("max_with_constant", lambda x: x.sum() + max(x.size(0), 6), "n m", automatic=3, dynamic=2, why="either side of 6")
row("absolute_difference", lambda x: x + abs(x.size(0) - x.size(1)), "n m", automatic=3, dynamic=2, why="either sign")
row("divmod_of_size", lambda x: x * divmod(x.size(0), 3)[0] + divmod(x.size(0), 3)[1], "n m")
row("round_of_quotient", lambda x: x + round(x.size(0) / 3), "n m")
row("float_of_size", lambda x: x * float(x.size(0)), "n m")
row("int_of_quotient", lambda x: x[: int(x.size(0) * 0.5)], "n m")
row("int_of_scaled", lambda x: torch.zeros(int(x.size(0) * 1.5)) + x.sum(), "n m")
row("bool_of_size", lambda x: x + 1 if x.size(0) else x - 1, "n m")
row("shapes_compared", lambda x, y: x + y if x.shape == y.shape else x + 1, "n m", "n m")
row("shapes_differ", lambda x, y: x + 1 if x.shape != y.shape else x + y, "n m", "m n")
row("size_against_constant", lambda x: x * 2 if x.size(0) > 3 else x, "n m")
row("branch_on_size", lambda x: x * 2 if x.size(0) > 10 else x - 1, "n m", automatic=3, dynamic=2, why="two branches")
row(
    "branch_on_parity",
    lambda x: x * 2 if x.size(0) % 2 == 0 else x - 1,
    "n m",
    automatic=3,
    dynamic=2,
    why="two branches",
)
row("branch_on_two", lambda x: x * 2 if x.size(0) > x.size(1) else x, "n m", sizes=over((9, 8, 12, 33), (7, 3, 9, 4)))
row("chained_comparison", lambda x: x + 1 if 2 < x.size(0) < 100 else x, "n m")
row("sizes_returned", lambda x: (x.size(0), x.size(1) * 2, x + 1), "n m")
row("shape_returned", lambda x: (x + 1, x.shape), "n m")
row("quotient_returned", lambda x: (x + 1, x.size(0) / x.size(1)), "n m")
row("comparison_returned", lambda x: (x + 1, x.size(0) > 3), "n m")
row("numel_and_dim", lambda x: x * x.numel() + x.dim() + len(x), "n m")
row("sorted_sizes", lambda x: x.reshape(sorted(x.shape)), "n m", automatic=3, dynamic=2, why="two orders")
row("reversed_shape", lambda x: x.reshape(x.shape[::-1]), "n m 2")
row("shape_arithmetic_list", lambda x: torch.zeros([s + 1 for s in x.shape]), "n m")
row("shape_in_dict", lambda x: {"rows": x.size(0), "sum": x.sum()}, "n m")
row("unpacked_shape", lambda x: _unpacked(x), "n m 3")
row("ceil_division", lambda x: x.sum() * ((x.size(0) + 3) // 4), "n m")
row("round_up_to_eight", lambda x: torch.zeros((x.size(0) + 7) // 8 * 8), "n m")
row("operator_functions", lambda x: x * operator.mul(x.size(0), 2) + operator.floordiv(x.size(1), 2), "n m")
row("bit_operations", lambda x: x + (x.size(0) & 3) + (x.size(1) << 1), "n m")
row("text_of_size", lambda x: _named(x), "n m", automatic=5, dynamic=5, why="the text is the size's")
row("loop_over_constant", lambda x: _looped(x, 3), "n m")
row(
    "loop_over_size",
    lambda x: _looped(x, x.size(0)),
    "n 2",
    sizes=over((3, 4, 5, 4)),
    automatic=3,
    dynamic=3,
    why="a loop is unrolled",
)
row("assert_on_size", lambda x: _asserted(x), "n m")
row("check_on_size", lambda x: _checked(x), "n m")
row("size_scaled_by_float", lambda x: x * (x.size(0) * 0.1) + 1e-3 * x.size(1), "n m")
row("average_of_sizes", lambda x: x.mean() * (sum(x.shape) / len(x.shape)), "n m")


def _unpacked(x: torch.Tensor) -> torch.Tensor:
    b, t, c = x.shape
    return x.reshape(b, t * c).view(b * t, c).sum(0) / (b * t)


def _named(x: torch.Tensor) -> Any:
    return {f"rows{x.size(0)}": x + 1}


def _looped(x: torch.Tensor, times: int) -> torch.Tensor:
    for i in range(times):
        x = x * 0.5 + i
    return x


def _asserted(x: torch.Tensor) -> torch.Tensor:
    assert x.size(0) > 2, "too few"
    assert x.size(1) < 1000
    return x + 1


def _checked(x: torch.Tensor) -> torch.Tensor:
    torch._check(x.size(0) > 2)
    torch._check(x.size(0) * x.size(1) < 100000, lambda: "too many")
    return x + x.size(0)
