"""Sizes of input tensors as symbols: which dimensions are, and the guards on them once the capture is done.

Flows in: input tensors with their sources. Flows out: policies for their fakes, and ``SHAPE`` guards.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import torch

from capture.guards import Guard, GuardKind, ShapePredicate, Size
from capture.sources import Source
from symshapes import DimMark, DimPolicy, FakeTensor, ShapeEnv, policy_of, print_expr

_NAME = re.compile(r"[A-Za-z_]\w*")


class DynamicSizes:
    """The symbolic sizes of one capture.

    Those of marked dimensions (``symshapes.mark_dynamic``) whatever ``dynamic`` is: what is said of one size goes
    before what is said of all. With True every size of an input that is not a parameter's or buffer's.
    """

    def __init__(self, dynamic: bool | None, locate: Callable[[], str]) -> None:
        self.dynamic = dynamic
        self.env = ShapeEnv(locate=locate)
        self.sizes: dict[str, Size] = {}
        self.strides: list[tuple[Size, Any]] = []
        self._names: dict[Source, str] = {}

    def policy(self, value: torch.Tensor, source: Source) -> list[DimPolicy | DimMark] | None:
        """One policy a dimension, or None where all sizes are constants."""
        marks = policy_of(value)
        whole = self.dynamic is True and not _is_state(value, source)
        if not marks and not whole:
            return None
        rest = DimPolicy.DUCK if whole else DimPolicy.STATIC
        return [marks.get(dim, rest) for dim in range(value.dim())]

    def name(self, source: Source) -> str:
        """A source's name, and its alone: an argument and a global may be called the same."""
        name = self._names.get(source)
        if name is None:
            name, taken = source.name, set(self._names.values())
            if name in taken:
                name = f"{type(source.root).__name__.lower()} {name}"
            while name in taken:
                name += "'"
            self._names[source] = name
        return name

    def note(self, fake: FakeTensor, source: Source) -> None:
        """Remember where the sizes of an input are read, and which strides follow from sizes."""
        for dim in range(fake.dim()):
            self.sizes[f"{self.name(source)}.size({dim})"] = Size(source, "size", dim)
            stride = fake.stride(dim)
            if isinstance(stride, torch.SymInt):
                self.strides.append((Size(source, "stride", dim), stride))

    def guards(self) -> list[Guard]:
        """The conditions under which the capture is valid for other sizes, each natively checkable.

        Raises ``MarkError`` where they break what the user promised.
        """
        self.env.check_marks()
        guards = self.env.produce_guard_code()
        inputs = dict(zip(guards.parameters, guards.arguments, strict=True))
        found = [
            Guard(None, GuardKind.SHAPE, self._predicate(part.local, inputs, part.code, part.reason), part.user_line)
            for part in guards.parts
        ]
        symbols = {symbol: source for symbol, source in self.env.sources.items() if source in self.sizes}
        for read, stride in self.strides:
            # Facts learned since (two sizes are equal, one is constant) hold whenever the guards do.
            expr = self.env.simplify(stride.node.expr)
            names = {symbol: f"n{place}" for place, symbol in enumerate(symbols)}
            local = f"stride == {print_expr(expr, 'python', names=names)}"
            words = print_expr(expr, "python", names=symbols)
            sources = {name: symbols[symbol] for symbol, name in names.items()}
            predicate = self._predicate(local, sources, f"{read} == {words}", "as it was laid out", stride=read)
            found.append(Guard(None, GuardKind.SHAPE, predicate))
        return found

    def _predicate(self, local: str, inputs: dict[str, str], text: str, reason: str, **more: Size) -> ShapePredicate:
        used = set(_NAME.findall(local))
        reads = {name: self.sizes[source] for name, source in inputs.items() if name in used}
        reads |= more
        return ShapePredicate(tuple(reads.values()), tuple(reads), local, _namespace(used - reads.keys()), text, reason)


def _is_state(value: torch.Tensor, source: Source) -> bool:
    """Whether a tensor is a module's parameter or buffer: those keep their sizes."""
    return isinstance(value, torch.nn.Parameter) or "._buffers[" in source.name or "._parameters[" in source.name


def _namespace(names: set[str]) -> dict[str, Any] | None:
    modules = {"math": math, "operator": operator}
    return {name: modules[name] for name in names if name in modules} or None
