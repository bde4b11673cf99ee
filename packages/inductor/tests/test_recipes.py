"""CONTRIBUTING's recipes for a lowering and for a pass, carried out from outside the package, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from inductor_tracing import trace

from inductor import BODY_PASSES, GRAPH_PASSES, Options, ReferenceBackend, compile_graph
from inductor.lowerings import LOWERINGS

aten = torch.ops.aten
X = torch.tensor([[0.0, -0.0, 1.5], [float("nan"), float("-inf"), 1e-40]])


def _recipe(name: str) -> str:
    """The recipe's code from outside the package: its last piece."""
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    section = re.search(rf"^## {name}$(.*?)^## ", text, re.M | re.S)
    assert section is not None
    return re.findall(r"```python\n(.*?)```", section[1], re.S)[-1]


@pytest.fixture(autouse=True)
def no_trace() -> Iterator[None]:
    """What recipes register is there for one test."""
    lowerings, passes = dict(LOWERINGS), (list(GRAPH_PASSES), list(BODY_PASSES))
    yield
    LOWERINGS.clear()
    LOWERINGS.update(lowerings)
    GRAPH_PASSES[:], BODY_PASSES[:] = passes


@pytest.fixture
def softened() -> Iterator[torch._ops.OpOverload]:
    """An operator of the user's own."""
    library = torch.library.Library("recipe", "FRAGMENT")
    library.define("softened(Tensor x) -> Tensor")
    library.impl("softened", lambda x: x * torch.sigmoid(x), "CPU")
    yield torch.ops.recipe.softened.default
    library._destroy()


def test_a_lowering(softened: torch._ops.OpOverload) -> None:
    module, expected = trace(lambda x: softened(x) + 1, X)
    backends = {"cpu": ReferenceBackend()}
    before = compile_graph(module, [X], backends=backends)
    assert (before.stats.externs, before.stats.kernels) == (1, 1)
    exec(_recipe("A lowering"), {})
    after = compile_graph(module, [X], backends=backends)
    assert (after.stats.externs, after.stats.kernels) == (0, 1)
    for compiled in (before, after):
        torch.testing.assert_close(compiled([X]), tuple(expected), equal_nan=True)


def _turned(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    back = x.flip(0, 1).flip(0, 1)
    other = x.flip(0).flip(1)
    return back.neg().neg(), other.neg().abs(), back


def test_a_pass() -> None:
    module, expected = trace(_turned, X)
    backends = {"cpu": ReferenceBackend()}
    assert not compile_graph(module, [X], backends=backends).stats.rewrites
    exec(_recipe("A pass"), {})
    on = compile_graph(module, [X], backends=backends)
    off = compile_graph(module, [X], Options(disabled_passes=("flipped_back", "negated_twice")), backends=backends)
    assert on.stats.rewrites == {"negated_twice": 1} and not off.stats.rewrites, "a result keeps memory of its own"
    inside, wanted = trace(lambda x: x.flip(0, 1).flip(0, 1).neg().neg(), X)
    both = compile_graph(inside, [X], backends=backends)
    assert both.stats.rewrites == {"flipped_back": 1, "negated_twice": 1}
    for compiled, results in ((on, expected), (off, expected), (both, wanted)):
        for found, result in zip(compiled([X]), results, strict=True):
            assert torch.equal(found.view(torch.int32), result.view(torch.int32)), "bit for bit"
            assert found.data_ptr() != X.data_ptr()
