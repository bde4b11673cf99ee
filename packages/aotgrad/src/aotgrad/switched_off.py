"""What is off while compiled code runs: heads of blocks of the generated function.

In: the source that is written. Out: lines of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from aotgrad import _torch
from aotgrad.source import Source


def without_autocast(source: Source, guard: bool) -> list[str]:
    """The head of a block, if any: the casts are in the graph, and compiled code must not cast again."""
    if guard:
        source.names["without_autocast"] = _torch.DisableAutocast
    return ["with without_autocast():"] if guard else []


@contextmanager
def without_grad(source: Source) -> Iterator[None]:
    """What is written inside runs with gradients switched off."""
    source.names |= {"set_grad": _torch.set_grad_enabled, "is_grad_enabled": torch.is_grad_enabled}
    source.line("grad = is_grad_enabled()")
    with source.within("set_grad(False)", "set_grad(grad)"):
        yield
