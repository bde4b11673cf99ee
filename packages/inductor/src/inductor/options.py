"""Options of the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """What `compile_graph` can be told. All fields are part of the cache key."""

    fuse: bool = True
    """Fuse loops into larger kernels; False runs every loop by itself (for comparing)."""
    horizontal: bool = True
    """Also fuse loops that only share inputs."""
    max_kernel_buffers: int = 48
    """A fused kernel takes at most this many buffers."""
    max_kernel_ops: int = 1000
    """A fused kernel's body holds at most this many operations."""
    max_serial_row: int = 1 << 16
    """With fewer than `min_rows` outer points a reduction over more elements than this is not fused with a walk over the
    same elements that has to wait for its result: each alone can be spread over all processors."""
    min_rows: int = 64
    split_reductions: tuple[str, ...] = ("cuda",)
    """Device types for which long reductions of few rows run in two steps, since their processors don't share a row."""
    unordered_writes: tuple[str, ...] = ("cuda",)
    """Device types whose kernels write to one place in an order that varies: where torch is told to be deterministic, what
    may collide there is left to ATen."""
    index_checks: Literal["sync", "async", "off"] = "sync"
    """When a position out of range that a GPU kernel met is raised (no memory is touched at it in any case). "sync": by the
    call itself, which waits at its end for the last kernel that checks one, while later kernels run on. "async": by a later
    call of the graph, without waiting. "off": never. Devices whose kernels raise by themselves always do."""
    reuse_memory: bool = True
    """Give the memory of dead buffers to later ones."""
    reuse_window: int = 24
    """For at most this many steps dead memory is held for a later buffer; after that it goes back to the allocator."""
    inplace: bool = True
    """Let a kernel write over an input that dies with it."""
    cache: bool = True
    """Take compiled graphs from the disk cache, and put them there."""
    cache_dir: str | None = None
    """Where; None: the environment's INDUCTOR_CACHE_DIR, else ~/.cache/inductor."""
