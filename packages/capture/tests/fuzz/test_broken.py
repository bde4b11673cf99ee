"""Random programs of functions that call each other do captured what they do eagerly, with breaks anywhere in them."""

from __future__ import annotations

import os

import pytest

from fuzz import broken

PROGRAMS, SEED = (int(os.environ.get(f"FUZZ_{name}", usual)) for name, usual in (("EXAMPLES", 300), ("SEED", 0)))


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
@pytest.mark.parametrize("shard", range(2))
def test_random_program_with_breaks_in_calls(shard: int) -> None:
    count = PROGRAMS // 6
    for number in range(count):
        seed = 100_000 * SEED + count * shard + number
        found = broken.difference(broken.Writer(seed).program(), seed)
        assert found is None, found
