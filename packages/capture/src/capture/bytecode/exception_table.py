"""`co_exceptiontable`: runs of code units to (start, end, target, depth, lasti), and back.

The format is CPython's (Objects/exception_handling_notes.txt): five varints an entry, six bits a byte, most
significant first; bit 6 says that more follow, bit 7 marks an entry's first byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class TableEntry(NamedTuple):
    """Code units (2 bytes each): instructions in [start, end) are handled at `target`."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def parse_table(table: bytes) -> list[TableEntry]:
    """All entries in order of `start`."""
    data = iter(table)
    entries = []
    for first in data:
        start = _read(data, first & 0x7F)
        length, target, packed = (_read(data, next(data)) for _ in range(3))
        entries.append(TableEntry(start, start + length, target, packed >> 1, bool(packed & 1)))
    return entries


def write_table(entries: list[TableEntry]) -> bytes:
    """The table's bytes; `entries` must be in order and not overlap."""
    out = bytearray()
    for entry in entries:
        mark = len(out)
        for number in (entry.start, entry.end - entry.start, entry.target, entry.depth << 1 | entry.lasti):
            _write(out, number)
        out[mark] |= 0x80
    return bytes(out)


def _read(data: Iterator[int], byte: int) -> int:
    value = byte & 0x3F
    while byte & 0x40:
        byte = next(data)
        value = value << 6 | byte & 0x3F
    return value


def _write(out: bytearray, number: int) -> None:
    shift = 0
    while number >> (shift + 6):
        shift += 6
    for at in range(shift, -1, -6):
        out.append(number >> at & 0x3F | (0x40 if at else 0))
