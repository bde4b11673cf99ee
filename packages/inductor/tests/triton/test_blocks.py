"""Blocks by the heuristics: what was the fastest, or within some hundredths of it, on an H100."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductor.triton.blocks import Nature, choose, of_any_size, programs, walking
from inductor.triton.tiles import Tile

SUM, NORM = 1, 3
"""Walks over a row."""


@pytest.mark.parametrize(
    ("outer", "inner", "passes", "width", "x", "r", "warps", "persistent"),
    [
        (50432, 384, NORM, 2, 4, 512, 4, True),
        (16384, 1024, NORM, 2, 2, 1024, 4, True),
        (75648, 197, NORM, 2, 2, 256, 1, True),  # rows that begin anywhere
        (75648, 197, NORM, 4, 2, 256, 1, True),
        (262144, 64, NORM, 2, 32, 64, 4, True),
        (8192, 4096, NORM, 2, 1, 4096, 8, True),
        (4096, 8192, NORM, 2, 1, 8192, 16, True),
        (4096, 14336, SUM, 2, 1, 16384, 16, True),
        (4096, 14336, NORM, 2, 1, 8192, 8, False),
        (4096, 30522, SUM, 2, 1, 8192, 8, False),
        (512, 50176, NORM, 2, 1, 16384, 16, False),  # few rows at a time: the cache has them when they are read again
        (1, 4096, SUM, 8, 1, 4096, 16, True),
        (300, 64, NORM, 4, 8, 64, 1, True),  # few rows: many programs
        (3, 64, NORM, 4, 4, 64, 1, True),
        (None, 64, NORM, 4, 32, 64, 4, True),
        (None, None, NORM, 4, 1, 8192, 8, False),
    ],
)
def test_rows(
    outer: int | None, inner: int | None, passes: int, width: int, x: int, r: int, warps: int, persistent: bool
) -> None:
    blocks = choose(outer, inner, Nature(passes, width), 1 << 20)
    assert (blocks.x, blocks.r, blocks.warps, blocks.persistent) == (x, r, warps, persistent)


@pytest.mark.parametrize(("width", "x"), [(1, 2048), (2, 2048), (4, 1024), (8, 1024)])
def test_points_of_small_elements_are_more(width: int, x: int) -> None:
    blocks = choose(1 << 24, 1, Nature(0, width), 1 << 24)
    assert (blocks.x, blocks.warps) == (x, 4)


def test_columns() -> None:
    blocks = choose(4096 * 8, 2048, Nature(SUM, 2, Tile(0)), 1 << 24, (4096, None))
    assert (blocks.x, blocks.r, blocks.warps, blocks.stages) == (64, 64, 4, 1)


@pytest.mark.parametrize(("columns", "x", "warps"), [(1024, 16, 4), (128, 8, 4), (4096, 32, 4)])
def test_few_columns_have_many_programs(columns: int, x: int, warps: int) -> None:
    blocks = choose(columns, 256, Nature(SUM, 4, Tile(0)), 1 << 20, (columns, None))
    assert (blocks.x, blocks.warps) == (x, warps)


@pytest.mark.parametrize(
    ("rows", "inner", "read", "totals", "x", "warps", "stages"),
    [
        (64, 1024, 4, 2, 2, 4, 4),
        (64, 768, 12, 3, 2, 4, 4),
        (16, 8192, 8, 2, 1, 16, 1),
        (64, 60, 4, 1, 32, 4, 4),
        (64, 1024, 4, 8, 2, 8, 4),
        (64, 1024, 4, 6, 2, 8, 4),
        (64, 2048, 4, 13, 1, 16, 4),
    ],
)
def test_rows_that_a_program_walks_through(
    rows: int, inner: int, read: int, totals: int, x: int, warps: int, stages: int
) -> None:
    """They are read ahead as far as there is memory for them."""
    blocks = walking(rows, inner, Nature(NORM, 2, read=read, walks=(1,), totals=totals), 1 << 24)
    assert (blocks.x, blocks.warps, blocks.stages, blocks.walks) == (x, warps, stages, (1,))
    assert programs((256, rows), blocks) == 256


@pytest.mark.parametrize(
    ("inner", "read", "r", "stages"), [(2048, 2, 32, 4), (2048, 4, 32, 3), (2048, 8, 64, 1), (64, 4, 64, 1)]
)
def test_long_columns_are_read_ahead(inner: int, read: int, r: int, stages: int) -> None:
    """As far as there is memory for it."""
    blocks = choose(4096 * 8, inner, Nature(SUM, 2, Tile(0), read=read), 1 << 24, (4096, None))
    assert (blocks.x, blocks.r, blocks.warps, blocks.stages) == (64, r, 4, stages)
    assert of_any_size(blocks).stages == 1


@pytest.mark.parametrize(
    ("outer", "inner", "width", "x", "warps"), [(12544, 512, 2, 32, 8), (12544, 2048, 4, 8, 8), (8, 512, 2, 8, 2)]
)
def test_rows_that_are_turned_lie_side_by_side(outer: int, inner: int, width: int, x: int, warps: int) -> None:
    blocks = choose(outer, inner, Nature(NORM, width, turned=True), 1 << 24)
    assert (blocks.x, blocks.warps) == (x, warps)


def test_positions_are_found_by_few_threads() -> None:
    assert choose(4096, 8192, Nature(SUM, 2, finds=True), 1 << 26).warps == 4


SIZES = st.one_of(st.none(), st.integers(1, 1 << 24))


@given(
    outer=SIZES,
    inner=st.integers(1, 1 << 20),
    passes=st.integers(0, 4),
    width=st.sampled_from([1, 2, 4, 8]),
    tiled=st.booleans(),
    part=st.sampled_from([0, 1024, 2048, 4096, 8192]),
    read=st.integers(0, 64),
    totals=st.integers(1, 40),
    turned=st.booleans(),
    finds=st.booleans(),
)
def test_blocks_and_warps_are_powers_of_two(
    outer: int | None,
    inner: int,
    passes: int,
    width: int,
    tiled: bool,
    part: int,
    read: int,
    totals: int,
    turned: bool,
    finds: bool,
) -> None:
    """The compiler refuses others."""
    nature = Nature(passes, width, Tile(0) if tiled else None, part, read, turned, finds=finds)
    chosen = choose(outer, inner, nature, 1 << 24, (outer, None))
    kept = walking(outer, inner, Nature(passes, width, read=read, walks=(1,), totals=totals), 1 << 24)
    for blocks in (chosen, of_any_size(chosen), kept):
        assert all(value & (value - 1) == 0 < value for value in (blocks.x, blocks.r, blocks.warps)), blocks
