"""The oracle of shape rules at other sizes: what a program of symbolic sizes foretells, beside eager at sizes that pass its guards.

Flows in: a program with tensors among its arguments. Flows out: `Finding`s, where the two differ, or a guard keeps out sizes
that eager takes.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from symshapes import DataDependentError, DimPolicy, FakeMode, ShapeEnv, UnbackedError, evaluate


@dataclass(frozen=True)
class Finding:
    """`kind`: "wrong" (results differ), "raises" (the rules do, eager does not), "rejected" (eager raises where the guards
    pass), "narrow" (eager takes sizes that the guards keep out), "missing" (torch's meta kernel answered)."""

    kind: str
    text: str


class Symbolic:
    """One run of a program on fakes whose sizes are all symbolic, and the comparisons with eager at other sizes."""

    def __init__(
        self,
        program: Callable[..., Any],
        args: Any,
        grad: bool = False,
        policy: DimPolicy = DimPolicy.DYNAMIC,
    ) -> None:
        self.program = program
        self.grad = grad
        self.policy = policy
        self.leaves, self.spec = tree_flatten(args)
        self.env = ShapeEnv()
        self.mode = FakeMode(self.env)
        self.fakes = list(self.leaves)
        for at, leaf in enumerate(self.leaves):
            if isinstance(leaf, torch.Tensor):
                known = [k for k in range(at) if self.leaves[k] is leaf]
                self.fakes[at] = (
                    self.fakes[known[0]]
                    if known
                    else self.mode.from_tensor(
                        leaf.detach().requires_grad_(leaf.requires_grad and grad),
                        source=f"t{at}",
                        policy=policy,
                    )
                )
        self.findings: list[Finding] = []

    def check(self, tries: int = 24, seed: int = 0) -> list[Finding]:
        """What is found, on the samples' own sizes and on others."""
        expected = self._eager(self.leaves)
        if isinstance(expected, Exception):
            return []
        try:
            with self.mode:
                self.foretold = self._run(self.fakes)
        except (DataDependentError, UnbackedError):
            return []
        except Exception as error:
            self._found("raises", f"{type(error).__name__}: {error}".splitlines()[0])
            return self.findings
        namespace: dict[str, Any] = {}
        code = self.env.produce_guard_code()
        exec(code.source, namespace)
        by_source = self.named()
        self._compare({}, expected)
        draw = random.Random(seed)
        narrow: set[str] = set()
        for values in self._assignments(draw, tries):
            real = self._reals(values)
            if real is None:
                continue
            all_values = {**self.env.hints, **values}
            constants = {source: value for _, source, value in self.env.constants}
            given = [all_values[by_source[a]] if a in by_source else constants[a] for a in code.arguments]
            passes = namespace["check"](*given)
            result = self._eager(real)
            if not passes:
                if not isinstance(result, Exception):
                    failing = [
                        p.code
                        for p in code.parts
                        if not eval(p.local, {"math": math}, dict(zip(code.parameters, given, strict=True)))
                    ]
                    text = "; ".join(failing)
                    if text not in narrow:
                        narrow.add(text)
                        self._found("narrow", f"{text} (eager takes {self._words(values)})")
                continue
            if isinstance(result, Exception):
                self._found(
                    "rejected", f"{self._words(values)}: {type(result).__name__}: {str(result).splitlines()[:1]}"
                )
                continue
            self._compare(values, result)
            if any(f.kind == "wrong" for f in self.findings):
                break
        return self.findings

    def _found(self, kind: str, text: str) -> None:
        if sum(f.kind == kind for f in self.findings) < 3:
            self.findings.append(Finding(kind, text))

    def _words(self, values: dict[Any, int]) -> str:
        return ", ".join(f"{self.env.sources[s]}={v} (was {self.env.hints[s]})" for s, v in values.items())

    def _run(self, leaves: list[Any]) -> Any:
        args = tree_unflatten(leaves, self.spec)
        if not self.grad:
            with torch.no_grad():
                return tree_flatten(self.program(*args))[0]
        out = tree_flatten(self.program(*args))[0]
        wanted = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
        of = [t for t in out if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point()]
        if not of or not wanted:
            return out
        grads = torch.autograd.grad([t.sum() for t in of], wanted, allow_unused=True)
        return [*out, *grads]

    def _eager(self, leaves: list[Any]) -> Any:
        try:
            return self._run(leaves)
        except Exception as error:
            return error

    def named(self) -> dict[str, Any]:
        """The symbol of each source."""
        return {source: symbol for symbol, source in self.env.sources.items()} | {
            source: symbol for symbol, _, source in self.env.copies
        }

    def _assignments(self, draw: random.Random, tries: int) -> Iterator[dict[Any, int]]:
        hints = self.env.hints
        if self.policy is DimPolicy.OPEN:
            yield from ({symbol: 1} for symbol in hints)
            yield dict.fromkeys(hints, 1)
            for _ in range(tries):
                yield {symbol: draw.choice((1, 1, 2, hint, hint + 1)) for symbol, hint in hints.items()}
            return
        for symbol, hint in hints.items():
            for value in (hint + 1, hint - 1, 2 * hint):
                if value >= 2:
                    yield {symbol: value}
        for hint in sorted(set(hints.values())):
            same = [symbol for symbol, value in hints.items() if value == hint]
            if len(same) > 1:
                for value in (hint + 1, hint - 1, 2 * hint, hint + 5):
                    if value >= 2:
                        yield dict.fromkeys(same, value)
        for _ in range(tries):
            renamed = {hint: draw.randint(2, 3 * hint + 2) for hint in sorted(set(hints.values()))}
            yield {symbol: renamed[value] for symbol, value in hints.items()}
            factor = draw.randint(2, 5)
            yield {symbol: value * factor for symbol, value in hints.items()}

    def _value(self, of: Any, values: dict[Any, int]) -> Any:
        if isinstance(of, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            expr = of.node._expr  # as it was computed: what was learned later holds as well
            return evaluate(expr, {**self.env.hints, **values})
        return of

    def _reals(self, values: dict[Any, int]) -> list[Any] | None:
        made: list[Any] = []
        for at, (leaf, fake) in enumerate(zip(self.leaves, self.fakes, strict=True)):
            if not isinstance(leaf, torch.Tensor):
                made.append(leaf)
                continue
            known = [k for k in range(at) if self.leaves[k] is leaf]
            if known:
                made.append(made[known[0]])
                continue
            # The sizes as asked for, the strides as they follow.
            asked = self._asked(at, leaf, values)
            if asked is None:
                return None
            size, stride = asked
            if tuple(size) == tuple(leaf.shape):
                made.append(leaf)
                continue
            offset = leaf.storage_offset()
            extent = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
            if extent > 1 << 22:
                return None
            block = torch.zeros(offset + extent, dtype=leaf.dtype)
            if leaf.is_floating_point() or leaf.is_complex():
                block.uniform_(0.1, 0.9) if leaf.is_floating_point() else block.fill_(0.5)
            elif leaf.dtype is torch.bool:
                block.fill_(True)
            made.append(block.as_strided(size, stride, offset).requires_grad_(leaf.requires_grad))
        return made

    def _asked(self, at: int, leaf: torch.Tensor, values: dict[Any, int]) -> tuple[list[int], list[int]] | None:
        named = self.named()
        size = []
        for dim, length in enumerate(leaf.shape):
            symbol = named.get(f"t{at}.size({dim})")
            size.append(values.get(symbol, length))
        out = list(leaf.stride())
        step = step_hint = 1
        for dim in sorted(range(leaf.dim()), key=lambda dim: (leaf.stride(dim), leaf.size(dim), -dim)):
            if leaf.stride(dim) == step_hint:
                out[dim] = step
            else:
                step = step_hint = leaf.stride(dim)
            step, step_hint = step * size[dim], step_hint * leaf.size(dim)
        return size, out

    def _compare(self, values: dict[Any, int], real: list[Any]) -> None:
        foretold = [self._described(value, values) for value in self.foretold]
        eager = [self._described(value, values) for value in real]
        if foretold != eager:
            exprs = [
                f"{list(v.shape)} {list(v.stride())}" if isinstance(v, torch.Tensor) else str(v)
                for v in self.foretold[:4]
            ]
            self._found("wrong", f"{self._words(values)}: rule {foretold[:4]} eager {eager[:4]} exprs {exprs}"[:900])

    def _described(self, value: Any, values: dict[Any, int]) -> Any:
        if isinstance(value, torch.Tensor):
            size = tuple(self._value(length, values) for length in value.shape)
            stride = tuple(self._value(step, values) for step in value.stride())
            if 0 in size:
                return size, None, value.dtype
            return (
                size,
                tuple(s if n != 1 else None for n, s in zip(size, stride, strict=True)),
                value.dtype,
                self._value(value.storage_offset(), values),
            )
        return self._value(value, values) if not isinstance(value, float) else None
