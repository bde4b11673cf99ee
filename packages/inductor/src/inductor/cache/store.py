"""`DiskCache`: entries appear whole or not at all, are believed only as far as their content is what was written, and the
oldest go when the section is full.

Flows in: key and file contents. Flows out: `Entry`, of files whose content was verified.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from inductor.cache.place import FORMAT, GONE, default_bound, discard, is_own, own_folder, place_of, unique
from inductor.cache.scratch import stale
from symshapes import dataclass

MANIFEST = "manifest.json"
_LOCK_SECONDS = 120.0
"""Who has waited this long for another process to make an entry makes it too: entries are the same whoever makes them."""
_LOCKS = ".locks"
_HIDDEN = "."
"""Names that begin so are no entries."""
_NEW = ".new-"


class Damaged(ValueError):
    """An entry's files are not what was written, or not this user's; the message says which."""


@dataclass(frozen=True)
class Entry:
    """Files of which every byte is as it was written."""

    folder: Path
    files: Mapping[str, bytes]

    def path(self, name: str) -> Path:
        """Where a file lies."""
        return self.folder / name


class DiskCache:
    """One section of the cache: `<place>/<section>/<two digits of the key>/<key>/<files>`, shared by all processes of a user.

    Args:
        section: a folder name, one per kind of entry.
        root: the cache folder; None: `cache_root()`.
        size_bound: bytes; the entries used longest ago are removed beyond it. None: INDUCTOR_CACHE_MB.
    """

    def __init__(self, section: str, root: Path | str | None = None, size_bound: int | None = None) -> None:
        self._section = section
        self._place = place_of(None if root is None else Path(root))
        self._bound = default_bound() if size_bound is None else size_bound

    def get(self, key: str) -> Entry | None:
        """The entry, if it is there and sound; marks it as used. A damaged one is as good as none: `put` replaces it."""
        for base in self._place.readable():
            path = self._path(base, key)
            try:
                for folder in (base, base / self._section, path.parent):
                    _require_own_folder(folder)
                entry = read_entry(path, key)
            except (OSError, Damaged):
                continue
            with contextlib.suppress(OSError):  # a read-only disk, or gone just now: what was read is good
                os.utime(path)
            return entry
        return None

    def put(self, key: str, files: Mapping[str, bytes]) -> Entry:
        """Store an entry. If another process was first, its entry stays: keys are content hashes, so both hold the same.

        Raises:
            OSError: it can be written nowhere, not even in a temporary folder.
        """
        try:
            return self._put(self._place.writable(), key, files)
        except FileNotFoundError:  # somebody took the whole cache away
            self._place.recheck()
        except OSError as error:
            self._place.give_up(error)
        try:
            return self._put(self._place.writable(), key, files)
        except OSError as error:
            self._place.give_up(error)
        return self._put(self._place.writable(), key, files)

    def put_aside(self, key: str, files: Mapping[str, bytes], why: object) -> Entry:
        """Store an entry in the temporary folder, where what is stored in the cache folder can't be used (a disk mounted
        "noexec", say), and all later ones too.

        Raises:
            OSError: the disk is full.
        """
        self._place.give_up(why)
        return self._put(self._place.writable(), key, files)

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Hold the entry's lock: who waits finds the entry made. Without it (it can't be had, or whoever holds it hangs)
        work is done twice, no more.

        Lock files are few, shared by keys and never removed: one that is removed while somebody waits for it would let two
        in.
        """
        lock = None
        name = f"{os.getpid()} {self._section}/{key[:2]}"  # a forked child holds nothing
        held: set[str] = _held.__dict__.setdefault("names", set())
        if name not in held:  # a compile within a compile doesn't wait for itself
            lock = self._acquire(key)
        if lock is None:
            yield
            return
        held.add(name)
        try:
            yield
        finally:
            held.discard(name)
            with contextlib.suppress(OSError):
                lock.release()

    def remove(self, key: str) -> None:
        """Forget an entry."""
        for base in self._place.readable():
            with contextlib.suppress(OSError):
                discard(self._path(base, key))

    def reset(self) -> None:
        """Forget all entries of this section."""
        for base in self._place.readable():
            for bucket in _listed(base / self._section):
                with contextlib.suppress(OSError):
                    discard(Path(bucket.path))

    def is_empty(self) -> bool:
        """Whether there is no entry of this section."""
        buckets = (bucket for base in self._place.readable() for bucket in _listed(base / self._section))
        return not any(_listed(Path(bucket.path)) for bucket in buckets)

    def _path(self, base: Path, key: str) -> Path:
        return base / self._section / key[:2] / key

    def _put(self, base: Path, key: str, files: Mapping[str, bytes]) -> Entry:
        path = self._path(base, key)
        for folder in (base, base / self._section, path.parent):
            own_folder(folder)
        _remove_litter(path.parent)
        scratch = path.parent / f"{_NEW}{unique()}"
        try:
            scratch.mkdir(0o700)
            _write(scratch, {**files, MANIFEST: _manifest(key, files)})
            entry = _publish(scratch, path, key, files)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)  # gone already after a rename
        self._note(base, sum(map(len, files.values())), keep=path)
        return entry

    def _acquire(self, key: str) -> FileLock | None:
        try:
            section = self._place.writable() / self._section
            for folder in (section.parent, section, section / _LOCKS):
                own_folder(folder)
            path = section / _LOCKS / key[:2]
            if path.is_symlink() or (path.exists() and not path.is_file()):
                discard(path)
            lock = FileLock(path, timeout=_LOCK_SECONDS, mode=0o600)
            lock.acquire(poll_interval=0.01)
            return lock
        except (OSError, Timeout, NotImplementedError):  # the last: a file system without locks
            return None

    def _note(self, base: Path, written: int, keep: Path) -> None:
        """Look at the section's size now and then, since that takes a walk over it: by chance, so that all processes together
        do so once in about a sixteenth of the bound, however little each of them writes."""
        if secrets.randbelow(max(1, self._bound // 16)) < written:
            evict(base / self._section, self._bound, keep)


_held = threading.local()


def read_entry(path: Path, key: str | None = None) -> Entry:
    """All files of an entry in a trusted folder, verified against its manifest.

    Args:
        key: that the entry must have been written for; None: its folder's name.

    Raises:
        OSError: there is none, or a file is missing.
        Damaged: its content is another than was written.
    """
    _require_own_folder(path)
    try:
        manifest = json.loads(_read(path / MANIFEST, None))
        if manifest["format"] != FORMAT or manifest["key"] != (path.name if key is None else key):
            raise Damaged(f"{path} holds another entry")
        listed = [(str(name), int(size), str(digest)) for name, (size, digest) in manifest["files"].items()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{path / MANIFEST}: {error}") from None
    files = {}
    for name, size, digest in listed:
        if name != os.path.basename(name):
            raise Damaged(f"{path} lists files outside of it")
        content = _read(path / name, size)
        if hashlib.sha256(content).hexdigest() != digest:
            raise Damaged(f"{path / name} has changed")
        files[name] = content
    return Entry(path, files)


def _require_own_folder(path: Path) -> None:
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or not is_own(status):
        raise Damaged(f"{path} is not a folder of this user's own")


def _read(path: Path, size: int | None) -> bytes:
    # Neither followed, if a link, nor waited for, if a pipe. By the descriptor alone: a file object asks the system twice as often.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not is_own(status):
            raise Damaged(f"{path} is not a file of this user's own")
        if size is not None and status.st_size != size:
            raise Damaged(f"{path} has another size")
        parts, missing = [], status.st_size
        while missing > 0 and (part := os.read(descriptor, missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _manifest(key: str, files: Mapping[str, bytes]) -> bytes:
    listed = {name: [len(content), hashlib.sha256(content).hexdigest()] for name, content in files.items()}
    return json.dumps({"format": FORMAT, "key": key, "files": listed}, indent=1).encode()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder; they are on the disk when this returns."""
    opened = [os.open(folder, os.O_RDONLY | os.O_CLOEXEC)]
    failed: list[OSError] = []

    def sync(descriptor: int) -> None:
        try:
            os.fsync(descriptor)
        except OSError as error:  # a full disk may say so only now
            failed.append(error)

    try:
        for name, content in files.items():
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            opened.append(descriptor)
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        # All at once: a file system writes its journal once for those that wait together.
        waiting = [threading.Thread(target=sync, args=(descriptor,)) for descriptor in opened]
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join()
    finally:
        for descriptor in opened:
            os.close(descriptor)
    if failed:
        raise failed[0]


def _publish(scratch: Path, path: Path, key: str, files: Mapping[str, bytes]) -> Entry:
    for _ in range(8):  # others may put what was damaged back at the same time
        try:
            scratch.rename(path)
            break
        except OSError:
            try:
                os.lstat(path)
            except FileNotFoundError:
                raise
            with contextlib.suppress(OSError, Damaged):
                return read_entry(path, key)
            discard(path)
    else:
        raise OSError(f"{path} can't be replaced")
    bucket = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(bucket)
    finally:
        os.close(bucket)
    return Entry(path, dict(files))


def evict(section: Path, bound: int, keep: Path) -> None:
    """Remove the entries of a section that were used longest ago until it holds at most `bound` bytes, and what dead
    processes left half-written. Files in use stay usable: what is mapped outlives its name, and who only knows the name
    finds nothing and makes the entry anew."""
    entries = []
    total = 0
    _remove_litter(section)
    for bucket in _listed(section):
        _remove_litter(Path(bucket.path))
        for item in _listed(Path(bucket.path)):
            try:
                used = item.stat(follow_symlinks=False).st_mtime
                size = sum(file.stat(follow_symlinks=False).st_size for file in _listed(Path(item.path)))
            except OSError:  # another process removed it
                continue
            entries.append((used, size, item.path))
            total += size
    for _, size, path in sorted(entries):
        if total <= bound:
            break
        if path != str(keep):
            with contextlib.suppress(OSError):
                discard(Path(path))
                total -= size


def _remove_litter(folder: Path) -> None:
    """Remove what dead processes left of their work, here where others like them work: they may have died each time."""
    for item in stale(str(folder), _NEW, GONE):
        if item.is_dir(follow_symlinks=False):
            shutil.rmtree(item.path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(item.path)


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    """What lies in a folder, of a section its buckets; without hidden ones (locks, and what is being made or removed)."""
    try:
        with os.scandir(folder) as found:
            return [item for item in found if not item.name.startswith(_HIDDEN)]
    except OSError:
        return []


def reset() -> None:
    """Forget everything on disk, and look at the cache folder afresh."""
    place = place_of(None)
    for base in place.readable():
        shutil.rmtree(base, ignore_errors=True)
        with contextlib.suppress(OSError):  # the user's own folder, if it holds anything else
            base.parent.rmdir()
    place.recheck()
