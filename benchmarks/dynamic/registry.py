"""The registry of rows: a program, its calls of changing sizes, and how often it may be compiled.

In: functions with their inputs in words (`"n 4"`, `"n:i"`, `"=n // 2"`), or whole programs over a contender. Out: `ROWS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.dynamic.contender import Contender

Sizes = Sequence[dict[str, int]]

NS, MS = (5, 8, 12, 33, 20), (7, 3, 9, 4, 10)
SIZES: Sizes = [{"n": n, "m": m} for n, m in zip(NS, MS, strict=True)]
"""What a row is called with unless it says otherwise: five sizes, never 0 or 1, never two alike in one call."""


def over(n: Iterable[int], m: Iterable[int] | None = None) -> Sizes:
    """Calls with these `n`, and `m` (by default as usual, round and round)."""
    ns = list(n)
    ms = list(m) if m is not None else [MS[i % len(MS)] for i in range(len(ns))]
    return [{"n": a, "m": b} for a, b in zip(ns, ms, strict=True)]


@dataclass(frozen=True)
class Row:
    """`automatic` and `dynamic` are how often it may be compiled with `dynamic=None` and `dynamic=True`; `why`, where that is more than 2 and 1.

    `whole`: one graph a compile is asked for (`fullgraph=True`). `tolerance`: relative, for compiled results; without `exact` for those
    of the graph as well, in which gradients of a parameter that is used often may be summed in another order.
    """

    name: str
    family: str
    run: Callable[[Contender], list[Any]]
    automatic: int = 2
    dynamic: int = 1
    why: str = ""
    whole: bool = True
    tolerance: float = 1e-4
    exact: bool = True


ROWS: dict[str, Row] = {}
"""All rows by name, in the order of their families."""


class Family:
    """Registers rows of one family."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(
        self,
        name: str,
        fn: Callable[..., Any],
        *inputs: str | Callable[[dict[str, int]], Any],
        sizes: Sizes = SIZES,
        made: bool = False,
        **options: Any,
    ) -> None:
        """A function over inputs made anew for every call; with `made` what is given makes the function or module.

        Inputs (`"n 4"` by default) are text: a tensor's dimensions, each an expression over `n` and `m`, and after a colon its kind (`f`,
        `d` double, `i` integers in 0..2, `b` booleans, `g` floats that need gradients); or after `=` an expression for any value.
        Where something needs gradients, those are compared too; and always what became of the inputs.
        """
        takes = inputs or ("n 4",)

        def run(contender: Contender) -> list[Any]:
            target = fn() if made else fn
            compiled = contender.compile(target)
            found: list[Any] = []
            for at, size in enumerate(sizes):
                torch.manual_seed(100 + at)
                args = [made_of(text, size) for text in takes]
                result = compiled(*args)
                module = target if isinstance(target, nn.Module) else None
                found.append((result, args, gradients(result, args, module)))
            return found

        self.add(Row(name, self.name, run, **options))

    def program(self, **options: Any) -> Callable[[Callable[[Contender], list[Any]]], Callable[[Contender], list[Any]]]:
        """A decorator for a whole program: it compiles with the contender what it likes, calls it, and returns what is compared."""

        def register(run: Callable[[Contender], list[Any]]) -> Callable[[Contender], list[Any]]:
            self.add(Row(run.__name__, self.name, run, **options))
            return run

        return register

    def add(self, row: Row) -> None:
        """Keep a row. ValueError: there is one of its name."""
        if row.name in ROWS:
            raise ValueError(f"two rows are called {row.name}")
        ROWS[row.name] = row


_KINDS: dict[str, Callable[[tuple[int, ...]], torch.Tensor]] = {
    "f": torch.randn,
    "d": lambda size: torch.randn(size, dtype=torch.float64),
    "p": lambda size: torch.rand(size) + 0.5,
    "i": lambda size: torch.randint(0, 3, size),
    "b": lambda size: torch.rand(size) > 0.5,
    "g": lambda size: torch.randn(size).requires_grad_(),
}


def made_of(text: str | Callable[[dict[str, int]], Any], size: dict[str, int]) -> Any:
    """The input that a text describes, for these sizes."""
    if callable(text):
        return text(size)
    if text.startswith("="):
        return eval(text[1:], {"torch": torch}, dict(size))
    dims, _, kind = text.partition(":")
    numbers = tuple(eval(dim, {}, dict(size)) for dim in re.split(r"\s+", dims.strip()) if dim)
    return _KINDS[kind or "f"](numbers)


def gradients(result: Any, args: Any, module: nn.Module | None = None) -> Any:
    """After a backward pass from all results that need gradients: those of inputs and parameters; None where nothing needs any."""
    outs = [t for t in tensors(result) if t.requires_grad and t.grad_fn is not None]
    if not outs:
        return None
    torch.autograd.backward([(t * t).sum() if not t.is_complex() else t.abs().sum() for t in outs])
    found = [t.grad for t in tensors(args) if t.requires_grad]
    if module is not None:
        found += [p.grad for p in module.parameters()]
        for p in module.parameters():
            p.grad = None
    return found


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in nested lists, tuples, and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    if isinstance(value, list | tuple):
        return [t for v in value for t in tensors(v)]
    return []
