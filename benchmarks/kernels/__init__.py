"""The suite `kernels`: small functions that compile to one loop nest or a few, each under every contender.

`registry.py` says what a kernel is; the other files hold them by family; `table.py` measures and shows.
"""

from benchmarks.kernels import functions, images, pointwise, reductions
from benchmarks.kernels.registry import KERNELS

__all__ = ["KERNELS", "functions", "images", "pointwise", "reductions"]
