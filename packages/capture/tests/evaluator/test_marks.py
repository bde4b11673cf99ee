"""Marks on sizes: what one compile serves, whatever `dynamic` is, and the error where the program breaks the promise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture
from capture import Dim, MarkError, constrain_range, mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic

Program = Callable[..., torch.Tensor]


def marked(rows: int, mark: Callable[..., None] = mark_dynamic, *args: Any, **kwargs: Any) -> torch.Tensor:
    x = torch.randn(rows, 4)
    mark(x, 0, *args, **kwargs)
    return x


def compiles(fn: Program, *calls: Any, dynamic: bool | None = None) -> list[int]:
    """How many captures there are after each call."""
    compiled = capture.compile(fn, dynamic=dynamic)
    counts = []
    for args in calls:
        args = args if isinstance(args, tuple) else (args,)
        torch.testing.assert_close(compiled(*args), fn(*args))
        counts.append(compiled.session.report.graph_count)
    return counts


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def branches(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.size(0) == 3 else x - 1


def does_more(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.size(0) == 3 else (x - 1).double()


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_a_mark_counts_whatever_dynamic_is(dynamic: bool | None) -> None:
    calls = [marked(3), marked(5), torch.randn(7, 4)]
    assert compiles(double, *calls, dynamic=dynamic) == [1, 1, 1]
    assert compiles(double, *(marked(n, maybe_mark_dynamic) for n in (3, 5)), dynamic=dynamic) == [1, 1]
    assert compiles(double, *(marked(n, mark_static) for n in (3, 5, 7)), dynamic=dynamic) == [1, 2, 3]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("on_error", ["fallback", "raise"])
def test_a_promise_that_the_program_breaks_is_an_error_at_every_call(
    fullgraph: bool, on_error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture.config, "on_error", on_error)
    compiled = capture.compile(branches, fullgraph=fullgraph)
    for _ in range(2):
        with pytest.raises(MarkError) as caught:
            compiled(marked(3))
        line = branches.__code__.co_firstlineno + 1
        assert str(caught.value) == (
            "x.size(0) is marked dynamic, but the program was specialised to 3\n"
            f"    since x.size(0) == 3, from test_marks.py:{line} in branches\n"
            "    Compute with the size instead of deciding by it there, or mark it with maybe_mark_dynamic, "
            "which lets it become a constant."
        )
    x = marked(5)  # any size but that one: no promise is broken
    torch.testing.assert_close(compiled(x), x - 1)


def test_a_mark_that_may_be_broken() -> None:
    assert compiles(branches, marked(3, maybe_mark_dynamic), marked(5), marked(7)) == [1, 2, 2]


def test_the_error_names_the_operator() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.view(8, 4)

    with pytest.raises(MarkError, match=r"x.size\(0\) == 8 by aten.view, from test_marks.py:\d+ in fn"):
        capture.compile(fn)(marked(8))


def test_the_error_shows_no_way_through_the_compiler() -> None:
    with pytest.raises(MarkError) as caught:
        capture.compile(branches)(marked(3))
    assert [entry.name for entry in caught.traceback if "capture/src" in str(entry.path)] in (
        [],
        ["callback", "answer"],
    )
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_product_that_must_be_a_number_leaves_few_sizes() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.view(8, 4)

    with pytest.raises(MarkError, match=r"few sizes only\n    since x.size\(0\)\*x.size\(1\) == 32 by aten.view, from"):
        capture.compile(fn, dynamic=True)(marked(8))


def test_the_error_is_raised_after_a_graph_break_too() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        compile("0", "", "eval")
        return x.view(8, 4)

    with pytest.raises(MarkError, match="specialised to 8"):
        capture.compile(fn)(marked(8))


def test_a_size_that_must_equal_one_that_is_fixed() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    with pytest.raises(MarkError, match=r"since x.size\(0\) == 3"):
        capture.compile(fn)(marked(3), torch.randn(3, 4))
    # Two that are not fixed may be equal: one compile serves all sizes.
    assert compiles(fn, (marked(3), marked(3)), (marked(5), marked(5))) == [1, 1]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (lambda x: x + 1 if x.size(0) <= 6 else x, "captured for sizes from 2 to 6 only\n    since x.size(0) <= 6,"),
        (
            lambda x: x + 1 if x.size(0) % 4 == 0 else x,
            "captured for sizes from 4 to 8 only\n    since x.size(0) % 4 == 0,",
        ),
        (lambda x: x + 1 if x.size(0) == 7 else x, "not captured for 7\n    since x.size(0) != 7,"),
    ],
)
def test_fewer_sizes_than_promised(program: Program, words: str) -> None:
    with pytest.raises(MarkError) as caught:
        capture.compile(program)(marked(4, min=2, max=8))
    assert f"x.size(0) is marked dynamic, from 2 to 8, but the program was {words}" in str(caught.value)
    compiles(program, marked(4))  # without a range nothing was promised but that it is no constant


def test_a_range_that_the_program_keeps() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.size(0) <= 8 and x.size(0) * 2 >= 4 and (x.size(0) * 4) % 2 == 0 else x

    assert compiles(fn, marked(4, min=2, max=8), *(torch.randn(n, 4) for n in (2, 8))) == [1, 1, 1]


def test_zero_and_one_are_compiled_for_by_themselves() -> None:
    assert compiles(double, *(marked(n) for n in (1, 3, 0, 5, 1, 0))) == [1, 2, 3, 3, 3, 3]


def test_an_old_compile_that_fits_serves_a_tensor_marked_later() -> None:
    assert compiles(double, torch.randn(3, 4), marked(3), marked(5), marked(7)) == [1, 1, 2, 2]
    with pytest.raises(MarkError):
        compiles(branches, torch.randn(5, 4), marked(3))


def test_dimensions_of_one_name_have_one_size() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y]) if x.size(0) == y.size(0) else x

    batch = Dim("batch", min=2, max=64)

    def inputs(first: int, second: int) -> tuple[torch.Tensor, ...]:
        return tuple(marked(n, mark_dynamic, batch) for n in (first, second))

    compiled = capture.compile(fn)
    compiled(*inputs(3, 3))
    compiled(*inputs(64, 64))
    assert compiled.session.report.graph_count == 1
    assert [str(g) for g in compiled.session.report.graphs[0].shape_env.guards] == []
    with pytest.raises(MarkError, match=r"y.size\(0\) and x.size\(0\) are both marked 'batch', and are 6 and 5"):
        compiled(*inputs(5, 6))
    x, y = torch.randn(5, 4), torch.randn(6, 4)
    torch.testing.assert_close(compiled(x, y), x)  # nothing was promised of these


def test_dimensions_of_two_names_are_two_sizes() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    with pytest.raises(MarkError, match=r"dynamic as '(a|b)', but it must equal .\.size\(0\), which is marked '(a|b)'"):
        capture.compile(fn)(marked(3, mark_dynamic, "a"), marked(3, mark_dynamic, "b"))


def test_marks_of_torch_are_read() -> None:
    """What `torch._dynamo.mark_dynamic` and its like leave on a tensor."""

    def with_attributes(rows: int, **attributes: Any) -> torch.Tensor:
        x = torch.randn(rows, 4)
        vars(x).update(attributes)
        return x

    def dynamic(rows: int) -> torch.Tensor:
        return with_attributes(rows, _dynamo_dynamic_indices={0}, _dynamo_dynamic_range=set())

    assert compiles(double, dynamic(3), dynamic(5)) == [1, 1]
    assert compiles(double, *(with_attributes(n, _dynamo_static_indices={0}) for n in (3, 5)), dynamic=True) == [1, 2]
    with pytest.raises(MarkError):
        compiles(branches, dynamic(3))
    assert compiles(branches, with_attributes(3, _dynamo_weak_dynamic_indices={0}), dynamic(5)) == [1, 2]


def test_marks_that_the_program_sets_count_from_there_on() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        mark_static(y, 0)
        return y + 1

    assert compiles(fn, *(torch.randn(n, 4) for n in (3, 5)), dynamic=True) == [2, 3]


def test_an_unbacked_size_has_one_compile_for_all_sizes() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).relu().sum(1) * x.size(0)

    assert compiles(fn, *(marked(n, mark_unbacked) for n in (5, 1, 0, 12))) == [1, 1, 1, 1]
    assert compiles(fn, *(marked(n, mark_unbacked) for n in (0, 3)), dynamic=True) == [1, 1]
    ranged = [marked(n, mark_unbacked, min=0, max=6) for n in (5, 1)]
    assert compiles(fn, *ranged, torch.randn(7, 4)) == [1, 1, 2]


def test_an_unbacked_size_ends_the_graph_where_the_program_decides_by_it() -> None:
    assert compiles(does_more, marked(3, mark_unbacked), marked(5, mark_unbacked), marked(9)) == [2, 3, 3]
    with pytest.raises(capture.GraphBreakError, match="only the run can tell"):
        capture.compile(does_more, fullgraph=True)(marked(3, mark_unbacked))
    with pytest.raises(
        MarkError, match=r"marked unbacked, but the program was specialised to 8\n    since x.size\(0\) == 8"
    ):
        capture.compile(lambda x: x.view(8, 4) + 1)(marked(8, mark_unbacked))


def test_a_decision_by_an_unbacked_size_whose_arms_only_compute_is_in_the_graph() -> None:
    assert compiles(branches, marked(3, mark_unbacked), marked(5, mark_unbacked), marked(9)) == [1, 1, 1]


def test_a_range_of_a_number_that_only_the_run_can_tell_is_checked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "capture_data_dependent", True)

    def fn(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        n = counts.max().item()
        constrain_range(n, 0, max=3)
        return x[:n] * 2

    compiled = capture.compile(fn, fullgraph=True)
    x = torch.arange(3.0)
    for count in (2, 0, 3):
        torch.testing.assert_close(compiled(x, torch.tensor([count, 0])), x[:count] * 2)
    with pytest.raises(ValueError, match="not within 0 to 3"):
        compiled(x, torch.tensor([4, 0]))
    (graph,) = capture.report(compiled).graphs
    (size,) = graph.sizes
    assert re.fullmatch(r"u0: may be 0 to 3, found in data( by aten[.\w]+)?, from test_marks.py:\d+ in fn", size)


def test_a_range_of_a_number_is_a_guard() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        constrain_range(x.size(0), 2, max=6)
        return x + 1 if x.size(0) < 7 else x

    compiled = capture.compile(fn, dynamic=True, fullgraph=True)
    for rows in (3, 6):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), x + 1)
    assert compiled.session.report.graph_count == 1
    with pytest.raises(ValueError, match="7 is not within 2 to 6"):
        capture.compile(fn, dynamic=True)(torch.randn(7, 4))
