"""Installed distributions that have entry points of a group. Of some hundred that are installed `importlib.metadata` makes an object each, and
reads each one's text through several layers: most of a warm start's time that is no compiling. Here a file's bytes are looked at first.

Flows in: the group's name, the program's path. Flows out: distributions, in the order of the path.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, DistributionFinder, distributions
from pathlib import Path

_SAID = "entry_points.txt"
"""Where a distribution says what it brings."""
_FOLDERS = (".dist-info", ".egg-info")
_BETWEEN = re.compile("[-_.]+")


def distributions_saying(group: str) -> Iterator[Distribution]:
    """Those whose entry points hold the name of the group: it may stand there as another word, too. Of several under one name it is the first
    on the path, from which Python would import."""
    taken: set[str] = set()
    for finder in sys.meta_path:
        if finder is PathFinder:
            for place in sys.path:
                # Programs put `Path`s there, too, which only imports pass over.
                yield from _in_place(os.fspath(place) or ".", group, taken)
        elif find := getattr(finder, "find_distributions", None):
            yield from _saying(find(DistributionFinder.Context()), group)


def _saying(found: Iterable[Distribution], group: str) -> Iterator[Distribution]:
    return (each for each in found if group in (each.read_text(_SAID) or ""))


def _in_place(place: str, group: str, taken: set[str]) -> Iterator[Distribution]:
    try:
        names = os.listdir(place)
    except NotADirectoryError:  # an archive, perhaps
        yield from _saying(distributions(path=[place]), group)
        return
    except OSError:  # a place on the path that is not there, or closed to us, holds nothing
        return
    egg = place.lower().endswith(".egg")
    here = set()
    for name in names:
        kind = name.lower()
        if not (kind.endswith(_FOLDERS) or (egg and kind == "egg-info")):
            continue
        owner = normal(kind.rpartition(".")[0].partition("-")[0])
        if owner in taken:
            continue
        here.add(owner)
        try:
            with open(os.path.join(place, name, _SAID), "rb", buffering=0) as file:
                said = file.read()
        except OSError:  # it brings nothing
            continue
        if group.encode() in said:
            yield Distribution.at(Path(place, name))
    taken |= here - {""}


def normal(name: str) -> str:
    """A distribution's name as installers compare them."""
    return _BETWEEN.sub("-", name).lower()
