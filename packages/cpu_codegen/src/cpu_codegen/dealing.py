"""Deals kernels to files that compilers read beside each other, so that the last one is done early.

Flows in: kernels' texts. Flows out: groups of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field

from symshapes import dataclass

_INCLUDE = re.compile(r'^#include "(.*)"$', re.M)

# What takes a compiler about as long as each other: a kernel but for its text, a thousand characters of that, a third of what every
# file includes, an eleventh of a header that some kernels include.
_KERNEL, _CHARACTERS, _FILE, _HEADER = 1.0, 1000, 3.0, 11.0
_KERNELS_PER_FILE = 3
"""Fewer are not worth a file of their own."""


@dataclass
class _Group:
    """Texts of a file, and what they take a compiler."""

    texts: list[str] = field(default_factory=list)
    headers: frozenset[str] = frozenset()
    kernels: float = 0.0

    @property
    def cost(self) -> float:
        return _FILE + _HEADER * len(self.headers) + self.kernels

    def add(self, other: _Group) -> None:
        self.texts += other.texts
        self.headers |= other.headers
        self.kernels += other.kernels

    def cost_with(self, other: _Group) -> float:
        return self.cost + _HEADER * len(other.headers - self.headers) + other.kernels


def deal(texts: Sequence[str], processors: int) -> list[list[str]]:
    """The texts in groups for as many compilers, none of them empty but where there is no text: those that include a header together,
    if that is done earlier than all apart."""
    files = max(1, min(processors, len(texts) // _KERNELS_PER_FILE))
    singles = [_Group([text], frozenset(_INCLUDE.findall(text)), _KERNEL + len(text) / _CHARACTERS) for text in texts]
    bundles: dict[object, _Group] = {}
    for at, single in enumerate(singles):
        bundles.setdefault(single.headers or at, _Group()).add(single)
    ways = _spread(bundles.values(), files), _spread(singles, files)
    best = min(ways, key=lambda groups: (max(g.cost for g in groups), sum(g.cost for g in groups)))
    return [group.texts for group in best]


def _spread(bundles: Iterable[_Group], files: int) -> list[_Group]:
    """Largest first, each to the group that is done first with it."""
    groups = [_Group() for _ in range(files)]
    for bundle in sorted(bundles, key=lambda each: each.cost, reverse=True):
        min(groups, key=lambda group: group.cost_with(bundle)).add(bundle)
    return [group for group in groups if group.texts] or groups[:1]
