"""Figures that were measured on this machine, kept in the disk cache. What lies there is believed as far as it has their form.

Flows in: a key, and what measures. Flows out: seconds.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence

from inductor.cache import DiskCache

FILE = "figures.json"


def kept(
    cache: DiskCache | None, key: str | None, count: int, measure: Callable[[], Sequence[float] | None]
) -> Sequence[float] | None:
    """The `count` figures under the key, of which what is not there is measured, by one process; None if that has none."""
    if cache is None or key is None:
        return measure()
    with cache.lock(key):
        found = known(cache, key, count)
        if found is None:
            found = measure()
            if found is not None:
                with contextlib.suppress(OSError):  # a full disk: it is measured again
                    cache.put(key, {FILE: json.dumps(found).encode()})
    return found


def known(cache: DiskCache | None, key: str, count: int) -> Sequence[float] | None:
    """The `count` figures under the key, if they are there."""
    if cache is None:
        return None
    entry = cache.get(key)
    if entry is None:
        return None
    try:
        found = json.loads(entry.files[FILE])
    except (KeyError, ValueError, RecursionError):
        found = None
    if isinstance(found, list) and len(found) == count and all(map(_is_figure, found)):
        return found
    cache.remove(key)  # what is there stays there, whatever is put
    return None


def _is_figure(value: object) -> bool:
    return type(value) is float and math.isfinite(value) and value >= 0
