"""torch's `scan`, `map` and `associative_scan`: captured in one graph, compiled, differentiated; where they can't be, eager's own run.

Eager's own of the first two call torch's compiler, so beside them a process of its own is compared.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

import capture
import meta


def _of(name: str) -> Callable[..., Any]:
    """The function of a module that is named like it."""
    found: Callable[..., Any] = getattr(importlib.import_module(f"torch._higher_order_ops.{name}"), name)
    return found


scan, map_, associative_scan = _of("scan"), _of("map"), _of("associative_scan")


def sums(x: Tensor, w: Tensor) -> Any:
    """Closes over a tensor; what is carried begins without a gradient and has one after a step."""
    return scan(lambda c, x: (c * w + x, c.sin() * 2), torch.zeros(3), x)


class State(NamedTuple):
    total: Tensor
    count: Tensor


def of_trees(x: Tensor, w: Tensor) -> Any:
    def step(state: State, given: dict[str, Any]) -> tuple[State, dict[str, list[Tensor]]]:
        total = state.total + given["x"] @ given["parts"][0]
        return State(total, state.count + 1), {"y": [total * 2, state.count * 2]}

    begin = State(torch.zeros(3), torch.tensor(0))
    return scan(
        step, begin, {"x": x, "parts": [torch.stack([w.diag()] * 2).repeat(x.shape[0], 1, 1)[::2]]}, reverse=True
    )


def mapped(x: Tensor, w: Tensor) -> Any:
    return map_(lambda x, k, n: {"a": (x * k).sin() + n, "b": (x.sum() + w.sum(), None)}, x + 1, w, 3)


def nested(x: Tensor, w: Tensor) -> Any:
    def row(x: Tensor) -> Any:
        return scan(lambda c, e: (c * 0.9 + e, c + w.sum()), torch.zeros(()), x)[1]

    return map_(row, x)


def products(x: Tensor, w: Tensor) -> Any:
    def combine(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return a[0] * b[0], a[1] * b[0] + b[1]

    return associative_scan(combine, (x, x * w), 0, combine_mode="generic")


def maxima(x: Tensor, w: Tensor) -> Any:
    return associative_scan(
        lambda a, b: torch.maximum(a, b) + 0 * w.sum(), x.cos(), 1, reverse=True, combine_mode="generic"
    )


def last(x: Tensor, w: Tensor) -> Any:
    """The function gives what it was given."""
    return associative_scan(lambda a, b: b, x * w, 0, combine_mode="generic")


PROGRAMS = [sums, of_trees, mapped, nested, products, maxima, last]


def plain_scan(step: Callable[..., Any], carry: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    """What eager's comes to, which takes seconds."""
    leaves, tree = tree_flatten(xs)
    rows = [tree_unflatten(row, tree) for row in zip(*leaves, strict=True)]
    made = []
    for row in reversed(rows) if reverse else rows:
        carry, y = step(carry, row)
        made.append(y)
    return carry, _stacked(made[::-1] if reverse else made)


def plain_map(function: Callable[..., Any], xs: Tensor, *more: Any) -> Any:
    return _stacked([function(x, *more) for x in xs])


def _stacked(rows: list[Any]) -> Any:
    return tree_map(lambda *each: None if each[0] is None else torch.stack(each), rows[0], *rows[1:])


def plainly(program: Callable[..., Any], given: list[Tensor]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "scan", plain_scan)
        patch.setitem(globals(), "map_", plain_map)
        return program(*given)


def inputs(rows: int, grad: bool) -> list[Tensor]:
    x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(rows))
    return [x.requires_grad_(grad), torch.tensor([0.5, -1.5, 2.0]).requires_grad_(grad)]


def gradients(got: Any, given: list[Tensor]) -> list[Tensor]:
    tensors = [leaf for leaf in tree_leaves(got) if leaf is not None and leaf.requires_grad]
    total: Any = sum((at + 1) * leaf.sum() for at, leaf in enumerate(tensors))
    found = torch.autograd.grad(total, given, allow_unused=True)
    return [torch.zeros_like(to) if each is None else each for each, to in zip(found, given, strict=True)]


@pytest.mark.parametrize(
    ("backend", "grad"), [("eager", True), ("aot_eager", True), ("inductor", True), ("inductor", False)]
)
def test_results_and_gradients_are_those_of_loops(backend: str, grad: bool) -> None:
    for program in PROGRAMS if grad else (of_trees, mapped, products):
        compiled = meta.compile(program, backend=backend, fullgraph=True)
        for rows in (4, 7, 2, 5):
            mine, eager = inputs(rows, grad), inputs(rows, grad)
            got, wanted = compiled(*mine), plainly(program, eager)
            torch.testing.assert_close(got, wanted)
            if grad:
                torch.testing.assert_close(gradients(got, mine), gradients(wanted, eager))
        assert compiled.session.report.graph_count == 2, program


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(3, 3)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.cell(x, h)
            return h, h * 2

        return scan(step, h, x)


def test_a_modules_parameters_get_gradients_in_a_step_of_training() -> None:
    torch.manual_seed(0)
    module = Recurrent()
    compiled = meta.compile(module, fullgraph=True)
    x, h = torch.rand(5, 2, 3), torch.zeros(2, 3)
    found = []
    for run in (compiled, lambda *given: plainly(module, list(given))):
        module.zero_grad()
        carry, rows = run(x, h)
        (carry.square().sum() + rows.sin().sum()).backward()
        found.append([carry, rows, *(parameter.grad for parameter in module.parameters())])
    torch.testing.assert_close(found[0], found[1])


def test_second_derivatives_where_what_is_carried_begins_without_a_gradient() -> None:
    for program in (sums, maxima):
        found = []
        for run in (meta.compile(program, fullgraph=True), lambda *given, of=program: plainly(of, list(given))):
            x, w = inputs(4, True)
            total = sum(leaf.sin().sum() for leaf in tree_leaves(run(x, w)))
            (first,) = torch.autograd.grad(total, w, create_graph=True)
            found.append(torch.autograd.grad((first * w).square().sum(), [x, w], allow_unused=True))
        torch.testing.assert_close(found[0], found[1])


LIST: list[int] = []
ZEROS = torch.zeros(3)
REFUSED: dict[str, Callable[[Tensor], Any]] = {
    "what it was given": lambda x: scan(lambda c, x: (c + x, x), ZEROS, x),
    "a view of it, or views": lambda x: map_(lambda x: x[:2], x),
    "writes to a tensor": lambda x: scan(lambda c, x: (c.add_(x) * 1, x * 2), ZEROS, x),
    "writes to a tensor from": lambda x: associative_scan(lambda a, b: a.add_(b), x.clone(), 0, combine_mode="generic"),
    "changes what is outside": lambda x: map_(lambda x: (LIST.append(1), x * 2)[1], x),
    "differ in metadata": lambda x: scan(lambda c, x: ((c + x).double(), x * 2), ZEROS, x),
    "results differ in metadata": lambda x: scan(lambda c, x: ((c + x).sum(), x * 2), ZEROS, x),
    "more than tensors": lambda x: map_(lambda x: 3, x),
    "gives no pair": lambda x: scan(lambda c, x: c + x, ZEROS, x),
    "different lengths": lambda x: scan(lambda c, x: (c + x[0], x[1] * 2), ZEROS, (x, torch.ones(5, 3))),
    "branch on a tensor's value": lambda x: map_(lambda x: (LIST.append(1), x * 2)[1] if x.sum() > 0 else x * 3, x),
    "effects outside the graph": lambda x: map_(lambda x: (compile("0", "", "eval"), x * 2)[1], x),
    "control flow over a function that changes what is outside": lambda x: map_(lambda x: (print(), x * 2)[1], x),
    "draws random numbers": lambda x: associative_scan(
        lambda a, b: a + torch.rand_like(b), x, 0, combine_mode="generic"
    ),
    "which only the run can tell": lambda x: associative_scan(torch.add, some(x), 0, combine_mode="generic"),
    "need to be on CUDA": lambda x: associative_scan(torch.add, x, 0),
}


def test_an_if_by_what_a_row_holds() -> None:
    found: list[tuple[Tensor, Tensor]] = []
    compiled = meta.compile(lambda x: map_(lambda x: x * 2 if x.sum() > 0 else x.sin(), x), fullgraph=True)
    for run in (compiled, lambda x: torch.stack([row * 2 if row.sum() > 0 else row.sin() for row in x])):
        x = torch.tensor([[1.0, 2.0], [-1.0, -3.0], [0.5, -2.0], [3.0, -1.0]], requires_grad=True)
        y = run(x)
        y.square().sum().backward()
        assert x.grad is not None
        found.append((y, x.grad))
    torch.testing.assert_close(*found)


def some(x: Tensor) -> Tensor:
    y = x[x.sum(1) > 0]
    torch._check(y.shape[0] != 0)
    return y


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_scan_of_a_graph_breaks_it(reason: str) -> None:
    with pytest.raises(capture.GraphBreakError, match=reason):
        meta.compile(REFUSED[reason], fullgraph=True)(torch.ones(4, 3))


def masked(x: Tensor) -> Any:
    return scan(lambda c, x: (c + x, c * x), ZEROS, some(x))


def test_over_rows_that_only_the_run_counts() -> None:
    compiled = meta.compile(masked, fullgraph=True)
    for rows in (4, 2):
        x = torch.ones(4, 3)
        x[rows:] = -1
        torch.testing.assert_close(compiled(x), plainly(masked, [x]))


def test_eagers_own_runs_where_the_graph_breaks() -> None:
    compiled = meta.compile(REFUSED["writes to a tensor from"], backend="eager")
    x = torch.rand(4, 3)
    torch.testing.assert_close(compiled(x), REFUSED["writes to a tensor from"](x))


def test_of_one_slice_an_associative_scan_is_what_it_was_given() -> None:
    def program(x: Tensor) -> Tensor:
        y: Tensor = associative_scan(torch.add, x, 0, combine_mode="generic")
        return y.add_(1)

    x = torch.ones(1, 3)
    meta.compile(program, fullgraph=True)(x)
    torch.testing.assert_close(x, torch.full((1, 3), 2.0))


BESIDE = """
import torch, capture, meta
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.map import map

capture.config.on_error = "raise"

def along_columns(x, w):
    begin = 1 + 0 * w.sum()  # without a gradient eager's drops, in some releases, those of what is carried
    return scan(lambda c, x: (c * 0.5 + x.sum() + w.sum(), x * c), begin, x, dim=1, reverse=True)

def detached(x, w):
    return scan(lambda c, x: (c + 1, x.detach().sin()), torch.zeros(3), x), map(lambda x, w: x.detach() * 2, x, w)

def printing(x, w):
    return scan(lambda c, x: ((print(), c + x)[1], x * 2), torch.zeros(3), x)

for program in (along_columns, detached):
    compiled = meta.compile(program, backend="eager", fullgraph=True)
    found = []
    for run in (compiled, program):
        x, w = torch.linspace(0, 1, 12).view(4, 3).requires_grad_(), torch.ones(3, requires_grad=True)
        leaves = torch.utils._pytree.tree_leaves(run(x, w))
        assert all(leaf.requires_grad for leaf in leaves)
        found.append([*leaves, *torch.autograd.grad(sum(leaf.sum() for leaf in leaves), (x, w), allow_unused=True)])
    assert [each is None for each in found[0]] == [each is None for each in found[1]], found
    for mine, theirs in zip(*found):
        assert mine is theirs is None or mine.stride() == theirs.stride()
        torch.testing.assert_close(mine, theirs)

raised = []
for run in (printing, printing, meta.compile(printing, backend="eager")):
    try:
        run(torch.ones(4, 3), None)
    except Exception as error:
        raised.append(type(error))
assert len({*raised}) == 1 and len(raised) == 3, raised
"""


def test_eagers_own_gives_and_refuses_the_same() -> None:
    """Its refusal leaves torch's frame hook beneath ours and over it, which is not to hand frames on for ever."""
    done = subprocess.run([sys.executable, "-c", BESIDE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
