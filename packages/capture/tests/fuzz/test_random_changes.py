"""Random changes between the calls of random programs: captured calls give what plain ones give."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

import capture
from fuzz import examples, found, worlds

#: How many examples in all, in how many tests of each kind, from which seed; `nox -s fuzz` asks for more.
EXAMPLES, SHARDS, SEED = (
    int(os.environ.get(f"FUZZ_{name}", usual)) for name, usual in (("EXAMPLES", 300), ("SHARDS", 2), ("SEED", 0))
)
KINDS = {"one_state": examples.one_state, "many_modules": examples.many_modules}


def compare(example: Any) -> Any:
    """Run an example both ways; how the captured calls went."""
    plain, captured = worlds.Calls(), worlds.CapturedCalls()
    expected = worlds.run(example, plain)
    got = worlds.run(example, captured)
    capture.reset()
    for step, one, other in zip(("the state", *example.steps), expected, got, strict=True):
        assert one == other, f"{step}\n{worlds.difference(one, other)}"
    return captured


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_changes(kind: str, shard: int) -> None:
    after_a_change: list[bool] = []

    @seed(SEED * 1000 + shard)
    @settings(
        max_examples=EXAMPLES // (SHARDS * len(KINDS)), deadline=None, database=None, print_blob=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(KINDS[kind]())
    def check(example: Any) -> None:
        captured = compare(example)
        after_a_change.append(any(ran for _made, ran in captured.uses[1:]))

    check()
    # The others raise before anything is computed, or run within a mode that leaves them to the interpreter.
    assert sum(after_a_change) >= 0.5 * len(after_a_change), "too few ran captured code after a change"


@pytest.mark.parametrize("name", found.FOUND)
def test_what_was_found(name: str) -> None:
    world, steps = found.FOUND[name]
    captured = compare(examples.Example(world, steps))
    assert not worlds.raising(captured.records)
