"""`Options.autotune`: what is left to the library is what was faster when it was timed, and nothing but that is changed by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import inductor.rates
import inductor.rivals
import inductor.samples
from aotgrad import core_decompositions, trace_inference
from inductor import CompiledGraph, Options, compile_graph
from inductor.cache import DiskCache


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float, float], list[int]]]:
    """Called with what timing is to find, it gives a list that grows by one for each region that is timed."""

    def finds(own: float, library: float) -> list[int]:
        regions: list[int] = []
        measure = inductor.samples.timed

        def found(calls: Sequence[Any], inputs: Sequence[torch.Tensor], **kwargs: Any) -> list[float]:
            assert all(seconds > 0 for seconds in measure(calls, inputs, **kwargs))
            torch.testing.assert_close(calls[0](list(inputs)), calls[1](list(inputs)), atol=1e-3, rtol=1e-3)
            assert calls[0](list(inputs))
            regions.append(1)
            return [own, library, *[0.0] * len(calls[2:])]

        for module in (inductor.rivals, inductor.rates):
            monkeypatch.setattr(module, "timed", found)
        return regions

    monkeypatch.setattr(inductor.samples, "SECONDS", 0.0)
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
    assert compiled(two_layers, inputs, Options(autotune=False, cache_dir=str(tmp_path))).stats.externs == 0


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


@pytest.mark.parametrize("library, sizes, calls", [(0.5, (512, 1024), 1), (0.99, (512, 1024), 0), (0.5, (64, 64), 0)])
def test_large_products_go_to_who_is_faster(
    timed: Callable[[float, float], list[int]], tmp_path: Path, library: float, sizes: tuple[int, int], calls: int
) -> None:
    """Where nothing is said of it: by one product that is measured once, and only if there are large ones."""
    measured = timed(1.0, library)
    rows, side = sizes
    inputs = [torch.randn(rows, side), torch.randn(side, side)]
    for finish in (torch.sin, torch.cos):
        graph = compiled(lambda x, w, f=finish: (f(x @ w),), inputs, Options(cache_dir=str(tmp_path)))
        assert graph.stats.externs == calls
        torch.testing.assert_close(graph(list(inputs))[0], finish(inputs[0] @ inputs[1]), atol=1e-3, rtol=1e-3)
    assert len(measured) == (rows > 64)
    assert compiled(lambda x, w: (x @ w,), inputs, Options(autotune=False, cache=False)).stats.externs == 0


def test_what_is_read_again_counts() -> None:
    rates = inductor.rates.Rates(own=1e-11, library=0.9e-11, again=1e-9)
    assert rates.leave(512, 1024, 512, again=0)
    assert not rates.leave(512, 1024, 512, again=512 * 512)
    assert rates.leave(512, 4096, 512, again=512 * 512)


def large_product(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.relu(x @ w),)


LARGE = [torch.randn(512, 1024), torch.randn(1024, 512)]
LIKE_THE_SAMPLE = [torch.randn(512, 1024), torch.randn(1024, 1024)]


class Faked(TorchDispatchMode):
    """Has tensors made without memory."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        return made.to("meta") if function is torch.ops.aten.empty_strided.default else made


@pytest.mark.parametrize("autotune, program", [(True, two_layers), (None, large_product)])
@pytest.mark.parametrize("mode", [torch.inference_mode, Faked, lambda: torch.device("meta")])
def test_the_programs_modes_see_nothing_of_it(
    timed: Callable[[float, float], list[int]],
    mode: Callable[[], AbstractContextManager[object]],
    autotune: bool | None,
    program: Callable[..., object],
) -> None:
    regions = timed(1.0, 0.5)
    inputs = LARGE if autotune is None else [torch.randn(64, 64), torch.randn(64, 64)]
    with torch.no_grad():
        traced = trace_inference(program, inputs, core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    with mode():
        graph = compile_graph(traced.module, fakes, Options(autotune=autotune, cache=False))
    assert regions and graph.stats.externs
    torch.testing.assert_close(graph(list(inputs)), program(*inputs), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("each_first", [False, True])
def test_a_program_of_the_product_that_is_measured(
    timed: Callable[[float, float], list[int]], tmp_path: Path, each_first: bool
) -> None:
    """What is known of one rival is not taken for the machine's rates, nor the other way round."""
    regions = timed(1.0, 0.5)
    for each in (each_first, not each_first):
        inputs = LIKE_THE_SAMPLE if each else LARGE
        product = (lambda x, w: (x @ w,)) if each else large_product
        options = Options(autotune=each or None, cache_dir=str(tmp_path))
        assert compiled(product, inputs, options).stats.externs == 1
    assert len(regions) == 2


@pytest.mark.parametrize(
    "content", [b"", b"[", b"[1.0]", b"[1.0, NaN]", b'["1", "2"]', b'{"own": 1.0}', b"[true, 0.5]"]
)
def test_figures_of_another_form_are_measured_again(
    timed: Callable[[float, float], list[int]], tmp_path: Path, content: bytes
) -> None:
    regions = timed(1.0, 0.5)
    inputs = [torch.randn(64, 64), torch.randn(64, 64)]
    compiled(two_layers, inputs, Options(autotune=True, cache_dir=str(tmp_path)))
    (file,) = tmp_path.rglob("rivals/*/*/figures.json")
    cache = DiskCache("rivals", tmp_path)
    for name in ("figures.json", "other.json"):
        cache.remove(file.parent.name)
        cache.put(file.parent.name, {name: content})
        graph = compiled(
            lambda x, w, name=name: (two_layers(x, w)[0].sum(0) * len(name),),
            inputs,
            Options(autotune=True, cache_dir=str(tmp_path)),
        )
        assert graph.stats.externs == 2
    assert len(regions) == 3
    entry = cache.get(file.parent.name)
    assert entry is not None and entry.files["figures.json"] == b"[1.0, 0.5]"


@pytest.mark.parametrize("autotune, program", [(True, two_layers), (None, large_product)])
def test_figures_that_cannot_be_kept(
    timed: Callable[[float, float], list[int]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    autotune: bool | None,
    program: Callable[..., object],
) -> None:
    timed(1.0, 0.5)

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(DiskCache, "put", full)
    inputs = LARGE if autotune is None else [torch.randn(64, 64), torch.randn(64, 64)]
    assert compiled(program, inputs, Options(autotune=autotune, cache_dir=str(tmp_path))).stats.externs


def test_positions_are_not_made_up(timed: Callable[[float, float], list[int]]) -> None:
    """What reads a product by integers is timed without it: those made up may lie beyond."""
    regions = timed(1.0, 0.5)

    def program(x: torch.Tensor, w: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor]:
        return ((x @ w).view(1, 4096).gather(0, at),)

    inputs = [torch.randn(64, 64), torch.randn(64, 64), torch.zeros(1, 4096, dtype=torch.int64)]
    graph = compiled(program, inputs, Options(autotune=True, cache=False))
    assert len(regions) == 1
    torch.testing.assert_close(graph(list(inputs)), program(*inputs))
