"""Compiled graphs on disk: what makes a hit, what makes a miss, and damaged entries."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from inductor_tracing import trace

from inductor import CompiledGraph, Options, ReferenceBackend, compile_graph, load_stored, register_backend
from inductor import device as device_module


@pytest.fixture(autouse=True)
def reference_backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(device_module, "_registered", {})
    register_backend(ReferenceBackend())
    yield


def compiled(function, *inputs, folder: Path, **options) -> CompiledGraph:
    graph, _ = trace(function, *inputs)
    return compile_graph(graph, inputs, Options(cache_dir=str(folder), **options))


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, x) * 2 + x.sum(-1)


X = torch.randn(4, 4)


def test_second_compile_is_a_hit_and_skips_the_phases(tmp_path: Path) -> None:
    first = compiled(scaled, X, folder=tmp_path)
    second = compiled(scaled, X, folder=tmp_path)
    assert (first.stats.cache, second.stats.cache) == ("miss", "hit")
    assert {"lower", "schedule", "emit"} <= first.stats.seconds.keys()
    assert {"lower", "schedule", "emit"}.isdisjoint(second.stats.seconds)
    assert first.source == second.source and first.kernels == second.kernels
    assert first.stats.launches == second.stats.launches > 0
    for graph in (first, second):
        for _ in range(2):
            torch.testing.assert_close(graph([X])[0], scaled(X))


@pytest.mark.parametrize(
    ("function", "inputs", "options"),
    [
        (lambda x: torch.mm(x, x) * 3 + x.sum(-1), (X,), {}),
        (lambda x: torch.mm(x, x) * -0.0 + x.sum(-1), (X,), {}),
        (scaled, (X.t(),), {}),
        (scaled, (X.double(),), {}),
        (scaled, (torch.randn(5, 5),), {}),
        (scaled, (X,), {"fuse": False}),
    ],
)
def test_misses(tmp_path: Path, function, inputs, options) -> None:
    compiled(scaled, X, folder=tmp_path)
    compiled(lambda x: torch.mm(x, x) * 0.0 + x.sum(-1), X, folder=tmp_path)
    other = compiled(function, *inputs, folder=tmp_path, **options)
    assert other.stats.cache == "miss"
    torch.testing.assert_close(other(list(inputs))[0], function(*inputs))


def test_constants_are_part_of_the_key(tmp_path: Path) -> None:
    graphs = [
        compiled(lambda x, c=c: x + c, X, folder=tmp_path) for c in (torch.ones(4), torch.ones(4), torch.zeros(4))
    ]
    assert [g.stats.cache for g in graphs] == ["miss", "hit", "miss"]
    torch.testing.assert_close(graphs[1]([X])[0], X + 1)
    torch.testing.assert_close(graphs[2]([X])[0], X)


def test_a_stored_graph_uses_the_constants_it_is_given(tmp_path: Path) -> None:
    constant = torch.ones(4)
    compiled(lambda x: x + constant, X, folder=tmp_path)
    again = compiled(lambda x: x + constant, X, folder=tmp_path)
    assert again.stats.cache == "hit"
    constant.mul_(3)
    torch.testing.assert_close(again([X])[0], X + 3)


def test_a_damaged_entry_is_made_again(tmp_path: Path) -> None:
    first = compiled(scaled, X, folder=tmp_path)
    assert first.wrapper_path is not None
    (first.wrapper_path.parent / "parts.pickle").write_bytes(b"nonsense")
    second = compiled(scaled, X, folder=tmp_path)
    assert second.stats.cache == "miss"
    torch.testing.assert_close(second([X])[0], scaled(X))
    assert compiled(scaled, X, folder=tmp_path).stats.cache == "hit"


def test_files_are_there_to_read(tmp_path: Path) -> None:
    graph = compiled(scaled, X, folder=tmp_path)
    assert graph.wrapper_path is not None and graph.kernel_path is not None
    assert graph.wrapper_path.read_text() == graph.source
    assert graph.kernel_path.read_text() == graph.kernel_source
    again = load_stored(graph.wrapper_path.parent)
    torch.testing.assert_close(again([X])[0], scaled(X))
    with pytest.raises(FileNotFoundError):
        load_stored(tmp_path / "nowhere")


def test_given_backends_are_not_cached(tmp_path: Path) -> None:
    graph, _ = trace(scaled, X)
    result = compile_graph(graph, [X], Options(cache_dir=str(tmp_path)), backends={"cpu": ReferenceBackend()})
    assert result.stats.cache == "off" and result.wrapper_path is None
    torch.testing.assert_close(result([X])[0], scaled(X))
