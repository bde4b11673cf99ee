"""A package's file: a shared object, behind it the weights, a manifest in JSON and a footer. Nothing of it is pickled.

    ELF | zeros to the next page | weights | manifest | footer

Flows in: the parts. Flows out: the file; and from a file, verified, its manifest.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MAGIC = b"meta.package v1\n"
FOOTER = struct.Struct("<16s4Q32s")
"""Magic, where the weights begin and their length, the same of the manifest, and the SHA-256 of all before. The C runtime of
packages reads it, too."""

_PAGE = 1 << 16
"""Weights are mapped, which begins at pages: of 64 KiB on some machines."""


class DamagedPackage(ValueError):
    """A file is no package, or not as it was written."""


def write_package(path: Path, library: bytes, weights: Iterable[tuple[int, bytes]], manifest: dict[str, Any]) -> None:
    """Write a package; it appears whole or not at all.

    Args:
        weights: in rising order where each begins, counted from the first, and its bytes.
    """
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            at = 0

            def put(content: bytes) -> None:
                nonlocal at
                file.write(content)
                digest.update(content)
                at += len(content)

            put(library)
            put(bytes(-at % _PAGE))
            start = at
            for place, content in weights:
                put(bytes(start + place - at))
                put(content)
            size = at - start
            text = json.dumps(manifest, separators=(",", ":")).encode()
            told = at
            put(text)
            head = FOOTER.pack(MAGIC, start, size, told, len(text), b"")[:-32]
            digest.update(head)
            file.write(head + digest.digest())
            file.close()
            os.chmod(file.name, 0o755 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def read_manifest(path: Path, verify: bool) -> dict[str, Any]:
    """The manifest of a package.

    Args:
        verify: compare the whole file with its hash.

    Raises:
        DamagedPackage: the file is no package, or damaged.
    """
    with path.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        if length <= FOOTER.size:
            raise DamagedPackage(f"{path} is no package")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            magic, start, size, told, count, digest = FOOTER.unpack(content[-FOOTER.size :])
            if magic != MAGIC or told + count + FOOTER.size != length or start + size != told:
                raise DamagedPackage(f"{path} is no package, or is cut off")
            if verify:
                with memoryview(content) as whole, whole[:-32] as hashed:
                    if hashlib.sha256(hashed).digest() != digest:
                        raise DamagedPackage(f"{path} is damaged: its content is not what its hash says")
            manifest: dict[str, Any] = json.loads(content[told : told + count])
            return manifest


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
