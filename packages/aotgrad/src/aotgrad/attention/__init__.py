"""Attention that a program writes out (a product, a softmax, a product), found in its graph and run by torch's one-kernel attention.

In: a captured graph of torch calls with fake values. Out: for the last product of each such attention, what to call in its place.
"""

from aotgrad.attention.fused import Attention, Fused, fused_attentions

__all__ = ["Attention", "Fused", "fused_attentions"]
