"""How far something that takes its time has come, on terminals, where tqdm is installed.

Flows in: what is gone through. Flows out: the same.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Collection, Iterable
from typing import TypeVar

T = TypeVar("T")


def shown(items: Collection[T], what: str) -> Iterable[T]:
    """The items, with a bar on the terminal while they are gone through, which is gone at the end."""
    if not items or sys.stderr is None or not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        return items
    from tqdm import tqdm  # noqa: PLC0415  (it may not be installed)

    bar: Iterable[T] = tqdm(items, desc=what, leave=False)
    return bar
