"""Every small program gives captured what it gives eagerly: results, exceptions, effects on arguments; twice."""

from __future__ import annotations

import copy
from typing import Any

import programs
import pytest
import torch
from compared import run, same

import capture


def beside_work(fn: Any) -> Any:
    """The program, called where there is something to compute: one without a graph would run as it is, whatever its evaluation gave."""

    def with_work(x: torch.Tensor) -> Any:
        work = x + 1
        try:
            return fn(x), work
        except Exception as error:
            return type(error), error.args, work

    return with_work


@pytest.mark.parametrize("fn", programs.PROGRAMS, ids=lambda fn: fn.__name__)
def test_program(fn: Any) -> None:
    if not capture.report(check(fn)).graph_count:
        check(beside_work(fn))


def check(fn: Any) -> Any:
    capture.reset()
    compiled = capture.compile(fn)
    for x in (torch.arange(12.0).reshape(3, 4), -torch.ones(3, 4), torch.arange(12.0).reshape(3, 4)):
        expected = run(fn, x)
        got = run(compiled, copy.deepcopy(x))
        assert same(expected, got), f"{expected}\n{got}"
    return compiled


#: Programs that ask for something only the interpreter can do; all others are one graph.
BREAKS = {fn.__name__ for fn in programs.PROGRAMS if "break" in fn.__name__} | {
    "item_in_condition", "raises_shape_error", "raises_out", "attribute_error", "unbound",
    "deleted_variable", "many_breaks", "set_order",
}  # fmt: skip


@pytest.mark.parametrize("fn", [f for f in programs.PROGRAMS if f.__name__ not in BREAKS], ids=lambda f: f.__name__)
def test_no_break(fn: Any) -> None:
    capture.reset()
    compiled = capture.compile(fn, fullgraph=True)
    torch.manual_seed(0)
    compiled(torch.arange(12.0).reshape(3, 4))
