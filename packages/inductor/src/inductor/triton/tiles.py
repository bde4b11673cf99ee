"""Which variables the two axes of a program's block run over.

Flows in: a `Kernel`. Flows out: `Tile`, or None for blocks of the flat outer space, which suit whatever is contiguous in the last variable.
"""

from __future__ import annotations

from inductor.device import Kernel
from inductor.ir.operations import Symbol
from inductor.schedule.traffic import contiguous_traffic
from symshapes import dataclass

WORTH = 8
"""A variable with at least one part in so many of the traffic has an axis of its own."""


@dataclass(frozen=True)
class Tile:
    """Positions of outer variables."""

    x: int
    """Its points are the block's first axis, alone; the variables beside it have one value in a program."""
    across: int | None = None
    """Without a reduction: its points are the second axis."""


def is_turned(kernel: Kernel) -> bool:
    """Whether a kernel of rows reads or writes a good part of its memory along another variable than they."""
    traffic = _traffic(kernel)
    beside = max((traffic.get(var, 0) for var in kernel.body.outer_vars), default=0)
    return bool(kernel.inner_sizes) and beside * WORTH >= sum(traffic.values()) > 0


def _traffic(kernel: Kernel) -> dict[Symbol, int]:
    body = kernel.body
    variables, sizes = (*body.outer_vars, *body.inner_vars), (*kernel.outer_sizes, *kernel.inner_sizes)
    return contiguous_traffic(body, dict(zip(variables, sizes, strict=True)))


def tile_of(kernel: Kernel) -> Tile | None:
    """The tile of a kernel whose memory is contiguous in another variable than the one that its blocks walk in, or in several."""
    outer, inner = kernel.body.outer_vars, kernel.body.inner_vars
    traffic = _traffic(kernel)
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
