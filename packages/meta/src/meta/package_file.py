"""A package's file: a shared object, behind it the weights, a manifest in JSON and a footer. Nothing of it is pickled.

    ELF | zeros to the next page | weights | manifest | footer

The footer has the hash of what runs and what is interpreted: the shared object, the manifest and the footer itself. The manifest has
the hashes of the weights, piece by piece: they are numbers, too many to read before the first call.

Flows in: the parts. Flows out: the file; and from a file, verified, its shared object and its manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC = b"meta.package v2\n"
FOOTER = struct.Struct("<16s5Q64s32s")
"""Magic, the length of the shared object, where the weights begin and their length, the same of the manifest, the shared object's
identity, and the SHA-256 of the shared object, the manifest and what stands before it here. The C runtime of packages reads it, too."""

_PAGE = 1 << 16
"""Weights are mapped, which begins at pages: of 64 KiB on some machines."""
PIECE = 1 << 22
"""Bytes of weights that have a hash of their own."""


class DamagedPackage(ValueError):
    """A file is no package, or not as it was written."""


@dataclass(frozen=True)
class PackageFile:
    """What was read of a package, and is as it was written."""

    library: bytes
    manifest: dict[str, Any]
    digest: bytes
    """SHA-256 of the library."""


def write_package(
    path: Path, library: bytes, identity: str, weights: Iterable[tuple[int, bytes]], manifest: dict[str, Any]
) -> None:
    """Write a package; it appears whole or not at all.

    Args:
        identity: of the library, 64 characters.
        weights: in rising order where each begins, counted from the first, and its bytes.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(library + bytes(-len(library) % _PAGE))
            start = at = file.tell()
            hashes, piece = [], hashlib.sha256()
            for place, content in weights:
                with memoryview(bytes(start + place - at)) as gap, memoryview(content) as whole:
                    for part in (gap, whole):
                        file.write(part)
                        while len(part):
                            room = PIECE - (at - start) % PIECE
                            piece.update(part[:room])
                            at += min(room, len(part))
                            part = part[room:]
                            if (at - start) % PIECE == 0:
                                hashes.append(piece.hexdigest())
                                piece = hashlib.sha256()
            if (at - start) % PIECE:
                hashes.append(piece.hexdigest())
            text = json.dumps({**manifest, "pieces": hashes}, separators=(",", ":")).encode()
            head = FOOTER.pack(MAGIC, len(library), start, at - start, at, len(text), identity.encode(), b"")[:-32]
            file.write(text + head + hashlib.sha256(library + text + head).digest())
            file.close()
            os.chmod(file.name, 0o755 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def read_package(file: int, path: Path, verify: bool) -> PackageFile:
    """The shared object and the manifest of a package that is open as `file`.

    Args:
        path: what messages call it.
        verify: read the weights, too, and compare them with their hashes.

    Raises:
        DamagedPackage: the file is no package, or damaged; without `verify`: in anything but the values of its weights.
    """
    length = os.fstat(file).st_size - FOOTER.size
    if length <= 0:
        raise DamagedPackage(f"{path} is no package")
    footer = _read(file, FOOTER.size, length)
    magic, code, start, size, told, count, _, digest = FOOTER.unpack(footer)
    if magic != MAGIC and magic.startswith(b"meta.package v"):
        raise DamagedPackage(f"{path} is a package of another version's")
    if magic != MAGIC or code > start or start + size != told or told + count != length:
        raise DamagedPackage(f"{path} is no package, or is cut off")
    library, text = _read(file, code, 0), _read(file, count, told)
    if hashlib.sha256(library + text + footer[:-32]).digest() != digest:
        raise DamagedPackage(f"{path} is damaged: its content is not what its hash says")
    manifest: dict[str, Any] = json.loads(text)
    if verify:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
            places = range(0, size, PIECE)
            found = workers.map(lambda at: _hash(file, min(PIECE, size - at), start + at), places)
            if list(found) != manifest["pieces"]:
                raise DamagedPackage(f"{path} is damaged: its weights are not what their hashes say")
    return PackageFile(library, manifest, hashlib.sha256(library).digest())


def _hash(file: int, length: int, at: int) -> str:
    return hashlib.sha256(_read(file, length, at)).hexdigest()


def _read(file: int, length: int, at: int) -> bytes:
    parts = []
    while length:
        part = os.pread(file, length, at)
        if not part:
            break  # the hash tells
        parts.append(part)
        length, at = length - len(part), at + len(part)
    return b"".join(parts)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
