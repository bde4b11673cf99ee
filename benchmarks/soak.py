"""`python -m benchmarks.soak [--calls N] [--rounds N]`: memory over many calls, over many compiles that are dropped, over many
models that are bound to one compile and dropped, and over calls that make new code each time.

Prints the resident memory's growth a call and a round, over the second half of each; exits with 1 where it is not flat, or
where a dropped model's watches stay.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import os
import sys
from collections.abc import Callable
from typing import Any

import psutil
import torch

import capture
import meta
from benchmarks.stored import stored_output
from capture import _native

FLAT_CALL, FLAT_ROUND = 1.0, 1024.0  # bytes of growth that pass for noise of the allocator


def held() -> int:
    """Bytes of resident memory, less what is garbage and what the C allocator keeps for later."""
    while gc.collect():  # what goes may have held other garbage where the collector does not look: in a code's extras
        pass
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process(os.getpid()).memory_info().rss


def growth(act: Callable[[], object], times: int) -> float:
    """Bytes of memory that one `act` adds, after as many that warm up."""
    sizes = []
    for _ in range(2):
        for _ in range(times // 2):
            act()
        sizes.append(held())
    return (sizes[1] - sizes[0]) / (times // 2)


def compile_and_drop(backend: str) -> None:
    """A module of its own, compiled, run and dropped."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    meta.compile(module, backend=backend)(torch.ones(2, 4)).sum().backward()


def encoder(layers: int) -> torch.nn.Module:
    """A transformer encoder, small and deep: its calls are mostly their look-up."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()


def watched_calls(times: int) -> float:
    """Bytes that a call of a 32-layer model adds, of which something that is watched changes now and then."""
    model, x = encoder(32), torch.ones(1, 3, 16)
    compiled = capture.compile(model, stored_output)

    def act() -> None:
        for _ in range(100):
            compiled(x)
        model.layers[7].__dict__["touched"] = object()

    with torch.no_grad():
        return growth(act, times // 100) / 100


def bind_and_drop() -> None:
    """A model that equals one that is compiled already."""
    with torch.no_grad():
        capture.compile(encoder(2), stored_output)(torch.ones(1, 3, 16))


def calling_new_code() -> Callable[[], object]:
    """A compiled function, each of whose calls defines another and calls it."""

    def act(x: torch.Tensor) -> Any:
        names: dict[str, Any] = {}
        exec("def made(x):\n    return x * len([1]) + 1", names)
        return names["made"](x)

    return functools.partial(capture.compile(act, stored_output), torch.ones(4))


def main() -> int:
    """Run all of them, print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    add, x = meta.compile(lambda x: x + 1), torch.ones(4)
    by_call = growth(lambda: add(x), options.calls)
    print(f"{options.calls} calls: {by_call:.3f} bytes a call")
    flat = by_call <= FLAT_CALL
    for backend in ("aot_eager", "inductor"):
        by_round = growth(functools.partial(compile_and_drop, backend), options.rounds)
        print(f"{options.rounds} compiles with {backend} and drops: {by_round:.0f} bytes a round")
        flat = flat and by_round <= FLAT_ROUND
    by_call = watched_calls(options.calls)
    print(f"{options.calls} calls of a 32-layer model: {by_call:.3f} bytes a call")
    x = torch.ones(1, 3, 16)
    kept = capture.compile(encoder(2), stored_output)
    with torch.no_grad():
        kept(x)
    gc.collect()
    before = _native.stats()["watches"]
    by_round = growth(bind_and_drop, options.rounds)
    left = _native.stats()["watches"] - before
    print(f"{options.rounds} models bound and dropped: {by_round:.0f} bytes a round, {left} watches left")
    flat = flat and by_call <= FLAT_CALL and by_round <= FLAT_ROUND and left == 0
    by_round = growth(calling_new_code(), options.rounds)
    print(f"{options.rounds} calls that make new code: {by_round:.0f} bytes a call")
    flat = flat and by_round <= FLAT_ROUND
    return int(not flat)


if __name__ == "__main__":
    sys.exit(main())
