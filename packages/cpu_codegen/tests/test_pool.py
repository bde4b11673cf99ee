"""Memory that is kept from call to call: pooled tensors do not overlap while they live, and what dies is taken again."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
from collections.abc import Iterator

import pytest
import torch

from cpu_codegen import launcher
from cpu_codegen.launcher import POOLED, in_the_pool, pool

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool)
LARGE = POOLED // 8
"""Elements that are enough of any dtype when they are eight times as many."""


@pytest.fixture(autouse=True)
def given_back() -> Iterator[None]:
    """All that a test takes dies with it."""
    gc.collect()
    in_the_pool()
    before = pool()[0]
    yield
    gc.collect()
    assert pool()[0] == before


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts_are_those_asked_for(dtype: torch.dtype) -> None:
    size, stride = (2, 1, 512, 1024), (1 << 20, 7, 1, 1024)
    made = in_the_pool()(size, stride, dtype)
    assert (tuple(made.shape), made.stride(), made.dtype, made.device.type) == (size, stride, dtype, "cpu")
    assert made.storage_offset() == 0 and not made.requires_grad
    assert made.data_ptr() % 64 == 0
    made.fill_(1)
    assert made.to(torch.float64).sum().item() == 1 << 20
    assert pool()[0] >= (1 << 20) * dtype.itemsize


def test_what_dies_is_taken_again() -> None:
    pooled = in_the_pool()
    first = pooled((8 * LARGE,), (1,), torch.float32)
    place, space = first.data_ptr(), pool()[2]
    part = first[5:]
    del first
    second = pooled((8 * LARGE,), (1,), torch.float32)
    assert second.data_ptr() != place, "a view of it is alive"
    del part
    third = pooled((2 * LARGE, 4), (4, 1), torch.float32)
    assert third.data_ptr() == place
    assert pool()[2] == space


def test_what_is_small_or_empty_or_strange_is_torchs_own() -> None:
    pooled, used = in_the_pool(), pool()[0]
    made = [
        pooled((16,), (1,), torch.float32),
        pooled((), (), torch.float32),
        pooled((0, 8 * LARGE), (8 * LARGE, 1), torch.float32),
        pooled((8 * LARGE,), (1,), torch.float8_e4m3fn),
    ]
    assert pool()[0] == used
    assert all(tensor.untyped_storage().resizable() for tensor in made)
    assert [tuple(tensor.shape) for tensor in made] == [(16,), (), (0, 8 * LARGE), (8 * LARGE,)]
    # One element at many places is no more than it.
    assert pooled((8 * LARGE,), (0,), torch.float32).untyped_storage().nbytes() == 4
    with pytest.raises((RuntimeError, MemoryError)):
        pooled((1 << 62,), (1,), torch.float32)
    with pytest.raises(TypeError):
        pooled((1 << 62,), (1, 1), torch.float32)
    with pytest.raises(OverflowError):
        pooled((1 << 80,), (1,), torch.float32)


def _churn(seed: int, rounds: int) -> None:
    """Take and drop at random; each tensor holds its own number everywhere as long as it lives."""
    pooled, draw = in_the_pool(), random.Random(seed)
    alive: dict[int, torch.Tensor] = {}
    for number in range(rounds):
        if alive and draw.random() < 0.5:
            key = draw.choice(list(alive))
            assert torch.all(alive.pop(key) == key)
        key = seed * rounds + number
        alive[key] = pooled((draw.randrange(LARGE, 24 * LARGE),), (1,), torch.float64).fill_(key)
        if len(alive) > 12:
            oldest = min(alive)
            assert torch.all(alive.pop(oldest) == oldest)
    for key, tensor in alive.items():
        assert torch.all(tensor == key)


def test_tensors_do_not_overlap() -> None:
    _churn(1, 200)
    _, stretches, _ = pool()
    assert stretches <= 4, "what lies side by side is one"


def test_threads() -> None:
    failed: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            _churn(seed, 60)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(2, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_its_own() -> None:
    launcher._loaded.cache_clear()  # loaded twice, it still waits for itself at no fork
    pooled = in_the_pool()
    before = pooled((8 * LARGE,), (1,), torch.float32).fill_(3)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        torch.set_num_threads(1)  # OpenMP's threads are the parent's alone
        mine = pooled((8 * LARGE,), (1,), torch.float32).fill_(4)
        right = mine.data_ptr() != before.data_ptr() and bool((before == 3).all())
        before.fill_(5)
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.all(before == 3)
