"""Random programs of views and of arithmetic with positions, compiled, give what plain ones give: by C++ kernels and by Triton's.

`FUZZ_EXAMPLES=10000 FUZZ_SEED=7` runs half as many programs, others. On a GPU
`TRITON_INTERPRET=0 pytest tests_integration/test_random_indices.py` runs them there as well.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch

import inductor
import meta
from tests_integration.random_indices.compared import failures
from tests_integration.random_indices.programs import drawn

PROGRAMS = 20
"""In one function: a compiler of C++ takes longer to begin than for one of them."""
#: How many programs in all, in how many tests, from which seed; `nox -s fuzz` asks for more.
EXAMPLES, SHARDS, SEED = (
    int(os.environ.get(f"FUZZ_{name}", usual)) for name, usual in (("EXAMPLES", 200), ("SHARDS", 2), ("SEED", 0))
)
BATCHES = max(EXAMPLES // PROGRAMS // 2, SHARDS)


def compiled(dynamic: bool | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles with sizes that are numbers, or are not."""

    def compiling(function: Callable[..., Any]) -> Callable[..., Any]:
        meta.reset()
        return meta.compile(function, dynamic=dynamic)

    return compiling


def run(batch: str, device: str = "cpu", *, count: int = PROGRAMS, dynamic: bool | None = None) -> None:
    random = Random(f"{SEED} {batch}")
    programs, dynamic = [drawn(random) for _ in range(count)], dynamic or random.choice((None, None, True))
    if not dynamic:  # other sizes would be other kernels
        programs = [replace(program, others=()) for program in programs]
    found = failures(programs, compiled(dynamic), device)
    told = "\n".join(f"{'several together' if program is None else program}\n{how}" for program, how in found)
    assert not found, f"batch {batch}:\n{told}"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_kernels_of_c(shard: int) -> None:
    for batch in range(shard, BATCHES, SHARDS):
        run(str(batch))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_sizes_that_vary(shard: int) -> None:
    """By the interpreter of loops, which needs no compiler."""
    before = inductor.backend_for(torch.device("cpu"))
    inductor.register_backend(inductor.ReferenceBackend("cpu"))
    try:
        for batch in range(shard, 2 * BATCHES, SHARDS):
            run(f"varying {batch}", count=6, dynamic=True)
    finally:
        inductor.register_backend(before)


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
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    add, ones = InterpreterBuilder.create_atomic_rmw, InterpreterBuilder.get_all_ones_value

    def add_what_lies_in_order(self: Any, op: Any, ptr: Any, val: Any, *rest: Any) -> Any:
        # Of one number for many places the interpreter reads what lies behind it.
        val.data = numpy.ascontiguousarray(val.data)
        return add(self, op, ptr, val, *rest)

    def ones_of_bytes(self: Any, kind: Any) -> Any:
        # It asks for -1, which bytes without a sign have none of.
        return (
            TensorHandle(numpy.array([255], numpy.uint8), kind.scalar)
            if str(kind.scalar) == "uint8"
            else ones(self, kind)
        )

    before = inductor.backend_for(torch.device("cpu"))
    InterpreterBuilder.create_atomic_rmw = add_what_lies_in_order
    InterpreterBuilder.get_all_ones_value = ones_of_bytes
    inductor.register_backend(TritonBackend("cpu"))
    yield
    inductor.register_backend(before)
    InterpreterBuilder.create_atomic_rmw, InterpreterBuilder.get_all_ones_value = add, ones


@pytest.mark.parametrize("shard", range(SHARDS))
def test_kernels_of_triton(interpreted: None, shard: int) -> None:
    for batch in range(shard, max(BATCHES // 4, SHARDS), SHARDS):
        run(f"triton {batch}")


@pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)
@pytest.mark.parametrize("shard", range(8))
def test_kernels_on_a_gpu(shard: int) -> None:
    for batch in range(shard, 2 * BATCHES, 8):
        run(f"cuda {batch}", "cuda")
