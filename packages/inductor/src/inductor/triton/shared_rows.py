"""Device functions of kernels whose programs share a row: each has a part of it, and hears from those before it what to go on from.

A program tells its part's total by words of 64 bits in memory that was zero: 32 bits of a number, and above them 1. What a word holds is
whole whenever it is seen, so nothing is waited for but the word itself. Every `GROUP`th part also tells the total up to it, so that
nobody adds up more than a group; numbers are always combined in one order. Programs start in the order of their numbers, so
those that are waited for run, or have run. (After Merrill and Garland, Single-pass parallel prefix scan with decoupled
look-back, 2016, where how far back a program looks depends on time, and sums with it.)
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _tell(words, value, SLOTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write a number, a block of one, to a slot at `words`. `SLOTS`: words of a number."""
    told = tl.full([1], 1, tl.int64) << 32
    words += tl.arange(0, 1)
    if SLOTS == 1:
        tl.atomic_xchg(words, told | value.to(tl.uint32, bitcast=True).to(tl.int64), sem="relaxed")
    else:
        bits = value.to(tl.int64, bitcast=True)
        tl.atomic_xchg(words, told | (bits & 0xFFFFFFFF), sem="relaxed")
        tl.atomic_xchg(words + 1, told | ((bits >> 32) & 0xFFFFFFFF), sem="relaxed")


@triton.jit
def _heard(words, mask):  # type: ignore[no-untyped-def]
    """What a block of words say once all are told; where the mask is false, anything."""
    told = tl.full([1], 1, tl.int64) << 32
    found = tl.load(words, mask=mask, other=told, volatile=True)
    while tl.min(found, 0) == 0:
        found = tl.load(words, mask=mask, other=told, volatile=True)
    return found & 0xFFFFFFFF


@triton.jit  # type: ignore[untyped-decorator]
def _numbers(words, mask, neutral, SLOTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The numbers in a block of slots, `neutral` where the mask is false."""
    if SLOTS == 1:
        found = _heard(words, mask).to(tl.uint32).to(neutral.dtype, bitcast=True)
    else:
        found = (_heard(words, mask) | (_heard(words + 1, mask) << 32)).to(neutral.dtype, bitcast=True)
    return tl.where(mask, found, neutral)


@triton.jit  # type: ignore[untyped-decorator]
def tell(words, row, part, parts, total, SLOTS: tl.constexpr, GROUP: tl.constexpr):  # type: ignore[no-untyped-def]
    """Tell the total of a part of a row, a block of one number."""
    groups = (parts + GROUP - 1) // GROUP
    _tell(words + (row * (parts + groups) + part) * SLOTS, total, SLOTS)


@triton.jit  # type: ignore[untyped-decorator]
def tell_group(words, row, part, parts, total, SLOTS: tl.constexpr, GROUP: tl.constexpr):  # type: ignore[no-untyped-def]
    """If the part is its group's last, tell the total of all up to it."""
    groups = (parts + GROUP - 1) // GROUP
    if part % GROUP == GROUP - 1:
        _tell(words + (row * (parts + groups) + parts + part // GROUP) * SLOTS, total, SLOTS)


@triton.jit  # type: ignore[untyped-decorator]
def before(words, row, part, parts, neutral, SLOTS: tl.constexpr, GROUP: tl.constexpr):  # type: ignore[no-untyped-def]
    """What all parts before this one add up to, as a row of `GROUP` numbers: the groups before its own, and its group's parts."""
    groups = (parts + GROUP - 1) // GROUP
    words += row * (parts + groups) * SLOTS
    group, at = part // GROUP, tl.arange(0, GROUP)
    place = tl.where(at == 0, parts + group - 1, group * GROUP + at - 1)
    there = tl.where(at == 0, group > 0, place < part)
    return _numbers(words + place * SLOTS, there, neutral, SLOTS)[None, :]
