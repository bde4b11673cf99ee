"""What a program does only once: first calls of functions that remember, and imports. The capture after that is whole."""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import capture

STATE: dict[str, Any] = {}
NUMBER = 1


class Holder:
    def __init__(self) -> None:
        self.scale = 2


HOLDER = Holder()
NESTED: dict[str, Any] = {"holders": [Holder()]}
KINDS = [1, 2, 3]


@typing.runtime_checkable
class Scaled(typing.Protocol):
    extra: int


@functools.lru_cache
def of_state(k: int) -> int:
    return int(STATE["k"]) + k


@functools.lru_cache
def of_number(k: int) -> int:
    return NUMBER + k


@functools.lru_cache
def of_object(holder: Holder) -> int:
    return holder.scale


@functools.lru_cache
def of_own_objects(k: int) -> tuple[int, ...]:
    """It changes what it makes itself, and nothing else."""
    made, table = [1], {}
    made.append(k)
    table["k"] = k
    holder = Holder()
    holder.scale = made[-1]
    return (*made, table["k"], holder.scale)


@functools.lru_cache
def with_effects(k: int) -> int:
    STATE["told"] = k
    return k + 1


@functools.lru_cache
def of_nested(k: int) -> int:
    return int(NESTED["holders"][0].scale) + k


@functools.lru_cache
def of_none_of_it(k: int) -> tuple[int, ...]:
    return tuple(KINDS[:k])


CACHED = (of_nested, of_none_of_it, of_state, of_number, of_object, of_own_objects, with_effects)


def state_changed(x: torch.Tensor) -> Any:
    STATE["k"] = 5
    return x * of_state(2)


def global_changed(x: torch.Tensor) -> Any:
    global NUMBER
    NUMBER = 9
    return x * of_number(2)


def object_changed(x: torch.Tensor) -> Any:
    HOLDER.scale = 7
    return x * of_object(HOLDER)


def object_as_it_is(x: torch.Tensor) -> Any:
    return x * of_object(HOLDER)


def own_objects(x: torch.Tensor) -> Any:
    return x + 1, of_own_objects(3)


def nested_changed(x: torch.Tensor) -> Any:
    NESTED["holders"][0].scale = 4
    return x * of_nested(1)


def class_changed(x: torch.Tensor) -> Any:
    Holder.extra_scale = 3  # type: ignore[attr-defined]
    return x * of_class(1), Holder.extra_scale  # type: ignore[attr-defined]


@functools.lru_cache
def of_class(k: int) -> int:
    return getattr(Holder, "extra_scale", 1) + k


def another_changed(x: torch.Tensor) -> Any:
    STATE.setdefault("known", {})[type(x).__name__] = HOLDER
    HOLDER.scale = 5
    return x * HOLDER.scale, of_none_of_it(2), of_own_objects(4)


def effects(x: torch.Tensor) -> Any:
    return x + 1, with_effects(3), STATE["told"]


def protocol_after_a_change(x: torch.Tensor) -> Any:
    HOLDER.extra = 1  # type: ignore[attr-defined]
    had = isinstance(HOLDER, Scaled)
    del HOLDER.extra  # type: ignore[attr-defined]
    return x + 1, had, isinstance(HOLDER, Scaled)


@pytest.fixture(autouse=True)
def fresh() -> None:
    _reset()


def _reset() -> None:
    global NUMBER
    NUMBER = 1
    STATE.clear()
    STATE["k"] = 1
    vars(HOLDER).clear()
    HOLDER.scale = 2
    vars(NESTED["holders"][0]).clear()
    NESTED["holders"][0].scale = 2
    if hasattr(Holder, "extra_scale"):
        del Holder.extra_scale
    for each in (*CACHED, of_class):
        each.cache_clear()


@pytest.mark.parametrize(
    "fn",
    [
        state_changed,
        global_changed,
        object_changed,
        object_as_it_is,
        own_objects,
        effects,
        protocol_after_a_change,
        nested_changed,
        class_changed,
        another_changed,
    ],
)
def test_as_plain(fn: Callable[..., Any]) -> None:
    x = torch.ones(2)
    plain = [repr(fn(x)) for _ in range(3)], STATE.copy(), [each.cache_info() for each in CACHED]
    _reset()
    compiled = capture.compile(fn)
    found = [repr(compiled(x)) for _ in range(3)], STATE.copy(), [each.cache_info() for each in CACHED]
    assert found == plain


def test_computes_only() -> None:
    """A first call that changes what it makes itself alone breaks nothing; nor does one of an object from outside."""
    x = torch.ones(2)
    assert capture.compile(own_objects, fullgraph=True)(x)[1] == (1, 3, 3, 3)
    assert torch.equal(capture.compile(object_as_it_is, fullgraph=True)(x), x * 2)


def test_what_it_does_not_read_may_be_changed_before() -> None:
    """As a table of kinds that is filled at the first call, beside recipes that are remembered."""
    assert capture.compile(another_changed, fullgraph=True)(torch.ones(2))[1:] == ((1, 2), (1, 4, 4, 4))
    assert STATE["known"] == {"Tensor": HOLDER}


def test_whole_after_the_first_call() -> None:
    compiled, x = capture.compile(effects), torch.ones(2)
    compiled(x)
    breaks = len(capture.report(compiled).breaks)
    assert breaks == 1
    compiled(x)
    assert len(capture.report(compiled).breaks) == breaks
    assert capture.report(compiled).graphs[-1].breaks == []


def test_an_attribute_that_a_module_makes_as_it_is_asked_for() -> None:
    """As packages import their parts: `__getattr__` puts it there."""
    module = types.ModuleType("lazy_module")

    def make(name: str) -> int:
        if name != "part":
            raise AttributeError(name)
        module.part = 4  # type: ignore[attr-defined]
        return 4

    make.__code__ = make.__code__.replace(co_filename=torch.__file__)  # of what is installed, and called for real
    module.__getattr__ = make  # type: ignore[method-assign]
    compiled = capture.compile(lambda x: x + module.part, fullgraph=True)  # type: ignore[attr-defined]
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 5.0))
    assert capture.report(compiled).graph_count == 1


def test_module_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`from . import part` imports the part with the package."""
    package = tmp_path / "package_of_a_part"
    package.mkdir()
    (package / "__init__.py").write_text("from .user import use\n")
    (package / "user.py").write_text("def use(x):\n    from . import part\n    return x + part.K\n")
    (package / "part.py").write_text("K = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        use = __import__("package_of_a_part").use
        compiled, x = capture.compile(use), torch.ones(2)
        assert torch.equal(compiled(x), x + 3)
        assert torch.equal(compiled(x), x + 3)
        assert len(capture.report(compiled).breaks) == 1
        assert capture.report(compiled).graphs[-1].breaks == []
        assert capture.report(compiled).skipped == []  # what an import runs is nobody's to capture
    finally:
        for name in [n for n in sys.modules if n.startswith("package_of_a_part")]:
            del sys.modules[name]


def test_what_is_remembered_for_may_have_no_name() -> None:
    remembered = functools.lru_cache(functools.partial(int.__add__, 2))

    def fn(x: torch.Tensor, n: int) -> Any:
        return x * remembered(n), x.shape[0] * remembered(x.shape[0])

    compiled = capture.compile(fn)
    for n in (3, 3, 4):
        for got, wanted in zip(compiled(torch.ones(n), n), fn(torch.ones(n), n), strict=True):
            assert torch.equal(torch.as_tensor(got), torch.as_tensor(wanted))


@functools.lru_cache(None)
def steps(k: int) -> int:
    return k if k < 2 else steps(k - 1) + steps(k - 2)


def test_what_calls_itself_is_gone_through_once_for_a_key() -> None:
    """Each call within a first call was evaluated by itself: 2 to the power of 40 of them."""
    steps.cache_clear()
    compiled = capture.compile(lambda x: x * steps(40), fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 102334155.0))
    assert steps.cache_info() == (38, 41, None, 41)


def test_an_evaluation_that_goes_another_way_forgets_where_the_first_one_stopped() -> None:
    """With numbers that are no inputs the first call breaks nothing, and is made: that it was not made yet is not to be guarded."""

    class Scale:
        def __init__(self, k: int) -> None:
            self.k = k

        @functools.lru_cache
        def times(self, n: int) -> int:
            return self.k * n

    def fn(x: torch.Tensor, scale: Scale) -> torch.Tensor:
        y = x * scale.k + scale.times(n=2)
        return y + 1 if y.sum() > 0 else y - 1

    compiled, x, first = capture.compile(fn), torch.ones(2), Scale(1)
    assert torch.equal(compiled(x, first), torch.full((2,), 4.0))
    first.k = 2
    assert torch.equal(compiled(x, first), torch.full((2,), 5.0))
    assert torch.equal(compiled(x, Scale(3)), torch.full((2,), 10.0))
    assert capture.report(compiled).skipped == []
