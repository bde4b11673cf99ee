"""How a kernel is printed, and by what blocks it runs.

Flows in: a `Kernel`, and what was found out about it. Flows out: its text.
"""

from __future__ import annotations

from collections.abc import Sequence

from inductor.device import Kernel, KernelSource
from inductor.triton.blocks import Blocks
from inductor.triton.kernel import KernelPrinter
from inductor.triton.product import ProductPrinter, product_of
from inductor.triton.tilings import Tiling, blocks_of, usual

HEADER = '''"""Generated kernels of one graph."""

import triton
import triton.language as tl

from inductor.triton import library, prelude, shared_rows
from inductor.triton.library import libdevice
from inductor.triton.prelude import floor_divide as floordiv, remainder as mod

'''
"""Before the kernels of a graph."""


def printed(kernel: Kernel, settings: Sequence[int] = ()) -> KernelSource:
    """A kernel's text. `settings`: the numbers of the `Tiling` of a product; without them it has one that suits its sizes."""
    product = product_of(kernel)
    if product is None:
        return plain(kernel)
    tiling = Tiling(*settings) if settings else usual(kernel, product)
    text = ProductPrinter(kernel, product, blocks_of(kernel, product, tiling)).text()
    return KernelSource(kernel, text, tuple(tiling))


def plain(kernel: Kernel) -> KernelSource:
    """A kernel's text as any reduction's, whatever it is."""
    return KernelSource(kernel, KernelPrinter(kernel).text())


def only_blocks(source: KernelSource) -> Blocks | None:
    """The blocks that a kernel was printed for; None if it may have others."""
    if not source.settings:
        return None
    product = product_of(source.kernel)
    assert product is not None, "only products have settings"
    return blocks_of(source.kernel, product, Tiling(*source.settings))
