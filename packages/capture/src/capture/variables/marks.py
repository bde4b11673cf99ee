"""Marks on sizes that the program itself sets: the graph ends there, since what was recorded before knew nothing of them.

In: calls of symshapes' marks within a captured program. Out: a graph break; the mark counts in what is captured after it.
"""

from __future__ import annotations

from symshapes import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic

from .handlers import refuses

refuses(
    mark_dynamic,
    maybe_mark_dynamic,
    mark_static,
    mark_unbacked,
    why="a mark on a size, which is for what is captured after it",
)
