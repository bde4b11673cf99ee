"""Modes: the recipe of CONTRIBUTING, from outside; what a mode says is what the compiler does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import aotgrad
import capture
import inductor
import meta


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    on_error, modes = capture.config.on_error, dict(meta.MODES)
    capture.config.on_error = "raise"
    meta.reset()
    yield
    capture.config.on_error = on_error
    meta.MODES.clear()
    meta.MODES.update(modes)


def step(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.exp()).sum()


def gradient(compiled: object, x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    compiled(x).backward()  # type: ignore[operator]
    assert x.grad is not None
    return x.grad


def test_the_recipe() -> None:
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    section = re.search(r"^## A mode$(.*?)^## ", text, re.M | re.S)
    assert section is not None
    (block,) = re.findall(r"```python\n(.*?)```", section[1], re.S)
    exec(block, {})
    x = torch.randn(5)
    torch.testing.assert_close(gradient(meta.compile(step, mode="lean"), x), gradient(step, x))
    assert meta.MODES["lean"].options_with(None).reuse_window == 1


def test_a_mode_is_what_is_done() -> None:
    cuts: list[aotgrad.Partition] = []

    def counted(joint: aotgrad.JointGraph) -> aotgrad.Partition:
        cuts.append(aotgrad.partition_min_cut(joint))
        return cuts[-1]

    meta.MODES["lean"] = meta.Mode(options={"reuse_window": 1, "cache": False}, partitioner=counted)
    x = torch.randn(5)
    expected = gradient(step, x)
    lean = meta.compile(step, mode="lean")
    torch.testing.assert_close(gradient(lean, x), expected)
    assert len(cuts) == 1
    torch.testing.assert_close(gradient(meta.compile(step), x), expected)
    assert len(cuts) == 1, "another mode shares nothing with it"
    torch.testing.assert_close(gradient(meta.compile(step, mode="lean"), x), expected)
    assert len(cuts) == 1, "the same mode shares what it compiled"
    torch.testing.assert_close(gradient(meta.compile(step, backend="aot_eager", mode="lean"), x), expected)
    assert len(cuts) == 2


def test_options_given_go_before_the_modes() -> None:
    mode = meta.Mode(options={"fuse": False, "cache": False})
    assert not mode.options_with(None).fuse
    assert mode.options_with({"fuse": True}).fuse and not mode.options_with({"fuse": True}).cache


def test_options_of_a_mode_reach_the_kernels() -> None:
    kernels: dict[str, int] = {}
    graph = torch.fx.symbolic_trace(lambda x: (x.sin().softmax(-1).cumsum(0).exp(), x.cos()))
    for name, mode in (("fused", meta.Mode()), ("apart", meta.Mode(options={"fuse": False}))):
        meta.backends.inductor(
            graph,
            [torch.randn(4, 4)],
            mode=mode,
            on_compiled=lambda compiled, name=name: kernels.__setitem__(name, len(compiled.kernels)),  # type: ignore[misc]
        )
    assert kernels["apart"] > kernels["fused"]


def test_decompositions_of_a_mode() -> None:
    asked = 0

    def none() -> dict[object, object]:
        nonlocal asked
        asked += 1
        return {}

    meta.MODES["whole"] = meta.Mode(decompositions=none)  # type: ignore[arg-type]
    x = torch.randn(3, 4)
    compiled = meta.compile(torch.nn.functional.silu, backend="aot_eager", mode="whole")
    torch.testing.assert_close(compiled(x), torch.nn.functional.silu(x))
    assert asked == 1


def test_max_autotune(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).eval()
    x = torch.randn(48, 32)
    compiled = meta.compile(model, mode="max-autotune", options={"cache_dir": str(tmp_path)})
    torch.testing.assert_close(gradient(lambda x: compiled(x).sum(), x), gradient(lambda x: model(x).sum(), x))
    assert list(tmp_path.rglob("rivals/*/*/figures.json"))


@pytest.mark.parametrize(
    ("mode", "tuned", "recorded"),
    [
        ("default", None, False),
        ("reduce-overhead", None, True),
        ("max-autotune", True, True),
        ("max-autotune-no-cudagraphs", True, False),
    ],
)
def test_what_is_timed_and_what_is_recorded(
    mode: str, tuned: bool | None, recorded: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    timed: list[bool | None] = []
    recordings: list[object] = []
    compile_graph, replayed = inductor.compile_graph, inductor.replayed

    def noted(graph: Any, inputs: Any, options: Any) -> Any:
        timed.append(options.autotune)
        return compile_graph(graph, inputs, options)

    def recording(compiled: Any, *rest: Any, **named: Any) -> Any:
        recordings.append(compiled)
        return replayed(compiled, *rest, **named)

    monkeypatch.setattr(inductor, "compile_graph", noted)
    monkeypatch.setattr(inductor, "replayed", recording)
    x = torch.randn(5)
    with torch.no_grad():
        compiled = meta.compile(step, mode=mode, options={"cache_dir": str(tmp_path)})
        torch.testing.assert_close(compiled(x), step(x))
    assert timed == [tuned] and len(recordings) == recorded


def test_a_mode_of_unknown_options_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="unknown option 'speed'; the options are fuse"):
        meta.Mode(options={"speed": 11})


@pytest.mark.parametrize("backend", ["eager", lambda graph, inputs: graph.forward])
def test_a_mode_that_nobody_would_use_is_refused(backend: object) -> None:
    meta.MODES["lean"] = meta.Mode()
    with pytest.raises(ValueError, match="mode 'lean' is for the backends inductor, aot_eager"):
        meta.compile(step, backend=backend, mode="lean")  # type: ignore[arg-type]
    meta.compile(step, backend=backend, mode="default")  # type: ignore[arg-type]
