"""`DiskCache`: entries appear whole or not at all, one process makes each, and the oldest go when the room is full.

Flows in: key and file contents. Flows out: paths. The folder is INDUCTOR_CACHE_DIR, else ~/.cache/inductor_<user>.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock

SIZE_BOUND = int(os.environ.get("INDUCTOR_CACHE_MB", "4096")) << 20
"""Bytes that one room of the cache may take."""
_EVICT_EVERY = 64
"""Puts between two checks of the size."""


def cache_root() -> Path:
    """The cache folder (it need not exist)."""
    given = os.environ.get("INDUCTOR_CACHE_DIR")
    if given:
        return Path(given)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user in the password file
        user = str(os.getuid())
    return Path.home() / ".cache" / f"inductor_{user}"


class DiskCache:
    """One room of the cache: `<root>/<room>/<two digits of the key>/<key>/<files>`.

    Args:
        room: a folder name, one per kind of entry.
        root: None: `cache_root()`.
        size_bound: bytes; the entries used longest ago are removed beyond it.
    """

    def __init__(self, room: str, root: Path | str | None = None, size_bound: int | None = None) -> None:
        self.folder = (cache_root() if root is None else Path(root)) / room
        self._size_bound = SIZE_BOUND if size_bound is None else size_bound
        self._puts = 0

    def path(self, key: str) -> Path:
        """Where the entry `key` lies or would lie."""
        return self.folder / key[:2] / key

    def get(self, key: str) -> Path | None:
        """The entry's folder, if it is there; marks it as used."""
        path = self.path(key)
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        return path

    def put(self, key: str, files: Mapping[str, bytes]) -> Path:
        """Store an entry and return its folder. If another process was first, its entry stays: keys are content hashes, so
        both hold the same."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=path.parent))
        try:
            for name, content in files.items():
                (scratch / name).write_bytes(content)
            try:
                scratch.rename(path)
            except OSError:
                if not path.is_dir():
                    raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)  # gone already after a rename
        if self._puts % _EVICT_EVERY == 0:
            self._evict(keep=path)
        self._puts += 1
        return path

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Hold the entry's lock: who waits finds the entry made."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.parent / f".{key}.lock"):
            yield

    def remove(self, key: str) -> None:
        """Forget an entry (of which a file is damaged, say)."""
        shutil.rmtree(self.path(key), ignore_errors=True)

    def reset(self) -> None:
        """Forget all entries of this room."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _evict(self, keep: Path) -> None:
        entries = []
        total = 0
        for shelf in self.folder.iterdir():
            for entry in shelf.iterdir():
                if entry.name.startswith("."):
                    continue
                try:
                    size = sum(file.stat().st_size for file in entry.iterdir())
                    entries.append((entry.stat().st_mtime, size, entry))
                except FileNotFoundError:  # another process removed it
                    continue
                total += size
        for _, size, entry in sorted(entries):
            if total <= self._size_bound:
                break
            if entry != keep:
                shutil.rmtree(entry, ignore_errors=True)
                (entry.parent / f".{entry.name}.lock").unlink(missing_ok=True)
                total -= size


def reset() -> None:
    """Forget everything on disk."""
    shutil.rmtree(cache_root(), ignore_errors=True)
