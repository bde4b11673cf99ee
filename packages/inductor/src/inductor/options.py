"""Options of the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from symshapes import dataclass

IndexChecks = Literal["sync", "async", "off"]


@dataclass(frozen=True)
class Options:
    """What `compile_graph` can be told. All fields are part of the cache key."""

    fuse: bool = True
    """Fuse loops into larger kernels; False runs every loop by itself (for comparing)."""
    horizontal: bool = True
    """Also fuse loops that only share inputs."""
    joint_launches: bool = True
    """Run kernels that need not wait for each other (an optimizer's, one a parameter) by one launch, where the device's backend does."""
    max_kernel_buffers: int = 48
    """A fused kernel takes at most this many buffers."""
    max_kernel_ops: int = 1000
    """A fused kernel's body holds at most this many operations."""
    max_serial_row: int = 1 << 16
    """With fewer than `min_rows` outer points a reduction over more elements than this is not fused with a walk over the
    same elements that has to wait for its result: each alone can be spread over all processors."""
    min_rows: int = 64
    split_reductions: bool | Literal["auto"] = "auto"
    """Run long reductions of few rows in two steps, and running results (cumsum) of few long columns in three; "auto": where a device's processors don't share a row."""
    unordered_writes: bool | Literal["auto"] = "auto"
    """Whether kernels write to one place in an order that varies: then what may collide there is left to ATen where torch is
    told to be deterministic. "auto": as the device's backend says."""
    index_checks: IndexChecks = "sync"
    """When a position out of range that a GPU kernel met is raised (no memory is touched at it in any case). "sync": by the
    call itself, which waits at its end for the last kernel that checks one, while later kernels run on. "async": by a later
    call of the graph, without waiting. "off": never. Kernels that have run when their calls return always raise by themselves."""
    reuse_memory: bool = True
    """Give the memory of dead buffers to later ones."""
    reuse_window: int = 24
    """For at most this many steps dead memory is held for a later buffer; after that it goes back to the allocator."""
    pool_memory: bool = True
    """Keep large memory that the program never sees from call to call, where the device's backend says that this pays; the system may
    take back what is not in use."""
    inplace: bool = True
    """Let a kernel write over an input that dies with it, and write the new content of a graph's input where that input lies."""
    channels_last: bool = True
    """Lay out images between convolutions with channels last where the device's convolutions are faster so."""
    random: Literal["kernel", "eager"] | None = None
    """Where random numbers come from. "kernel": each kernel that uses them draws them, from seeds that a call of the graph takes from
    the device's default generator; a backward draws its forward's again instead of keeping them. They follow from `torch.manual_seed`,
    but are not eager's. "eager": ATen's operators draw, the numbers that eager draws. None: as the device's backend says: on GPUs
    kernels, on the CPU eager."""
    freezing: bool = False
    """Take the values of the tensors that a graph holds for granted (`meta.compile` and `capture.compile(freeze=True)` let it hold
    modules' parameters and buffers): what follows from them alone is computed once, scales and shifts of convolutions' and
    linear layers' results go into their weights. Writes to the tensors are not seen from then on."""
    fuse_attention: bool | None = None
    """Run attention that a program writes out (softmax(q @ k.transpose(-2, -1) * scale + mask) @ v) by torch's one-kernel attention,
    whose sums of weighted values are more exact than eager's in half precision, but not its bits. None: in the dtypes that the
    device's backend names; True: wherever torch has one kernel for it; False: nowhere. Where it drops weights, only if kernels may
    draw random numbers (`random`)."""
    autotune: bool | None = None
    """Which products of matrices, convolutions and attention are run by the compiler's own kernels, and which by the library's. True:
    those of known sizes are timed on this machine, by both, with what is made of them elementwise, while the graph is compiled.
    None: large products go to whoever did one of them faster when this machine was first used, on GPUs to the library but for large
    ones that leave a graph in rows that begin anywhere, and small ones of such rows (`DeviceTraits.misaligned_rows`). False: all that
    there are kernels of the compiler's own for are run by these. Figures are kept on disk. With True a `TuningBackend` (Triton's) also
    times forms of each kernel when it is first launched, and sums may be added in another order than without; not where torch is told to
    be deterministic."""
    disabled_passes: tuple[str, ...] = ()
    """Names of passes that are not applied: rewrites of graphs and loop bodies, rows of `GRAPH_PASSES` and `BODY_PASSES`."""
    native_wrapper: bool = False
    """Run graphs on the CPU by one native function, on torch's stable C shim, in place of generated Python; graphs that it can't
    express keep the Python."""
    backends: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Device type to the name of the installed distribution whose backend to take for it; needed where several are installed."""
    cache: bool = True
    """Take compiled graphs, and what was timed or found out of their kernels as they ran, from the disk cache, and put them there. What
    compilers make of a text they keep by that text, whatever is said here."""
    cache_dir: str | None = None
    """Where; None: the environment's INDUCTOR_CACHE_DIR, else ~/.cache/inductor."""
