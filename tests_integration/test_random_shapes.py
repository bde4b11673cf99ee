"""Random programs over shapes and numbers, compiled, give what plain ones give at every size."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests_integration.random_shapes.compared import failure
from tests_integration.random_shapes.programs import drawn, shrunk

#: How many examples in all, in how many tests, from which seed; `nox -s fuzz` asks for more.
EXAMPLES, SHARDS, SEED = (
    int(os.environ.get(f"FUZZ_{name}", usual)) for name, usual in (("EXAMPLES", 300), ("SHARDS", 2), ("SEED", 0))
)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_shapes(shard: int) -> None:
    for at in range(EXAMPLES // SHARDS):
        example = drawn(Random(f"{SEED} {shard} {at}"))
        if failure(example) is not None:
            small = shrunk(example, lambda one: failure(one) is not None)
            pytest.fail(f"example {at}, shrunk:\n{small}\n{failure(small)}")
