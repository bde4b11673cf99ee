"""`Options.autotune`: which calls of a graph the library's kernels do faster than the compiler's own, found by timing both here.

Flows in: a graph as it is about to be lowered, and what compiles its regions. Flows out: the calls to leave to the library.
"""

from __future__ import annotations

from torch import fx

from inductor.cache import DiskCache
from inductor.figures import kept
from inductor.lowerings.registry import READS_MEMORY, is_tensor
from inductor.progress import Progress
from inductor.regions import Compiler, Region, alone, converted_for, is_known, region_of
from inductor.samples import timed
from inductor.traits import TraitsOf
from symshapes import dataclass

SECTION = "rivals"
"""Of the disk cache."""
WORTH = 0.97
"""The library's has to be this much faster: the rest of the graph may have fused with the compiler's own."""

PROGRESS = Progress("timing products", "products")


@dataclass(frozen=True)
class Figures:
    """Seconds a call of a region."""

    own: float
    library: float

    def leave(self, worth: float) -> bool:
        """Whether the library's kernel is the one to take: it takes less than this part of the time."""
        return self.library < worth * self.own


def faster_by_library(graph: fx.Graph, compiler: Compiler, cache: DiskCache | None, traits: TraitsOf) -> frozenset[str]:
    """The names of the calls, of those whose sizes are known, that are faster so."""
    regions: dict[str | fx.Node, tuple[Region, str | None]] = {}
    alike: dict[fx.Node, str | fx.Node] = {}
    for node in graph.nodes:
        if node.target in READS_MEMORY and is_known(node):
            region = alone([*converted_for(node, traits), *region_of(node)])
            key = compiler.key(region)
            alike[node] = key or node
            regions.setdefault(key or node, (region, key))
    for region, key in regions.values():
        if kept(cache, key, 2, lambda: None) is None:
            compiler.begin(region)
    found = {one: _figures(region, compiler, key, cache) for one, (region, key) in PROGRESS.over(regions.items())}
    return frozenset(
        node.name
        for node, one in alike.items()
        if (figures := found[one]) is not None and figures.leave(_worth(node, traits))
    )


def _worth(node: fx.Node, traits: TraitsOf) -> float:
    """Where the library's products are the ones to take, they are so unless others are faster."""
    return 1.0 if is_tensor(node) and traits(node.meta["val"].device).multiplies_by_library else WORTH


def all_rivals(graph: fx.Graph) -> frozenset[str]:
    """The names of all calls that the library has kernels for."""
    return frozenset(node.name for node in graph.nodes if node.target in READS_MEMORY)


def _figures(region: Region, compiler: Compiler, key: str | None, cache: DiskCache | None) -> Figures | None:
    def measure() -> list[float] | None:
        own = compiler.own(region)
        return None if own is None else timed([own, compiler.library(region)], region.inputs)

    found = kept(cache, key, 2, measure)
    return None if found is None else Figures(*found)
