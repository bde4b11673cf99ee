"""Backends of installed distributions, as they are written for `torch.compile`: `backend(graph_module, example_inputs)`."""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import capture
import meta

MODULE = """
    import torch

    seen = []

    def echo(gm, example_inputs):
        seen.append((gm, example_inputs))
        return gm.forward

    def listed(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor], *, options=None):
        seen.append(options)
        return lambda *args: list(gm(*args))

    def with_modes(gm, example_inputs, **given):
        seen.append(given)
        return gm.forward

    number = 3
"""
ENTRY_POINTS = """
    [torch_dynamo_backends]
    echo = a_backend_of_theirs:echo
    listed = a_backend_of_theirs:listed
    inductor = a_backend_of_theirs:number
    number = a_backend_of_theirs:number
    with_modes = a_backend_of_theirs:with_modes
    broken = a_backend_of_theirs.nowhere:it
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of `sys.path` in which a distribution is installed: its module, and what an installer writes of it."""
    (tmp_path / "a_backend_of_theirs.py").write_text(textwrap.dedent(MODULE))
    said = tmp_path / "a_backend_of_theirs-1.0.dist-info"
    said.mkdir()
    (said / "METADATA").write_text("Metadata-Version: 2.1\nName: a_backend_of_theirs\nVersion: 1.0\n")
    (said / "entry_points.txt").write_text(textwrap.dedent(ENTRY_POINTS))
    (said / "RECORD").write_text("a_backend_of_theirs.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    # As where nobody imported torch's own compiler, which other tests' programs do in this process.
    monkeypatch.delitem(sys.modules, "torch._dynamo.backends.registry", raising=False)
    monkeypatch.setattr(capture.config, "on_error", "raise")
    meta.reset()
    yield
    sys.modules.pop("a_backend_of_theirs", None)


def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * 2 + y


def check(compiled: Callable[..., torch.Tensor]) -> None:
    x, y = torch.randn(3), torch.randn(3)
    for _ in range(2):
        assert torch.equal(compiled(x, y), fn(x, y))


def test_a_backend_is_found_and_called_as_torch_compile_calls_it() -> None:
    first = meta.compile(fn, backend="echo")
    check(first)
    import a_backend_of_theirs  # type: ignore[import-not-found]

    ((graph, inputs),) = a_backend_of_theirs.seen
    assert isinstance(graph, torch.fx.GraphModule)
    assert [tuple(one.shape) for one in inputs] == [(3,), (3,)]
    check(meta.compile(fn, backend="echo"))
    assert len(a_backend_of_theirs.seen) == 1, "found again it is the same backend"


def test_its_options_and_a_list_of_results() -> None:
    check(meta.compile(fn, backend="listed", options={"level": 3}))
    import a_backend_of_theirs

    assert a_backend_of_theirs.seen == [{"level": 3}]


def test_our_own_names_stay_ours() -> None:
    check(meta.compile(fn, backend="inductor"))


def test_an_unknown_name_is_answered_with_the_installed_ones() -> None:
    with pytest.raises(
        ValueError,
        match="'ecco'; the backends are inductor, aot_eager, eager, broken, echo, listed, number, with_modes",
    ):
        meta.compile(fn, backend="ecco")


def test_what_cannot_be_called_or_loaded_says_so() -> None:
    with pytest.raises(TypeError, match="the installed backend 'number' is not callable but a int"):
        meta.compile(fn, backend="number")
    with pytest.raises(ImportError, match="nowhere"):
        meta.compile(fn, backend="broken")
    with pytest.raises(ValueError, match="mode"):
        meta.compile(fn, backend="echo", mode="fastest")


def test_a_mode_of_theirs_is_handed_on() -> None:
    check(meta.compile(fn, backend="with_modes", mode="reduce-overhead"))
    check(meta.compile(fn, backend="with_modes", mode="theirs", options={"level": 3}))
    check(meta.compile(fn, backend="with_modes", mode="default"))
    import a_backend_of_theirs

    assert a_backend_of_theirs.seen == [{"mode": "reduce-overhead"}, {"mode": "theirs", "options": {"level": 3}}, {}]


def test_backends_by_name() -> None:
    assert meta.list_backends() == [
        "inductor",
        "aot_eager",
        "eager",
        "broken",
        "echo",
        "listed",
        "number",
        "with_modes",
    ]
    assert set(capture.list_backends()) == {*meta.list_backends()} - {"aot_eager"}
    check(capture.compile(fn, "echo"))
    import a_backend_of_theirs

    assert len(a_backend_of_theirs.seen) == 1
    with pytest.raises(ValueError, match="'ecco'; the backends are eager, broken"):
        capture.compile(fn, "ecco")


def test_what_was_registered_with_torchs_own_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = types.ModuleType("registry")
    registry._COMPILER_FNS = {"registered": lambda gm, example_inputs: gm.forward}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch._dynamo.backends.registry", registry)
    check(meta.compile(fn, backend="registered"))
    assert "registered" in meta.list_backends()
