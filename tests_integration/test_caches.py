"""What is kept between calls and between processes: never used where it would be wrong, and nothing once it is dropped."""

from __future__ import annotations

import gc
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import capture
import meta
from inductor import CompiledGraph


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path))
    return tmp_path


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def deterministic(**options: bool) -> Iterator[None]:
    torch.use_deterministic_algorithms(True, **options)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def compiled_with_record(fn, **options) -> tuple:
    """The compiled function, and where each of its graphs came from."""
    graphs: list[CompiledGraph] = []

    def backend(module, inputs):
        return meta.backends.inductor(module, inputs, on_compiled=graphs.append)

    return capture.compile(fn, backend, **options), graphs


def halves(x: torch.Tensor) -> torch.Tensor:
    return (x / 2 > 2.0**24) | (torch.arange(0, 2, 0.5).sum() + x > 2.0**24 + 1)


def above(x: torch.Tensor) -> torch.Tensor:
    """The same graph whatever the default dtype: in which it compares integers with a float."""
    return x > 2.0**24


X = torch.tensor([2**25 + 1, 2**24 - 2, 2**24 + 1])


def test_the_default_dtype_may_change_between_calls(folder: Path) -> None:
    run = meta.compile(halves)
    for dtype in (torch.float32, torch.float64, torch.float32):
        with default_dtype(dtype):
            assert torch.equal(run(X), halves(X)), dtype


def test_graphs_stored_under_another_default_dtype(folder: Path) -> None:
    seen = []
    for dtype in (torch.float32, torch.float64, torch.float32):
        meta.reset()
        with default_dtype(dtype):
            run, graphs = compiled_with_record(above)
            assert torch.equal(run(X), above(X)), dtype
        seen.append({graph.stats.cache for graph in graphs})
    assert seen == [{"miss"}, {"miss"}, {"hit"}]


def test_deterministic_mode_may_change_between_calls(folder: Path) -> None:
    def added(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.zeros(4).index_add(0, index, x)

    x, index = torch.randn(64), torch.randint(0, 4, (64,))
    run, graphs = compiled_with_record(added)
    run(x, index)
    count = len(graphs)
    with deterministic():
        torch.testing.assert_close(run(x, index), added(x, index))
        assert len(graphs) > count, "what was compiled without does not serve"
        count = len(graphs)
        run(x, index)
        assert len(graphs) == count
    run(x, index)
    assert len(graphs) == count


def test_quotients_of_sizes_are_stored(folder: Path) -> None:
    """A mean over a symbolic batch divides by a size: the graph is stored, and found by the next process."""
    layer = torch.nn.BatchNorm1d(3)

    def normalized(x: torch.Tensor) -> torch.Tensor:
        return layer(x) * (x.shape[0] / 3)

    x = torch.randn(6, 3)
    expected = normalized(x).detach()
    seen = []
    for _ in range(2):
        meta.reset()
        run, graphs = compiled_with_record(normalized, dynamic=True)
        torch.testing.assert_close(run(x).detach(), expected)
        seen.append({graph.stats.cache for graph in graphs})
    assert seen == [{"miss"}, {"hit"}]


def _mapped(folder: Path) -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if str(folder) in line and not line.endswith("launcher.so")}


def _generated() -> set[str]:
    return {name for name in linecache.cache if name.startswith("<") or "inductor" in name or "wrapper" in name}


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_nothing_is_left_of_what_is_dropped(folder: Path, training: bool) -> None:
    """No shared object stays mapped, no generated text in `linecache`: after the last reference, and after `reset`."""
    before = _generated()

    def compiled_once(k: int) -> None:
        layer = torch.nn.Linear(4, 3 + k).requires_grad_(training)
        run = meta.compile(lambda x: torch.relu(layer(x)) * (k + 1))
        x = torch.randn(2, 4)
        result = run(x)
        torch.testing.assert_close(result, torch.relu(layer(x)) * (k + 1))
        if training:
            result.sum().backward()

    for k in range(3):
        compiled_once(k)
    meta.reset()
    gc.collect()
    assert _mapped(folder) == set()
    assert _generated() - before == set()


def test_reset_unmaps_what_a_living_function_had(folder: Path) -> None:
    before = _generated()
    run = meta.compile(lambda x: torch.sin(x) * 3)
    x = torch.randn(5)
    run(x)
    assert _mapped(folder)
    meta.reset()
    gc.collect()
    assert _mapped(folder) == set()
    assert _generated() - before == set()
    torch.testing.assert_close(run(x), torch.sin(x) * 3)
