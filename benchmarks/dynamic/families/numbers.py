"""Ints and floats that change from call to call, wherever they come from."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.dynamic.contender import Contender
from benchmarks.dynamic.registry import Family, over

row = Family("ints and floats as arguments")
LATE = {"automatic": 2, "dynamic": 2, "why": "a number that is no argument is symbolic once it changed"}

row("int_added", lambda x, k: x + k, "4 3", "=n")
row("int_multiplied", lambda x, k: x * k + (k - 1), "4 3", "=n")
row("int_slices", lambda x, k: x[:k], "40 3", "=n")
row("int_starts_slice", lambda x, k: x[k:], "40 3", "=n")
row("int_as_size", lambda x, k: torch.zeros(k, 3) + x[0], "4 3", "=n")
row("int_in_arange", lambda x, k: torch.arange(k) + x.sum(), "4 3", "=n")
row("int_selects", lambda x, k: x[k], "40 3", "=n")
row("int_repeats", lambda x, k: x.repeat(k, 1), "4 3", "=n")
row("int_narrows", lambda x, k: x.narrow(0, k, 3), "40 3", "=n")
row("int_views", lambda x, k: x.view(k, -1), "n m", "=n")
row("int_rolls", lambda x, k: x.roll(k, 0), "40 3", "=n")
row("int_pads", lambda x, k: F.pad(x, (0, k)), "4 3", "=n")
row("int_expands", lambda x, k: x.expand(k, -1), "1 3", "=n")
row("int_and_size", lambda x, k: x[: x.size(0) - k], "n+40 3", "=n")
row("int_compared", lambda x, k: x + 1 if k > 2 else x - 1, "4 3", "=n")
row("int_branches", lambda x, k: x + k if k > 10 else x - k, "4 3", "=n", automatic=3, dynamic=2, why="two branches")
row("int_returned", lambda x, k: (x + 1, k * 2 + 1), "4 3", "=n")
row("int_negative", lambda x, k: x + k, "4 3", "=-n")
row("int_split_into", lambda x, k: x.split(k), "2*n 3", "=n")
row("float_scales", lambda x, s: x * s, "4 3", "=n * 0.1")
row("float_added", lambda x, s: x + s - 1, "4 3", "=n * 0.1")
row("float_powers", lambda x, s: x.abs() ** s, "4 3:p", "=n * 0.1")
row("float_arithmetic", lambda x, s: x * (s * 2 + 1) / (s + 0.5), "4 3", "=n * 0.1")
row("float_math", lambda x, s: x * math.sqrt(s) + math.exp(-s), "4 3", "=n * 0.1")
row("float_clamps", lambda x, s: x.clamp(-s, s), "4 3", "=n * 0.1")
row("float_returned", lambda x, s: (x * s, s * 2), "4 3", "=n * 0.1")
row("float_compared", lambda x, s: x * s if s > 0.2 else x, "4 3", "=n * 0.1")
row("float_fills", lambda x, s: torch.full((3,), s) + x[0], "4 3", "=n * 0.1")
row("float_as_alpha", lambda x, s: torch.add(x, x, alpha=s), "4 3", "=n * 0.1")
row("float_temperature", lambda x, s: (x / s).softmax(-1), "n m", "=n * 0.1")
row("float_where", lambda x, s: torch.where(x > s, x, s), "4 3", "=n * 0.1")
row("float_lerp", lambda x, s: torch.lerp(x, -x, s), "4 3", "=n * 0.01")
row("int_and_float", lambda x, k, s: x * s + k, "n 3", "=m", "=n * 0.1")
row("forty_ints", lambda x, k: x + k, "4 3", "=n", sizes=over(range(2, 42)))
row("forty_floats", lambda x, s: x * s, "4 3", "=n * 0.25", sizes=over(range(2, 42)))
row("bool_argument", lambda x, b: x + 1 if b else x - 1, "4 3", "=n % 2 == 0", automatic=2, dynamic=2, why="two values")
row("int_in_list", lambda x, ks: x * ks[0] + ks[1], "4 3", "=[n, m]")
row("int_in_dict", lambda x, d: x * d["scale"] + d["shift"], "4 3", "={'scale': n * 0.1, 'shift': m}")
row("ints_as_shape", lambda x, shape: x.reshape(shape), "n m", "=(m, n)")
row("int_by_keyword_default", lambda x, k=3: x + k, "4 3", "=n")
row("float_in_tuple", lambda x, t: x * t[0] - t[1], "4 3", "=(n * 0.1, m * 0.5)")


class Settings(NamedTuple):
    scale: float
    steps: int


@dataclasses.dataclass
class Config:
    rate: float
    width: int


row("number_in_named_tuple", lambda x, s: x * s.scale + s.steps, "4 3", lambda at: Settings(at["n"] * 0.1, at["m"]))
row(
    "number_in_dataclass",
    lambda x, c: x[:, : c.width] * c.rate,
    "4 40",
    lambda at: Config(at["n"] * 0.1, at["m"]),
    **LATE,
)


@row.program(**LATE)
def number_in_closure(contender: Contender) -> list[Any]:
    scale = 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    compiled, found = contender.compile(fn), []
    for value in (2, 3, 5, 7, 11, 13):
        scale = value
        found.append(compiled(torch.randn(3)))
    return found


@row.program(**LATE)
def float_in_closure(contender: Contender) -> list[Any]:
    scale = 2.0

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * scale + 1

    compiled, found = contender.compile(fn), []
    for value in (2.5, 0.5, 1.25, 3.75, 0.1):
        scale = value
        found.append(compiled(torch.randn(3)))
    return found


WARMTH = 1


def _warmed(x: torch.Tensor) -> torch.Tensor:
    return x * WARMTH + 1


@row.program(**LATE)
def number_in_global(contender: Contender) -> list[Any]:
    global WARMTH
    compiled, found = contender.compile(_warmed), []
    for value in (2, 3, 5, 7, 11):
        WARMTH = value
        found.append(compiled(torch.randn(3)))
    return found


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale, self.width = nn.Linear(4, 4), 1.0, 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)[:, : self.width] * self.scale


@row.program(**LATE)
def float_attribute_of_module(contender: Contender) -> list[Any]:
    model, found = Scaled(), []
    compiled = contender.compile(model)
    for scale in (1.5, 0.5, 0.25, 3.0, 0.125):
        model.scale = scale
        found.append(compiled(torch.randn(3, 4)))
    return found


@row.program(**LATE)
def int_attribute_of_module(contender: Contender) -> list[Any]:
    class Adding(nn.Module):
        offset = 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.offset

    model, found = Adding(), []
    compiled = contender.compile(model)
    for offset in (2, 3, 4, 5, 9):
        model.offset = offset
        found.append(compiled(torch.randn(3, 4)))
    return found


@row.program(automatic=3, dynamic=3, why="it counts from 0, over 1")
def step_counter(contender: Contender) -> list[Any]:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return x / self.steps

    model = Counting()
    compiled = contender.compile(model)
    return [*(compiled(torch.randn(3)) for _ in range(8)), model.steps]


@row.program(automatic=3, dynamic=3, why="it counts from 0, over 1")
def counter_in_object(contender: Contender) -> list[Any]:
    class State:
        count = 0

    state = State()

    def fn(x: torch.Tensor) -> torch.Tensor:
        state.count += 1
        return x + state.count

    compiled = contender.compile(fn)
    return [*(compiled(torch.randn(3)) for _ in range(8)), state.count]


@row.program(**LATE)
def decaying_learning_rate(contender: Contender) -> list[Any]:
    weight, state = torch.ones(3), {"lr": 0.5}

    def step(grad: torch.Tensor) -> None:
        weight.sub_(grad * state["lr"])

    compiled, found = contender.compile(step), []
    for _ in range(6):
        compiled(torch.randn(3))
        state["lr"] *= 0.9
        found.append(weight.clone())
    return found


@row.program(automatic=2, dynamic=2, why="the optimizer's groups are no argument")
def optimizer_with_schedule(contender: Contender) -> list[Any]:
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)

    def step() -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                with torch.no_grad():
                    p.sub_(p.grad * group["lr"])

    compiled, found = contender.compile(step), []
    for _ in range(5):
        weight.grad = torch.randn(4)
        compiled()
        optimizer.param_groups[0]["lr"] *= 0.8
        found.append(weight.clone())
    return found


@row.program(automatic=5, dynamic=5, why="the number of tensors is a structure")
def growing_list_of_tensors(contender: Contender) -> list[Any]:
    compiled = contender.compile(lambda xs: torch.stack(xs).sum(0))
    return [compiled([torch.randn(3) for _ in range(k)]) for k in (1, 2, 3, 4, 5)]


@row.program()
def growing_cache_tensor(contender: Contender) -> list[Any]:
    compiled = contender.compile(lambda cache, new: torch.cat([cache, new]))
    cache, found = torch.randn(5, 3), []
    for _ in range(6):
        cache = compiled(cache, torch.randn(2, 3))
        found.append(cache)
    return found


@row.program(automatic=5, dynamic=5, why="the number of values is a structure")
def growing_list_of_ints(contender: Contender) -> list[Any]:
    compiled = contender.compile(lambda x, ks: x + sum(ks))
    return [compiled(torch.randn(3), list(range(2, 2 + k))) for k in (1, 2, 3, 4, 5)]


@row.program(automatic=3, dynamic=2, why="0 is a constant")
def annealing_to_zero(contender: Contender) -> list[Any]:
    compiled = contender.compile(lambda x, s: x * s + 1)
    return [compiled(torch.randn(3), s) for s in (0.9, 0.7, 0.3, 0.1, 0.0)]


@row.program()
def float_inf_and_nan_late(contender: Contender) -> list[Any]:
    compiled = contender.compile(lambda x, s: x.clamp(max=s))
    return [compiled(torch.randn(3), s) for s in (0.9, 0.7, float("inf"), -float("inf"), 0.1)]
