"""`Options.autotune`: what is left to the library is what was faster when it was timed, and nothing but that is changed by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import inductor.rivals
from aotgrad import core_decompositions, trace_inference
from inductor import CompiledGraph, Options, compile_graph
from inductor.rivals import Figures


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float, float], list[int]]]:
    """Called with what timing is to find, it gives a list that grows by one for each region that is timed."""

    def finds(own: float, library: float) -> list[int]:
        regions: list[int] = []
        measure = inductor.rivals._timed

        def found(*args: object) -> Figures:
            figures = measure(*args)  # type: ignore[arg-type]
            assert figures.own > 0 and figures.library > 0
            regions.append(1)
            return Figures(own, library)

        monkeypatch.setattr(inductor.rivals, "_timed", found)
        return regions

    monkeypatch.setattr(inductor.rivals, "SECONDS", 0.0)
    yield finds


def two_layers(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
    x = torch.relu(x @ w) + x
    return (torch.relu(x @ w) + x,)


def compiled(fn: Callable[..., object], inputs: list[torch.Tensor], options: Options) -> CompiledGraph:
    with torch.no_grad():
        traced = trace_inference(fn, inputs, core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    return compile_graph(traced.module, fakes, options)


@pytest.mark.parametrize("library, calls", [(0.5, 2), (0.99, 0), (2.0, 0)])
def test_the_faster_one_is_taken(
    timed: Callable[[float, float], list[int]], tmp_path: Path, library: float, calls: int
) -> None:
    regions = timed(1.0, library)
    inputs = [torch.randn(64, 64), torch.randn(64, 64)]
    options = Options(autotune=True, cache_dir=str(tmp_path))
    state = torch.get_rng_state()
    graph = compiled(two_layers, inputs, options)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(regions) == 1  # the layers are alike
    assert graph.stats.externs == calls
    torch.testing.assert_close(graph(list(inputs)), two_layers(*inputs))


def test_figures_are_kept(timed: Callable[[float, float], list[int]], tmp_path: Path) -> None:
    regions = timed(1.0, 0.5)
    inputs = [torch.randn(64, 64), torch.randn(64, 64)]
    compiled(two_layers, inputs, Options(autotune=True, cache_dir=str(tmp_path)))
    again = compiled(
        lambda *args: (torch.cos(two_layers(*args)[0]),), inputs, Options(autotune=True, cache_dir=str(tmp_path))
    )
    assert again.stats.cache == "miss" and again.stats.externs == 2
    assert len(regions) == 1 + 1  # the second layer now ends in a cosine
    assert compiled(two_layers, inputs, Options(autotune=True, cache_dir=str(tmp_path))).stats.cache == "hit"
    assert compiled(two_layers, inputs, Options(cache_dir=str(tmp_path))).stats.externs == 0


def test_regions_read_what_calls_read(timed: Callable[[float, float], list[int]]) -> None:
    """Expanded, transposed and sliced inputs, results that are several, and tensors that the program makes."""
    regions = timed(1.0, 0.5)

    def program(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.addmm(b.expand(32, 48), x[3:35].sin(), w) * 2,
            torch.bmm(x[None, :32].expand(3, 32, 40), w.expand(3, 40, 48)),
        )

    inputs = [torch.randn(40, 40), torch.randn(40, 48), torch.randn(48)]
    graph = compiled(program, inputs, Options(autotune=True, cache=False))
    assert regions and graph.stats.externs
    torch.testing.assert_close(graph(list(inputs)), program(*inputs))


def test_attention_of_several_results(timed: Callable[[float, float], list[int]]) -> None:
    regions = timed(1.0, 0.5)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor]:
        return (torch.nn.functional.scaled_dot_product_attention(q, k, v) + 1,)

    inputs = [torch.randn(2, 4, 48, 32) for _ in range(3)]
    own = compiled(attend, inputs, Options(cache=False))
    graph = compiled(attend, inputs, Options(autotune=True, cache=False))
    assert own.stats.externs == 0 and graph.stats.externs == 1 and len(regions) == 1
    torch.testing.assert_close(graph(list(inputs)), attend(*inputs))
