"""Philox2x32-10 on torch's integers: the random bits that kernels draw, as a function of a seed and a position.

Flows in: int64 tensors. Flows out: int64 tensors, all 64 bits random. The printers write the same in their languages, bit for bit.

The generator is that of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3", 2011): ten rounds over a
counter of 64 bits under a key of 32. The position is the counter, the seed's low half the key; its high half is added (by xor) to
the counter's. A word takes half the multiplications of Philox4x32, of whose four words each element would leave two or three.
"""

from __future__ import annotations

from torch import Tensor

MULTIPLIER = 0xD256D193
WEYL = 0x9E3779B9
ROUNDS = 10
_WORD = 0xFFFFFFFF


def random_bits(seed: Tensor, position: Tensor) -> Tensor:
    """64 random bits for a position under a seed."""
    key = seed & _WORD
    low, high = position & _WORD, ((position >> 32) ^ (seed >> 32)) & _WORD
    for _ in range(ROUNDS):
        product = low * MULTIPLIER  # of 64 bits; that it may be taken for a negative number is no matter
        low, high = ((product >> 32) & _WORD) ^ key ^ high, product & _WORD
        key = (key + WEYL) & _WORD
    return low | (high << 32)
