"""Deals kernels to files that compilers read beside each other, so that the last one is done early.

Flows in: kernels' texts. Flows out: groups of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Group = list[str]

_FILE, _HEADER, _KERNEL, _CHARACTERS = 3.0, 11.0, 1.0, 1000
"""What takes a compiler about as long as each other: a third of a file's own headers; an eleventh of one that some kernels
include; a kernel, but for its text; so many characters."""
_INCLUDE = re.compile(r'^#include "(.*)"$', re.M)
_KERNELS_PER_FILE = 3
"""A file's headers take as long to read as this many kernels to compile, about."""


def deal(texts: Sequence[str], processors: int) -> list[Group]:
    """The texts in groups for as many compilers: those that include a header together, if that is done earlier than all apart."""
    files = max(1, min(processors, len(texts) // _KERNELS_PER_FILE))
    bundles: dict[object, Group] = {}
    for at, text in enumerate(texts):
        headers = frozenset(_INCLUDE.findall(text))
        bundles.setdefault(headers or at, []).append(text)
    ways = _spread(bundles.values(), files), _spread(([text] for text in texts), files)
    return min(ways, key=lambda groups: (max(map(_cost, groups)), sum(map(_cost, groups))))


def _spread(bundles: Iterable[Group], files: int) -> list[Group]:
    """Largest first, each to the group that is done first with it."""
    groups: list[Group] = [[] for _ in range(files)]
    for bundle in sorted(bundles, key=_cost, reverse=True):
        min(groups, key=lambda group: _cost([*group, *bundle])).extend(bundle)
    return [group for group in groups if group]


def _cost(group: Group) -> float:
    headers = {header for text in group for header in _INCLUDE.findall(text)}
    return _FILE + _HEADER * len(headers) + sum(_KERNEL + len(text) / _CHARACTERS for text in group)
