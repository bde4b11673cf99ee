"""Symbolic sizes of inputs: one capture serves many sizes, and the guards on them refuse the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import capture
from symshapes import mark_dynamic


def captures(fn: Callable[..., object], calls: list[tuple[object, ...]], dynamic: bool | None = True) -> list[str]:
    """Run all calls, each against plain Python; the guards on sizes, in words, of each capture."""
    compiled = capture.compile(fn, dynamic=dynamic)
    for args in calls:
        torch.testing.assert_close(compiled(*args), fn(*args))
    return [
        "; ".join(g.text for g in graph.guards if g.kind.name == "SHAPE") for graph in compiled.session.report.graphs
    ]


def test_one_capture_for_all_sizes() -> None:
    weight = torch.randn(6, 4)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x @ weight).relu()

    (guards,) = captures(fn, [(torch.randn(n, 6),) for n in (3, 2, 17, 64)])
    assert "2 <= x.size(0)" in guards


def test_a_branch_on_a_size_is_guarded() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 10 else x + 1

    small, large = captures(fn, [(torch.randn(n),) for n in (3, 9, 20, 11, 10)])
    assert "2 <= x.size(0) <= 10" in small
    assert "11 <= x.size(0)" in large


def test_sizes_zero_and_one_are_captures_of_their_own() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) + x.shape[0]

    assert len(captures(fn, [(torch.randn(n, 3),) for n in (5, 1, 0, 7, 1, 0)])) == 3


def test_strides_that_follow_from_sizes_are_guarded() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1) * 3

    compiled = capture.compile(fn, dynamic=True)
    compiled(torch.randn(4, 5))
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        compiled(torch.randn(5, 4).t())
    torch.testing.assert_close(compiled(torch.ones(2, 8)), torch.full((16,), 3.0))


def test_a_marked_dimension_alone_is_symbolic() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[1]

    def marked(rows: int, columns: int) -> torch.Tensor:
        x = torch.randn(rows, columns)
        mark_dynamic(x, 1)
        return x

    calls = [(marked(3, 5),), (marked(3, 9),), (marked(4, 9),)]
    assert len(captures(fn, calls, dynamic=None)) == 2
    assert len(captures(fn, calls, dynamic=False)) == 2


def test_a_condition_that_needs_python_is_not_captured_itself() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0] // 2, -1).sum(0)

    assert len(captures(fn, [(torch.randn(n, 6),) for n in (4, 8, 10)])) == 1


table = torch.ones(3, 4)


def rows_of_table(y: torch.Tensor) -> torch.Tensor:
    return y.sum() + table.size(0)


def test_an_argument_and_a_global_of_one_name_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(table: torch.Tensor) -> torch.Tensor:
        return rows_of_table(table) * table.size(0)

    compiled = capture.compile(fn, dynamic=True)
    torch.testing.assert_close(compiled(table + 1), fn(table + 1))
    (graph,) = compiled.session.report.graphs
    assert "table.size(0) == global table.size(0)" in [g.text for g in graph.guards]
    monkeypatch.setitem(globals(), "table", torch.ones(6, 4))
    torch.testing.assert_close(compiled(torch.ones(3, 4)), fn(torch.ones(3, 4)))
    assert len(compiled.session.report.graphs) == 2


def test_sizes_that_were_only_asked_for_are_not_computed() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.size(0) % 2 == 0 and x.numel() > 3 else x + 1

    (graph,) = capture.explain(fn, torch.randn(4, 3), dynamic=True).graphs
    assert graph.op_count == 1


@pytest.mark.parametrize("divide", [lambda n: 10 // (n - 3), lambda n: 10 % (n - 3), lambda n: 10 / (n - 3)])
def test_a_number_that_nothing_uses_still_raises(divide: Callable[[int], float]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        divide(x.size(0))
        return x + 1

    compiled = capture.compile(fn, dynamic=True)
    compiled(torch.ones(5, 2))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(3, 2))


@pytest.mark.parametrize("dynamic", [None, True])
def test_strides_of_empty_tensors_and_single_rows(dynamic: bool | None) -> None:
    calls = [(torch.randn(size),) for size in ((16, 8), (16, 0), (1, 0), (4, 8), (9, 1), (4, 1), (5, 0))]
    assert len(captures(lambda x: x.softmax(-1), calls, dynamic)) <= 6


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_call_that_the_program_refuses_leaves_the_others_their_capture(dynamic: bool | None) -> None:
    def checked(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.size(0) % 8 == 0, lambda: "eights, please")
        return x

    def fn(xs: list[torch.Tensor]) -> torch.Tensor:
        return checked(xs[0]).view(-1, 8).sum(1)

    compiled = capture.compile(fn, dynamic=dynamic)
    counts = []
    for rows in (8, 16, 24, 20, 9, 32, 13, 8):
        x = torch.ones(rows, 3)
        if rows % 8:
            with pytest.raises(RuntimeError, match="eights, please"):
                compiled([x])
        else:
            torch.testing.assert_close(compiled([x]), fn([x]))
        counts.append(len(compiled.session.report.graphs))
    assert len(set(counts[4:])) == 1  # and the frames of what refuses have their own
    for wrong in ([3], [[x]], [], [None]):  # what its conditions are read from is no tensor, or not there
        with pytest.raises((AttributeError, TypeError, IndexError)):
            compiled(wrong)


def test_a_tensor_made_by_its_class_of_a_size() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return x.new(x.shape).zero_(), x.new(n, 2).fill_(n), x.new([n, 2.0]), x.new(torch.Size((2, *x.shape))).zero_()

    compiled = capture.compile(fn, dynamic=True, fullgraph=True)
    for n in (3, 5, 6):
        torch.testing.assert_close(compiled(torch.randn(n, 4)), fn(torch.randn(n, 4)))
    assert compiled.session.report.graph_count == 1


def test_sizes_that_are_broadcast() -> None:
    """Evaluated, they need nothing that torch imports for it."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Size, torch.Tensor]:
        size = torch.broadcast_shapes(x.shape, None, y.shape, (1, 4), [1], 4)
        return size, x.expand(torch.broadcast_shapes(*[size, (2, 1, 1)])) + y

    compiled = capture.compile(fn, dynamic=True, fullgraph=True)
    for n in (3, 5, 6):
        args = torch.randn(n, 4), torch.randn(n, 1)
        found, wanted = compiled(*args), fn(*args)
        assert type(found[0]) is torch.Size and found[0] == wanted[0]
        torch.testing.assert_close(found[1], wanted[1])
    assert compiled.session.report.graph_count == 1


@pytest.mark.parametrize("other", [(3,), (-3, 1, 1), ((1, 5),), "ab"])
def test_sizes_that_do_not_broadcast(other: object) -> None:
    def fn(x: torch.Tensor) -> torch.Size:
        return torch.broadcast_shapes(x.shape, other)

    with pytest.raises((RuntimeError, TypeError, ValueError)) as wanted:
        fn(torch.ones(2, 4))
    with pytest.raises(wanted.type) as found:
        capture.compile(fn)(torch.ones(2, 4))
    assert str(found.value) == str(wanted.value)
