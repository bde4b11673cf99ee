"""Runs of operations on tensors that no graph holds, and what the language has: branches, calls, exceptions, locals, effects."""

from __future__ import annotations

import copy
import traceback
import weakref
from typing import Any

import pytest
import torch
from no_graph_holds import check, data, jagged, plain, run_of_operations, strided
from torch import nn

import capture
from capture import resume

# What the language has


def calls(t: Any, w: torch.Tensor) -> Any:
    w = w + 1
    t = step(t, 2)
    t = step(t, factor=2)
    return step(t, 2), w.sin()


def step(t: Any, factor: int) -> Any:
    t = t * factor
    u = t + t
    return u * 0.5


def test_what_is_called_is_a_frame_of_its_own():
    # The first call is in the frame; the others are made for real, and what they call is captured once.
    check(calls, lambda: (jagged(), data()), graphs=2, breaks=2)


class Base(nn.Module):
    def forward(self, t: Any) -> Any:
        return t * 2


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def forward(self, t: Any) -> Any:
        t = super().forward(t)
        self.seen.append("doubled")
        t = t + t
        self.count = len(self.seen)
        scale = 3
        more = [t * scale for _ in range(2)]
        return more, (lambda: scale + self.count)()


def test_methods_closures_and_comprehensions():
    found = []
    for wrap in (lambda m: m, capture.compile):
        module = Derived()
        called = wrap(module)
        found.append([plain(called(jagged())) for _ in range(3)] + [module.seen, module.count])
    assert found[0] == found[1]


def branches(t: Any, flag: bool) -> Any:
    if t.is_nested and flag:
        t = t * 2
    elif flag:
        t = t * 3
    else:
        made = t
        t = made + made
    n = t.size(0)
    while n > 0:
        t = t + 1
        n -= 1
    return t if t.dim() > 1 else None


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("make", [jagged, strided])
def test_branches(make, flag):
    check(branches, lambda: (make(), flag), graphs=0, breaks=1)


class Settings:
    factors = ({"first": 2.0, "second": 3.0},)


def items_of_what_is_not_known(t: Any, settings: Settings) -> Any:
    t = t * 2
    factor = settings.factors[0]["first"]
    t = t + t
    return t * factor


@pytest.mark.parametrize("make", [jagged, strided])
def test_items_of_what_is_not_known_are_in_the_run(make):
    check(items_of_what_is_not_known, lambda: (make(), Settings()), graphs=0, breaks=1)


def test_effects_keep_their_order():
    log: list[Any] = []

    class Noting(list):  # type: ignore[type-arg]
        pass

    def fn(t, w, noted):
        noted.append(w.sum() > 0)
        log.append("first")
        t = t * 2
        log.append(t.is_nested)
        noted.append("second")
        t = t + 1
        noted[0] = len(log)
        w.add_(1)
        log.append("third")
        return t, w * 2

    found = []
    for each in (fn, capture.compile(fn)):
        log.clear()
        noted, w = Noting(), data()
        for _ in range(2):
            result = plain(each(jagged(), w, noted))
        found.append((result, list(log), plain(list(noted)), w.tolist()))
    assert found[0] == found[1]


def raises_within(t: Any, fails: bool) -> Any:
    x = t * 2
    y = x + x
    if fails:
        y = y + torch.ones(7, 7, 7)
    return y * 2


@pytest.mark.parametrize("make", [jagged, lambda: data().to_sparse()])
def test_exceptions_come_from_their_lines(make):
    capture.reset()
    compiled = capture.compile(raises_within)
    found = []
    for fn in (raises_within, compiled, compiled):
        with pytest.raises(RuntimeError) as raised:
            fn(make(), True)
        lines = [
            (each.name, each.line, each.colno)
            for each in traceback.extract_tb(raised.value.__traceback__)
            if each.filename == __file__
        ]
        found.append((type(raised.value), lines[1:]))
        assert plain(fn(make(), False)) == plain(raises_within(make(), False))
    assert found[0] == found[1] == found[2]


def handles(t: Any, w: torch.Tensor) -> Any:
    done = []
    for i in range(3):
        try:
            t = t * 2
            if i == 1:
                t = t + torch.ones(7, 7, 7)
            t = t + t
        except RuntimeError as error:
            done.append(type(error).__name__)
            continue
        finally:
            done.append(i)
        t = t * 0.5
    return t, done, w.sin()


@pytest.mark.parametrize("make", [jagged, lambda: data().to_sparse()])
def test_exceptions_that_are_handled(make):
    capture.reset()
    compiled = capture.compile(handles)
    for _ in range(3):
        assert plain(compiled(make(), data())) == plain(handles(make(), data()))


def refuses(t: Any, wanted: bool) -> Any:
    if wanted:
        raise ValueError("refused")
    return t * 2


def test_locals_that_an_exception_leaves_without_a_value():
    def fn(t, refused):
        done = 0
        for i in range(3):
            try:
                t = t * 2
                made = refuses(t, i in refused)
                kept = made + made
                done += 1
            except ValueError as error:
                last = str(error)
                continue
            t = kept * 0.5
        if done:
            t = kept + made
        return t, last if refused else None

    capture.reset()
    compiled = capture.compile(fn)
    for make in (jagged, lambda: data().to_sparse()):
        for refused in ((), (0,), (0, 1), (0, 1, 2), (2,)):
            assert plain(compiled(make(), refused)) == plain(fn(make(), refused))


def test_blocks():
    def fn(t, w):
        w = w * 2
        with torch.no_grad():
            x = t * 2
            x = x + x
            y = w.sin()
        z = x * 3
        return x, y, z + z, w.cos()

    make = lambda: (jagged().requires_grad_(), data().requires_grad_())  # noqa: E731
    capture.reset()
    compiled = capture.compile(fn)
    for _ in range(3):
        assert plain(compiled(*make())) == plain(fn(*make()))


def test_locals_that_have_no_value_yet():
    def fn(t, n):
        for i in range(n):
            t = t * 2
            if i == 1:
                late = t + t
        try:
            return late * 2
        except UnboundLocalError as error:
            return str(error)

    capture.reset()
    compiled = capture.compile(fn)
    for n in (0, 1, 3, 1):
        assert plain(compiled(jagged(), n)) == plain(fn(jagged(), n))


def test_cells():
    def fn(t, w):
        def scaled(by):
            return t * by + w.sum()

        t = t * 2
        before = scaled(2)
        t = t + t
        w = w.sin()
        return before, scaled(3), w

    capture.reset()
    compiled = capture.compile(fn)
    for _ in range(3):
        assert plain(compiled(jagged(), data())) == plain(fn(jagged(), data()))


def test_a_local_that_is_given_another_value_lets_go_of_the_first():
    seen: list[bool] = []

    def alive(ref):
        return ref() is not None

    def fn(t):
        x = t * 2
        seen_by = weakref.ref(x)
        y = x + x
        seen.append(alive(seen_by))
        x = y * 2
        seen.append(alive(seen_by))
        return x + y

    found = []
    for each in (fn, capture.compile(fn)):
        seen.clear()
        each(data().to_sparse())
        found.append(copy.copy(seen))
    assert found[0] == found[1]


def test_what_a_graph_could_hold_is_not_in_the_run():
    """Beside what is foreign, a plain operation ends it."""

    def fn(t, w):
        t = t * 2
        w = w.exp()
        t = t + t
        w = w.sin()
        t = t * 3
        return t, w.cos()

    report = check(fn, lambda: (jagged(), data()), graphs=3, breaks=3)
    names = [node.target for graph in report.graphs for node in graph.module.graph.nodes if node.op == "call_method"]
    assert names == ["exp", "sin", "cos"]


def test_other_breaks_are_as_they_were():
    @capture.disable
    def kept_out(x):
        return x * 2

    def fn(x):
        y = kept_out(x.sin())
        y = y.cos() * 3
        return y + kept_out(y)

    check(fn, lambda: (data(),), graphs=3, breaks=2)


def test_one_function_for_plain_tensors_and_others():
    capture.reset()
    compiled = capture.compile(run_of_operations)
    for make in (data, jagged, data, lambda: data().to_sparse(), jagged, strided, data):
        assert plain(compiled(make())) == plain(run_of_operations(make()))


def test_what_an_operation_gives_decides_at_each_call():
    def fn(t, w):
        t = t * 2
        t = t + t
        return (t * 0.5) @ w

    capture.reset()
    compiled = capture.compile(fn)
    w = torch.ones(4, 2)
    for make in (lambda: data().to_sparse(), jagged, lambda: data().to_sparse_csr(), lambda: data().to_sparse()):
        assert plain(compiled(make(), w)) == plain(fn(make(), w))


def long_run(length: int, *, end: str, begin: str = "") -> Any:
    lines = ["def fn(t, w):", begin, *(f"    t = t * {1 + i % 3 / 10}" for i in range(length)), end]
    names: dict[str, Any] = {"__name__": __name__}
    exec("\n".join(lines), names)
    return names["fn"]


def test_a_long_run_is_one_break(monkeypatch):
    """What goes on where an operation gives what graphs hold is made when one does: each is of all the rest of the function."""
    made = []
    real = resume._resume_code
    monkeypatch.setattr(resume, "_resume_code", lambda *args: made.append(args[2]) or real(*args))
    check(long_run(300, end="    return t"), lambda: (data().to_sparse(), None), graphs=0, breaks=1)
    assert len(made) <= 1


@pytest.mark.parametrize("begin", ["", "    called = lambda: t"], ids=["locals", "cells"])
def test_a_long_run_goes_on_where_a_graph_may(begin):
    fn = long_run(100, begin=begin, end="    t = t @ w\n    t = t * 2\n    t = t.relu()\n    return t + 1")
    check(fn, lambda: (data().to_sparse(), torch.ones(data().shape[1], 2)), graphs=1, breaks=1)


def test_a_run_of_more_is_cut_into_a_few():
    check(long_run(1500, end="    return t"), lambda: (data().to_sparse(), None), graphs=0, breaks=2)


def test_with_fullgraph_the_kind_is_told():
    with pytest.raises(capture.GraphBreakError, match="NestedTensor"):
        capture.compile(run_of_operations, fullgraph=True)(jagged())
