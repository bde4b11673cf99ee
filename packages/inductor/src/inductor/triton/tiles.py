"""Which variables the two axes of a program's block run over.

Flows in: a `Kernel`. Flows out: `Tile`, or None for blocks of the flat outer space, which suit whatever is contiguous in the last variable.
"""

from __future__ import annotations

from dataclasses import dataclass

from inductor.device import Kernel
from inductor.ir.operations import Symbol
from inductor.schedule.traffic import contiguous_traffic

WORTH = 8
"""A variable with at least one part in so many of the traffic has an axis of its own."""


@dataclass(frozen=True)
class Tile:
    """Positions of outer variables."""

    x: int
    """Its points are the block's first axis, alone; the variables beside it have one value in a program."""
    across: int | None = None
    """Without a reduction: its points are the second axis."""


def tile_of(kernel: Kernel) -> Tile | None:
    """The tile of a kernel whose memory is contiguous in another variable than the one that its blocks walk in, or in several."""
    body = kernel.body
    outer, inner = body.outer_vars, body.inner_vars
    sizes = dict(zip((*outer, *inner), (*kernel.outer_sizes, *kernel.inner_sizes), strict=True))
    traffic = contiguous_traffic(body, sizes)
    if not traffic:
        return None

    def share(var: Symbol) -> int:
        return traffic.get(var, 0)

    if inner:
        best = max(outer, key=share, default=None)
        walked = sum(map(share, inner))
        return Tile(outer.index(best)) if best is not None and share(best) > walked else None
    others = [var for var in outer[:-1] if share(var) * WORTH >= sum(traffic.values())]
    if not others:
        return None
    return Tile(outer.index(max(others, key=share)), across=len(outer) - 1)
