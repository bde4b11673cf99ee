"""What `benchmarks.solving` counts as symbolic reasoning."""

from __future__ import annotations

import symshapes
from benchmarks.__main__ import against_static
from benchmarks.measure import Row, Sample
from benchmarks.solving import RATE, Sampler, counted, is_symbolic, profiled

STEP = "main (/r/benchmarks/solving.py:1);first_step.<locals>.taken (/r/benchmarks/solving.py:9)"


def test_stacks_of_the_step_are_counted_by_what_they_hold():
    found = counted(
        [
            "main (/r/benchmarks/solving.py:1);import (/p/sympy/core/add.py:1) 50",
            f"{STEP};call (/r/capture/hook.py:1) 30",
            f"{STEP};rule (/r/symshapes/rules/views.py:1);SymNode.add (/r/symshapes/node.py:1);f (/r/other.py:1) 10",
        ]
    )
    assert found["total"] == 40 / RATE and found["symbolic"] == 10 / RATE
    assert found["entries"] == {"rules/views.py:rule -> symshapes/node.py:add": 10 / RATE}


def test_the_files_of_symbolic_reasoning_are_there():
    assert is_symbolic(symshapes.ShapeEnv.evaluate.__code__.co_filename)
    assert is_symbolic(symshapes.simplify_with_ranges.__code__.co_filename)
    assert not is_symbolic(symshapes.FakeMode.dispatch.__code__.co_filename)


def test_instruments_see_what_runs():
    def reason() -> None:
        env = symshapes.ShapeEnv()
        size = env.create_size(7, "x.size(0)", symshapes.DimPolicy.DYNAMIC)
        for number in range(300):
            bool(size * number > number)

    sampler = Sampler()
    with sampler.running():
        reason()
    assert 0 < sampler.found["outright"] <= sampler.found["symbolic"] <= sampler.found["total"]
    total, symbolic = profiled(reason)
    assert 0 < symbolic <= total


def test_dynamic_is_compared_with_static():
    def row(workload: str, contender: str, seconds: float) -> Row:
        return Row(workload, contender, False, step=Sample.of([seconds, seconds + 1, seconds + 1]))

    rows = [row("a", "ours", 1.0), row("a", "dynamic", 2.0), row("b", "ours", 2.0), row("b", "dynamic", 1.0)]
    said = against_static(rows)
    assert said == (
        "dynamic to static, geometric mean of 2: step 1.000, worst 1.50 (a); fastest step 1.000, worst 2.00 (a)"
    )
