"""Processes that are killed while they write to the caches: the next one has the right result and clears up after them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, list[str]]]:
    """How many steps there were, and what was wrong."""
    command = [sys.executable, "-m", "tests_integration.killed", str(tmp_path_factory.mktemp("killed"))]
    run = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize(("work", "least"), [("graphs", 40), ("entries", 40), ("mapped", 2)])
def test_killed_at_each_step(found: dict[str, tuple[int, list[str]]], work: str, least: int) -> None:
    """Of a cold compile, and of making, replacing, evicting and removing entries. "mapped": the library of a process that
    goes on is replaced, never written."""
    steps, wrong = found[work]
    assert wrong == [] and steps >= least
