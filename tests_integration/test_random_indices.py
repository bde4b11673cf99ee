"""Random programs of views and of arithmetic with positions, compiled, give what plain ones give: by C++ kernels and by Triton's.

`INDICES_BATCHES=500 INDICES_SEED=7` runs as many functions, of twenty programs each, from another seed. On a GPU
`TRITON_INTERPRET=0 pytest tests_integration/test_random_indices.py` runs them there as well.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import torch

import inductor
import meta
from tests_integration.random_indices.compared import failures
from tests_integration.random_indices.programs import drawn

BATCHES, SEED = (int(os.environ.get(f"INDICES_{name}", usual)) for name, usual in (("BATCHES", 8), ("SEED", 0)))
PROGRAMS = 20
"""In one function: a compiler of C++ takes longer to begin than for one of them."""


def compiled(random: Random) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles with sizes that are numbers, or are not."""
    dynamic = random.choice((None, None, True))

    def compiling(function: Callable[..., Any]) -> Callable[..., Any]:
        meta.reset()
        return meta.compile(function, dynamic=dynamic)

    return compiling


def run(batch: str, device: str = "cpu") -> None:
    random = Random(f"{SEED} {batch}")
    programs = [drawn(random) for _ in range(PROGRAMS)]
    found = failures(programs, compiled(random), device)
    told = "\n".join(f"{'several together' if program is None else program}\n{how}" for program, how in found)
    assert not found, f"batch {batch}:\n{told}"


@pytest.mark.parametrize("shard", range(2))
def test_kernels_of_c(shard: int) -> None:
    for batch in range(shard, BATCHES, 2):
        run(str(batch))


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Triton's interpreter runs all kernels of the processor."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed in this environment")
    from triton import knobs

    from inductor.triton import TritonBackend

    if not knobs.runtime.interpret:
        pytest.skip("Triton's compiler is in force")
    import numpy
    from triton.runtime.interpreter import InterpreterBuilder

    add = InterpreterBuilder.create_atomic_rmw

    def add_what_lies_in_order(self: Any, op: Any, ptr: Any, val: Any, *rest: Any) -> Any:
        # Of one number for many places the interpreter reads what lies behind it.
        val.data = numpy.ascontiguousarray(val.data)
        return add(self, op, ptr, val, *rest)

    before = inductor.backend_for(torch.device("cpu"))
    InterpreterBuilder.create_atomic_rmw = add_what_lies_in_order
    inductor.register_backend(TritonBackend("cpu"))
    yield
    inductor.register_backend(before)
    InterpreterBuilder.create_atomic_rmw = add


@pytest.mark.parametrize("shard", range(2))
def test_kernels_of_triton(interpreted: None, shard: int) -> None:
    for batch in range(shard, max(BATCHES // 4, 2), 2):
        run(f"triton {batch}")


@pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)
@pytest.mark.parametrize("shard", range(8))
def test_kernels_on_a_gpu(shard: int) -> None:
    for batch in range(shard, 2 * BATCHES, 8):
        run(f"cuda {batch}", "cuda")
