"""NumPy's random numbers in a captured frame: drawn for real, one break each, numbers and states as eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import capture

PROGRAMS: dict[str, Callable[..., Any]] = {
    "number": lambda x, g, r: x * np.random.rand(),
    "array": lambda x, g, r: x + torch.from_numpy(np.random.rand(3)),
    "integer": lambda x, g, r: x * np.random.randint(0, 10),
    "generator": lambda x, g, r: x * g.random(),
    "array of a generator": lambda x, g, r: x + torch.from_numpy(g.standard_normal(3)),
    "state of its own": lambda x, g, r: x * r.uniform(-1, 1),
    "order": lambda x, g, r: x[torch.from_numpy(np.random.permutation(3))],
    "choice": lambda x, g, r: x * np.random.choice([1, 2, 3]),
    "arguments that draw": lambda x, g, r: x * g.uniform(0, np.random.rand()),
    "decision": lambda x, g, r: x.sin() * np.random.rand() if g.random() > 0.5 else x - 1,
    "seed": lambda x, g, r: (np.random.seed(7), x * np.random.rand())[1],
}
BREAKS = {"arguments that draw": 2, "decision": 2, "seed": 2}


def outcome(run: Callable[..., Any]) -> list[Any]:
    np.random.seed(3)
    generator, state = np.random.default_rng(4), np.random.RandomState(5)
    results = [run(torch.ones(3), generator, state) for _ in range(4)]
    return [*results, np.random.rand(), generator.random(), state.rand()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program = PROGRAMS[name]
    compiled = capture.compile(program)
    expected, found = outcome(program), outcome(compiled)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    seen = capture.explain(program, torch.ones(3), np.random.default_rng(1), np.random.RandomState(2))
    assert seen.break_count <= BREAKS.get(name, 1)
