"""The written-out programs do captured what they do eagerly, wherever they break."""

from __future__ import annotations

import os
import random

import pytest

from fuzz.interrupted import FILES, difference, interrupted

EXAMPLES, SEED = (int(os.environ.get(f"FUZZ_{name}", usual)) for name, usual in (("EXAMPLES", 300), ("SEED", 0)))
ROUNDS = EXAMPLES // 800
"""How often all of them are run; with fewer examples a part of each file's is, once."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file", FILES)
def test_interrupted_anywhere(file: str) -> None:
    draw = random.Random(f"{file} {SEED}")
    for _ in range(max(1, ROUNDS)):
        made = interrupted(file, draw, rate=draw.choice((0.1, 0.3, 0.6)))
        for fn in made if ROUNDS else draw.sample(made, min(5, len(made))):
            found = difference(fn)
            assert found is None, found
