"""`co_linetable`: source positions of runs of code units, in the format of CPython's Objects/locations.md.

Reading is left to `code.co_positions()`; here is only the writing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dis import Positions

_NO_POSITION, _LONG, _NO_COLUMNS, _ONE_LINE = 15, 14, 13, 10
_MOST_UNITS = 8  # one entry speaks of at most so many code units


def write_line_table(runs: Iterable[tuple[int, Positions | None]], first_line: int) -> bytes:
    """`runs` are (code units, position) in order of code; `first_line` is `co_firstlineno`."""
    out = bytearray()
    line = first_line
    for units, position in runs:
        while units > 0:
            taken = min(units, _MOST_UNITS)
            line = _write_entry(out, taken, position, line)
            units -= taken
    return bytes(out)


def _write_entry(out: bytearray, units: int, position: Positions | None, line: int) -> int:
    """Append one entry; the line that the next entry's difference counts from."""

    def head(kind: int) -> None:
        out.append(0x80 | kind << 3 | units - 1)

    if position is None or position.lineno is None:
        head(_NO_POSITION)
        return line
    start, end = position.lineno, position.end_lineno
    column, end_column = position.col_offset, position.end_col_offset
    delta = start - line
    if end is None or column is None or end_column is None:
        # The short form has no room for an end line: it means "the same line".
        head(_NO_COLUMNS)
        _signed(out, delta)
    elif start == end and delta == 0 and column < 80 and 0 <= end_column - column < 16:
        head(column >> 3)
        out.append((column & 7) << 4 | end_column - column)
    elif start == end and 0 <= delta < 3 and column < 128 and end_column < 128:
        head(_ONE_LINE + delta)
        out += bytes((column, end_column))
    else:
        head(_LONG)
        _signed(out, delta)
        _unsigned(out, end - start)
        _unsigned(out, column + 1)
        _unsigned(out, end_column + 1)
    return start


def _unsigned(out: bytearray, number: int) -> None:
    while number >= 64:
        out.append(0x40 | number & 0x3F)
        number >>= 6
    out.append(number)


def _signed(out: bytearray, number: int) -> None:
    _unsigned(out, -number << 1 | 1 if number < 0 else number << 1)
