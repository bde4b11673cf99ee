"""Folders for a while, which leave nothing behind, however their process ends.

Flows in: the folder that they lie in. Flows out: a new folder of this process alone, once what killed processes left there
is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

STALE_SECONDS = 3600.0
"""What a dead process left is removed after this."""
_PREFIX = "inductor-"
_looked_through: set[str] = set()


@contextlib.contextmanager
def scratch_folder(parent: str | None = None) -> Iterator[Path]:
    """A new folder, removed in the end: by another process if this one is killed.

    Args:
        parent: where it lies; None: in the temporary folder.

    Raises:
        OSError: it can't be made there.
    """
    folder, claim = claimed_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(claim)


def claimed_folder(parent: str | None) -> tuple[Path, int]:
    """A new folder, and the descriptor that tells others it is in use: they may take it away once that is closed.

    Raises:
        OSError: it can't be made there.
    """
    parent = parent or tempfile.gettempdir()
    if parent not in _looked_through:
        _looked_through.add(parent)
        _remove_unclaimed(parent)
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    claim = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    with contextlib.suppress(
        OSError
    ):  # a file system without locks: nobody will get it, so nobody takes the folder away
        fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return Path(folder), claim


def _remove_unclaimed(parent: str) -> None:
    for item in stale(parent, _PREFIX):
        with contextlib.suppress(OSError):  # in use, or no folder, or gone
            descriptor = os.open(item.path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid != os.geteuid():
                    continue
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(item.path, ignore_errors=True)
            finally:
                os.close(descriptor)


def stale(parent: str, *prefixes: str) -> list[os.DirEntry[str]]:
    """What lies in `parent` under names that begin so, if it was last changed long ago."""
    found = []
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(parent) as items:
        for item in items:
            if item.name.startswith(prefixes):
                with contextlib.suppress(OSError):  # another process removed it
                    if now - item.stat(follow_symlinks=False).st_mtime > STALE_SECONDS:
                        found.append(item)
    return found
