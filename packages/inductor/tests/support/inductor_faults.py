"""Kinds of damage to a file or folder of the cache, for tests that must find it repaired."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

NOBODY = 65534

Damage = Callable[[Path], None]


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _replace_by_link(path: Path) -> None:
    """To a file or folder with the same content, elsewhere."""
    elsewhere = Path(tempfile.mkdtemp(prefix="elsewhere-")) / path.name
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("")


def _replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _replace_by_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("a file")


def _delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


FILE: dict[str, Damage] = {
    "truncated to nothing": lambda path: os.truncate(path, 0),
    "truncated to half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "one bit": _flip,
    "deleted": _delete,
    "garbage": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "link": _replace_by_link,
    "folder": _replace_by_folder,
    "pipe": _replace_by_pipe,
    "writable by all": lambda path: path.chmod(0o666),
}
"""To a file."""

FOLDER: dict[str, Damage] = {
    "deleted": _delete,
    "link": _replace_by_link,
    "file": _replace_by_file,
    "writable by all": lambda path: path.chmod(0o777),
    "emptied": lambda path: [_delete(inside) for inside in path.iterdir()] and None,
}
"""To a folder."""

if os.getuid() == 0:
    FILE["another owner"] = FOLDER["another owner"] = lambda path: os.chown(path, NOBODY, NOBODY)
