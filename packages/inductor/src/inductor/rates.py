"""How fast a machine does large products of matrices, by the compiler's own kernels and by the library's: measured once, kept on disk.

Flows in: a graph as it is about to be lowered, and what compiles small ones. Flows out: the products to leave to the library. Which of
the two is faster is the same for all large products of a machine, by some hundredths; what the library loses is that what is made of
a product elementwise has to read it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from inductor.cache import DiskCache
from inductor.figures import kept
from inductor.lowerings.alignment import BYTES
from inductor.regions import Compiler, Region, alone, is_known, region_of
from inductor.rivals import WORTH
from inductor.samples import timed
from inductor.traits import TraitsOf
from symshapes import dataclass

aten = torch.ops.aten

SECTION = "rates"
"""Of the disk cache: a product that rivals have been timed at has a key like that of the one measured here."""
FACTORS: dict[Any, slice] = {aten.mm.default: slice(0, 2), aten.addmm.default: slice(1, 3)}
"""Where a call has the matrices that it multiplies."""
LARGE = 1 << 28
"""Multiplications of a product for which it matters."""
LEAST = 64
"""Rows, columns and steps of a large product: with fewer it goes at another rate."""
SAMPLE = (512, 1024, 1024)
"""Rows, steps and columns of the product that is measured."""


@dataclass(frozen=True)
class Rates:
    """Seconds a multiplication, and for reading and writing an element once more."""

    own: float
    library: float
    again: float

    def leave(self, rows: int, steps: int, columns: int, again: int) -> bool:
        """Whether the library's product of these sizes is faster, where so many elements are then read and written once more."""
        work = rows * steps * columns
        return self.library * work + self.again * again < WORTH * self.own * work


def faster_by_library(graph: fx.Graph, compiler: Compiler, cache: DiskCache | None, traits: TraitsOf) -> frozenset[str]:
    """The names of the large products of known sizes that the library does faster."""
    rates: dict[tuple[torch.device, torch.dtype], Rates | None] = {}
    left = []
    for node, rows, steps, columns in _large(graph, traits):
        kind = node.meta["val"].device, node.meta["val"].dtype
        if kind not in rates:
            rates[kind] = _rates(*kind, compiler, cache)
        found = rates[kind]
        if found is not None and found.leave(rows, steps, columns, _again(node, traits)):
            left.append(node.name)
    return frozenset(left)


def _large(graph: fx.Graph, traits: TraitsOf) -> Iterator[tuple[fx.Node, int, int, int]]:
    for node in graph.nodes:
        if node.target not in FACTORS or not is_known(node):
            continue
        one, other = (each.meta["val"].shape for each in node.args[FACTORS[node.target]])
        sizes = one[0], one[1], other[1]
        is_large = min(sizes) >= LEAST and one.numel() * other[1] >= LARGE
        if is_large and node.meta["val"].dtype in traits(node.meta["val"].device).contractions:
            yield node, *sizes


def _again(node: fx.Node, traits: TraitsOf) -> int:
    """Elements that the library's product has read and written once more: what more is made of, and what lies in rows that it
    makes of another length."""
    result, factors = node.meta["val"], node.args[FACTORS[node.target]]
    again = result.numel() if len(region_of(node)) > 1 else 0
    unit = BYTES // result.dtype.itemsize
    if result.dtype in traits(result.device).aligned_products and result.shape[1] % unit:
        again += result.numel() + sum(each.meta["val"].numel() for each in factors[1:] if isinstance(each, fx.Node))
    return again


def _rates(device: torch.device, dtype: torch.dtype, compiler: Compiler, cache: DiskCache | None) -> Rates | None:
    """Of the machine; None where the compiler has no kernels for such products."""
    rows, steps, columns = SAMPLE
    graph = fx.Graph()
    factors = [graph.placeholder("one"), graph.placeholder("other")]
    for node, size in zip(factors, ((rows, steps), (steps, columns)), strict=True):
        node.meta["val"] = torch.empty(size, dtype=dtype, device=device)
    product = graph.call_function(aten.mm.default, tuple(factors))
    product.meta["val"] = torch.empty(rows, columns, dtype=dtype, device=device)
    region = alone([product])
    found = kept(cache, compiler.key(region), 3, lambda: _measured(region, compiler))
    if found is None:
        return None
    work, elements = rows * steps * columns, rows * columns
    return Rates(found[0] / work, found[1] / work, found[2] / elements)


def _measured(region: Region, compiler: Compiler) -> list[float] | None:
    """Seconds of the product by both, and of reading and writing its elements once more."""
    own = compiler.own(region)
    if own is None:
        return None
    rows, _, columns = SAMPLE
    product, result = (region.inputs[0].new_zeros(rows, columns) for _ in range(2))

    def again(inputs: list[Any]) -> None:
        torch.neg(product, out=result)

    return timed([own, compiler.library(region), again], region.inputs, rounds=5)
