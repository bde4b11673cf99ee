"""Random changes between the calls of random programs: captured calls give what plain ones give."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

import capture

FOLDER = pathlib.Path(__file__).parent


def _package(name: str) -> Any:
    """A folder beside this one as a package."""
    folder = FOLDER.parent / name
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


for _name in "changes", "fuzz":
    if _name not in sys.modules:
        _package(_name)
examples, worlds = importlib.import_module("fuzz.examples"), importlib.import_module("fuzz.worlds")

#: How many examples in all, in how many tests, from which seed: `nox -s fuzz` asks for more.
EXAMPLES, SHARDS, SEED = (
    int(os.environ.get(f"FUZZ_{name}", few)) for name, few in (("EXAMPLES", 300), ("SHARDS", 2), ("SEED", 0))
)
KINDS = {"one_state": examples.one_state, "many_modules": examples.many_modules}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_changes(kind: str, shard: int) -> None:
    captured_after = total = 0

    @seed(SEED * 1000 + shard)
    @settings(
        max_examples=EXAMPLES // (SHARDS * len(KINDS)), deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False,
    )  # fmt: skip
    @given(KINDS[kind]())
    def check(example: Any) -> None:
        nonlocal captured_after, total
        plain, captured = worlds.Calls(), worlds.CapturedCalls()
        expected = worlds.run(example, plain)
        got = worlds.run(example, captured)
        capture.reset()
        for step, one, other in zip(("the state", *example.steps), expected, got, strict=True):
            assert one == other, f"{step}\n{worlds.difference(one, other)}"
        total += 1
        captured_after += any(ran for _made, ran in captured.uses[1:])

    check()
    print(f"{captured_after} of {total} ran captured code after a change")
    assert captured_after >= 0.6 * total
