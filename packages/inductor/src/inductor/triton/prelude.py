"""Device functions that generated Triton kernels call, where an operator of the language does not do what torch does."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def divide(a, b):  # type: ignore[no-untyped-def]
    """IEEE division: the language's own float32 `/` is an approximation."""
    a, b = tl.broadcast(tl.cast(a, b.dtype), b)
    if b.dtype is tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


@triton.jit
def sign(x):  # type: ignore[no-untyped-def]
    """-1, 0 or 1; 0 for NaN. No -1 is written out, which bytes without a sign have none of."""
    return (x > 0).to(tl.int8).to(x.dtype) - (x < 0).to(tl.int8).to(x.dtype)


@triton.jit
def floor_divide(a, b):  # type: ignore[no-untyped-def]
    """Integer division rounding toward minus infinity; the language's `//` rounds toward zero."""
    quotient = a // b
    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def remainder(a, b):  # type: ignore[no-untyped-def]
    """Integer remainder with the sign of `b`."""
    left = a % b
    return tl.where((left != 0) & ((left < 0) != (b < 0)), left + b, left)


@triton.jit
def maximum(a, b):  # type: ignore[no-untyped-def]
    """The larger; NaN if either is."""
    a, b = tl.broadcast(a, b)
    if a.dtype.is_floating():
        return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.where(a > b, a, b)


@triton.jit
def minimum(a, b):  # type: ignore[no-untyped-def]
    """The smaller; NaN if either is."""
    a, b = tl.broadcast(a, b)
    if a.dtype.is_floating():
        return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.where(a < b, a, b)


@triton.jit
def is_best(a, best):  # type: ignore[no-untyped-def]
    """Whether a number is the largest, or the smallest, one among those that it is of, which is NaN if any is."""
    return (a == best) | (a != a)


@triton.jit  # type: ignore[untyped-decorator]
def repeated(x, times: tl.constexpr):  # type: ignore[no-untyped-def]
    """Each number of a row so many times."""
    wide = tl.broadcast_to(x[:, :, None], [x.shape[0], x.shape[1], times])
    return tl.reshape(wide, [x.shape[0], x.shape[1] * times])


@triton.jit
def add(a, b):  # type: ignore[no-untyped-def]
    return a + b


@triton.jit
def multiply(a, b):  # type: ignore[no-untyped-def]
    return a * b


@triton.jit
def add_squares(total, mean, squares, x, mask, start, end):  # type: ignore[no-untyped-def]
    """The sum and the mean of each lane's numbers before `start`, and the sum of the squares of their differences from it, with those of
    one more block, where the mask is true. (Sums are right also of infinite numbers.)

    Args:
        end: how many numbers there are in all.
    """
    lanes: tl.constexpr = mean.shape[1]
    steps: tl.constexpr = mask.shape[1] // lanes
    there = tl.reshape(mask, [mask.shape[0], steps, lanes])
    # What is the same in all rows, or at all points, has no numbers of its own there.
    x = tl.reshape(tl.broadcast_to(x, mask.shape), there.shape)
    more, count = tl.sum(tl.where(there, x, 0.0), 1), tl.clamp(_of_each_lane(end - start, lanes), 0.0, steps)
    middle = more / tl.maximum(count, 1.0)
    away = tl.where(there, x - middle[:, None, :], 0.0)
    before = start // lanes
    share = count / tl.maximum(before + count, 1.0)
    between = tl.where(count > 0, middle - mean, 0.0)
    squares += tl.sum(away * away, 1) + between * between * (before * share)
    return total + more, mean + between * share, squares


@triton.jit
def all_squares(total, mean, squares, count):  # type: ignore[no-untyped-def]
    """The sum of the numbers of all lanes, `count` of them, and of the squares of their differences from its mean."""
    total = tl.sum(total, 1)[:, None]
    away = mean - total / count
    return total, tl.sum(squares + _of_each_lane(count, mean.shape[1]) * away * away, 1)[:, None]


@triton.jit  # type: ignore[untyped-decorator]
def _of_each_lane(count, lanes: tl.constexpr):  # type: ignore[no-untyped-def]
    """How many of so many numbers each lane has, of which they get one after the other."""
    return ((count - tl.arange(0, lanes)[None, :] + (lanes - 1)) // lanes).to(tl.float32)


@triton.jit
def grouped(program, rows, columns, group):  # type: ignore[no-untyped-def]
    """The row and the column of a program's block, of so many of each a batch: programs that run at a time make blocks of `group` rows,
    column by column, and so read the same few blocks of both factors."""
    place = program % (rows * columns)
    first = place // (group * columns) * group
    height = min(rows - first, group)
    place = place % (group * columns)
    return first + place % height, place // height


@triton.jit
def random_bits(seed, position):  # type: ignore[no-untyped-def]
    """64 random bits for a position under a seed: Philox2x32-10, as `inductor.philox` says."""
    seed, position = tl.broadcast(seed.to(tl.uint64, bitcast=True), position.to(tl.uint64, bitcast=True))
    key = seed.to(tl.uint32)
    low, high = position.to(tl.uint32), ((position ^ seed) >> 32).to(tl.uint32)
    for _ in tl.static_range(10):
        # One multiplication into 64 bits is one instruction; its halves by themselves are two.
        product = low.to(tl.uint64) * 0xD256D193
        low, high = (product >> 32).to(tl.uint32) ^ key ^ high, product.to(tl.uint32)
        key = tl.add(key, 0x9E3779B9, sanitize_overflow=False)
    return (low.to(tl.uint64) | (high.to(tl.uint64) << 32)).to(tl.int64, bitcast=True)


@triton.jit
def arg_max(a, i, b, j):  # type: ignore[no-untyped-def]
    """Of two (value, position) pairs the one torch's argmax keeps: larger, NaN largest of all, first on a tie."""
    first = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def arg_min(a, i, b, j):  # type: ignore[no-untyped-def]
    """Of two (value, position) pairs the one torch's argmin keeps: smaller, NaN smallest of all, first on a tie."""
    first = (a < b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit  # type: ignore[untyped-decorator]
def address(row, at: tl.constexpr, dtype: tl.constexpr, ALIGNED: tl.constexpr):  # type: ignore[no-untyped-def]
    """A pointer out of a table of 64-bit words; ALIGNED: it is a multiple of 16 bytes."""
    word = tl.load(row + at)
    if ALIGNED:
        word = tl.multiple_of(word, 16)
    pointer = word.to(tl.pointer_type(dtype))
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)
    return pointer
