"""What is true of a device besides how its kernels are printed: `DeviceTraits`, which each backend states of its own.

Whatever prints nothing (lowerings, scheduler, wrapper) asks these, and never which device it is.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from symshapes import dataclass


@dataclass(frozen=True)
class DeviceTraits:
    """Facts of one device type. The defaults are a processor's whose kernels have run when their calls return."""

    shares_rows: bool = True
    """Whether processors work together on one row (the inner points of one outer point), whatever a kernel does there. If
    only on nothing or on reductions, long reductions of few rows run in two steps, and no long row that is stored element by
    element becomes part of a kernel of few rows."""
    orders_writes: bool = False
    """Whether writes of a kernel to one place happen in an order that is the same in every run. If not, what may collide is
    left to ATen where torch is told to be deterministic."""
    accumulates: tuple[torch.dtype, ...] = (torch.float32, torch.float64, torch.int32, torch.int64)
    """Memory dtypes that stores of mode "add" take, whoever adds to one place at a time. Sums at computed places in others are
    left to ATen."""
    combines: tuple[str, ...] = ("add",)
    """Modes of stores that combine with what is there, in the dtypes that `accumulates` names."""
    casts_operands: bool = True
    """Whether eager's elementwise kernels for the device cast operands (numbers too) to the operands' common dtype first:
    those for the CPU do, in bfloat16 `x > 1.2` compares with 1.203125. If not, they compute with what they are given.
    So do sums of few elements (`col2im`): those for the CPU are rounded to the dtype at each, others at their end."""
    read_at_a_place: float = 3.0
    """What an element read at a computed place of a row costs, beside one of a row that is read in order; both from a cache."""
    kept: float = 2.0
    """What an element that is written to memory, and read again, costs beside that."""
    raises_later: bool = False
    """Whether kernels run after their call returned, so that a position out of range (`ops.indirect`) can't be raised by it.
    Then a backend's `build` also returns, for a graph that checks positions, `_mark_<device type>()` for after the last
    kernel that does, and `_settle_<device type>(wait)`, which raises (with `wait`: after waiting for the marked point)."""
    channels_last: tuple[torch.dtype, ...] = ()
    """Dtypes whose convolutions of images run faster with channels last: graphs of them are laid out so."""
    adds_bias_apart: bool = False
    """Whether the library's convolutions add a bias by a kernel of their own: then what is made of the result adds it."""
    contractions: tuple[torch.dtype, ...] = ()
    """Dtypes whose products of matrices become loops (`contraction_of`), which the backend prints by blocks and which end in
    whatever is made of the sums. Those of others are left to ATen."""
    multiplies_by_library: bool = False
    """Whether the library's products of matrices are the ones to take where nobody timed both: the `contractions` are those that
    `Options.autotune` tries then, of sizes that are known, or, without timing, takes."""
    converts_factors: bool = False
    """Whether products are loops over factors as they lie in memory, where these are narrower than the dtype they are multiplied in
    (weights of int8): else they are converted before, in memory."""
    convolutions: tuple[torch.dtype, ...] = ()
    """Dtypes of `contractions` in which convolutions and attention become such loops, too."""
    aligned_products: tuple[torch.dtype, ...] = ()
    """Dtypes whose products of matrices, by the library, are several times faster on sizes and rows that are multiples of 16 bytes:
    others are padded."""
    misaligned_rows: bool = False
    """Whether the backend's own products write rows that begin anywhere as fast as others. Then large ones that leave a graph in such
    rows are its own also where the library multiplies: the library's would be copied out of padded ones. So are small ones of, or into,
    such rows: the library takes longer to find a kernel for them than a launch and the product itself."""
    summed_rows: tuple[torch.dtype, ...] = ()
    """Dtypes whose products of a matrix and one row, or one column, become sums over the matrix's rows like any others: reading the
    matrix is all that they cost."""
    fused_attention: tuple[torch.dtype, ...] = ()
    """Dtypes in which torch's one-kernel attention is faster than the products and the softmax that a program writes out."""
    complex_parts: tuple[torch.dtype, ...] = ()
    """Complex dtypes of which loops read the parts where they lie: kernels get such tensors as if they were of real numbers, two for
    each. Computing with others is left to ATen."""
    scans: bool = False
    """Whether running results (`ops.scan`: cumsum and its like) are loops, which the backend prints. If not they are left to ATen."""
    draws_in_kernels: bool = False
    """Whether random numbers are drawn within the kernels that use them unless `Options.random` says otherwise: where a launch and
    memory cost more than drawing again, and nobody expects eager's numbers."""
    tells_state: bool = False
    """Whether the device's default generator says where it stands (`get_offset`), so that the seeds of such draws need no launch."""
    large_pages: int | None = None
    """Where fresh memory is mapped a page at a time as it is touched: bytes from which on it had better be large pages. A
    backend that says so returns from `build`, beside the kernels, `_fresh_<device type>(tensor, bytes)`, which is called on
    memory nobody has touched and returns the tensor."""
    pooled: int | None = None
    """Bytes from which on memory that the program never sees had better be kept from call to call. A backend that says so returns
    `_pooled_<device type>(size, stride, dtype)` from `build`, too: uninitialised memory, whose storage need not be resizable."""
    keeps_totals: bool = False
    """Whether a kernel of rows can sum over rows, too: each of its parts walks through some of them, and keeps a total for each column
    (stores of mode "total"). Then long sums over columns become part of kernels that reduce the same memory's rows."""
    module: str | None = None
    """Where there may be several devices of the type, or their work goes on after a call: the module, as text of an
    expression over `torch`, with the functions that torch's device modules have ("torch.cuda"): `current_device()`, the
    context manager `device(index)`, within which kernels are launched, and `synchronize()`. None: there is one device."""
    current: str | None = None
    """What gives the current one's index, as text of an expression over `torch`, where there is anything faster than `module`'s function."""
    joins: int | None = None
    """From how many kernels on, that need not wait for each other, one launch for all of them is faster. A backend that says so is an
    `inductor.JoiningBackend`."""
    recorder: str | None = None
    """Where launches can be recorded once and replayed together: "module:function" of a function that takes a device and gives
    its `inductor.replay.Recorder`."""


TraitsOf = Callable[[torch.device], DeviceTraits]
