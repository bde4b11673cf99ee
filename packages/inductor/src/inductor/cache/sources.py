"""What a package's own sources say, as a hash: what is right while they are worked on, too.

Flows in: a package's name. Flows out: the hash of its files' content. Files of which the file system says that they are as they were are
not read again: what it says of them is the key of a cache entry, which holds the hash.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from inductor.cache.store import DiskCache

SECTION = "sources"
_FILE = "hash"
_HASH = re.compile(b"[0-9a-f]{64}")
_SUFFIXES = (".py", ".h", ".hpp", ".c", ".cpp")
_KEPT = "__pycache__"
_SETTLED = 2.0
"""Seconds: a file changed later than so long ago may change again, and its times, of a coarse clock, stay the same."""


class Uncacheable(Exception):
    """The graph holds something whose content can't be put into a key; the message says what."""


@functools.cache
def package_hash(name: str, cache_dir: str | None = None) -> str:
    """Hash of an installed package's Python sources and headers, or of a module that is one file.

    Args:
        cache_dir: the cache folder; None: the usual one.

    Raises:
        Uncacheable: it is neither.
    """
    try:
        package = importlib.import_module(name)
    except ImportError:
        raise Uncacheable(f"no file holds {name}, which has a part in what is generated") from None
    if not hasattr(package, "__path__"):
        place = getattr(package, "__file__", None)
        if place is None:
            raise Uncacheable(f"no file holds {name}, which has a part in what is generated")
        return hashlib.sha256(Path(place).read_bytes()).hexdigest()
    listed = sorted(entry for root in package.__path__ for entry in _listed(root, ""))
    said, latest = hashlib.sha256(), 0
    for path, inner, status in listed:
        written, changed = status.st_mtime_ns, status.st_ctime_ns
        latest = max(latest, written, changed)
        of_file = f"{status.st_size} {written} {changed} {status.st_ino} {status.st_dev}"
        said.update(f"{path}\0{inner}\0{of_file}\0".encode())
    cache, key = DiskCache(SECTION, cache_dir), said.hexdigest()
    entry = cache.get(key)
    known = None if entry is None else entry.files.get(_FILE)
    if known is not None and _HASH.fullmatch(known):
        return known.decode()
    found = _content_hash([(path, inner) for path, inner, _ in listed])
    if latest < (time.time() - _SETTLED) * 1e9:
        with contextlib.suppress(OSError):  # nowhere to write: it is read again the next time
            cache.put(key, {_FILE: found.encode()})
    return found


def _listed(folder: str, inner: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """The sources in a folder and those in it: path, the path from the package on, and what the file system says."""
    with os.scandir(folder) as found:
        for item in found:
            if item.is_dir():
                if item.name != _KEPT:  # nothing of which is a source
                    yield from _listed(item.path, f"{inner}{item.name}/")
            elif item.name.endswith(_SUFFIXES):
                yield item.path, f"{inner}{item.name}", item.stat()


def _content_hash(files: list[tuple[str, str]]) -> str:
    digest = hashlib.sha256()
    for path, inner in files:
        digest.update(inner.encode())
        with open(path, "rb", buffering=0) as file:
            digest.update(file.read())
    return digest.hexdigest()
