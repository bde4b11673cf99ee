"""Numbers and sizes that are in data stay in one graph, forward and backward, and one compile serves all of them."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import capture
import meta
from capture import GraphBreakError

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
W = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
#: x, positions, a mask: some rows, one row, no row, all rows; sums of the positions that are 6, 4, 4 and 4.
INPUTS = [
    (X, torch.tensor([1, 0, 2, 3]), torch.tensor([True, False, True, True])),
    (-X, torch.tensor([0, 3, 1, 0]), torch.tensor([False, True, False, False])),
    (X.abs(), torch.tensor([1, 1, 1, 1]), torch.tensor([False] * 4)),
    (-X.abs(), torch.tensor([2, 0, 0, 2]), torch.tensor([True] * 4)),
]
PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


@program
def numbers(x: Any, i: Any, m: Any, w: Any) -> Any:
    n, k, b = int(i.sum()), float(x.detach().sum()), bool(m.any())
    return x * n + k, n, k, b, i.sum().item() + 1, m.any().item(), torch.equal(x, x + 1), i.tolist(), bool(i[0])


@program
def made_of_a_number(x: Any, i: Any, m: Any, w: Any) -> Any:
    n = i.sum().item()
    return (
        torch.zeros(n, 3) + 1,
        torch.arange(n) * 2,
        torch.full((n, 2), 0.5),
        torch.ones(n // 2),
        x[:1].expand(n + 1, 6) if n >= 0 else x,
    )


@program
def parts_by_a_number(x: Any, i: Any, m: Any, w: Any) -> Any:
    n, k = i[0].item(), i[1].item()
    return x[:n] * 2, x[n:] + 1, x[:, n:k].sum(1), x[n] * 3, x[-1 - n], x.narrow(0, 0, n), x.topk(n)[0], x[..., n]


@program
def picked(x: Any, i: Any, m: Any, w: Any) -> Any:
    y = x[m]
    return y @ w, y.sum(0), y.softmax(-1), F.layer_norm(y, (6,)), y.view(-1, 3, 2) + 1, y.t().contiguous(), y * y.relu()


@program
def picked_by_masks_made_alike(x: Any, i: Any, m: Any, w: Any) -> Any:
    y = x * 2
    y[~m] += x[~m] + x[torch.logical_not(~~m)].sum(0)
    y[(i > 1) & m] *= x[(i > 1) & m]
    return y, x.masked_select(x > 0) * y.detach()[x > 0]


@program
def written_by_masks_made_alike(x: Any, i: Any, m: Any, w: Any) -> Any:
    rows = torch.index_put(x, ((i > 0) & m,), w[:, 0]), torch.index_put(x, ((i > 0) & m,), x.sum(0), accumulate=True)
    return *rows, torch.index_put(x * 2, (~m,), w.sum()), torch.index_put(x, (~m, i.argmax()), x.mean())


@program
def picked_by_masks_that_no_version_tells_of(x: Any, i: Any, m: Any, w: Any) -> Any:
    own, y = m.clone(), x.detach().clone()
    before = y[own], y[y > 0]
    own.data.logical_not_()
    y.data.neg_().add_(1)
    return *before, y[own] + 1, y[y > 0] * 2, x[own]


@program
def picked_and_joined(x: Any, i: Any, m: Any, w: Any) -> Any:
    y = x[m]
    return (
        torch.cat([y, x[~m]]),
        torch.stack([y, y * 2], 1),
        y[:, None] * y[None],
        y.new_zeros(y.shape[0], 3) + y[:, :3],
        F.pad(y, (1, 1)),
        torch.where(y > 0, y, 0.0),
        y.flip(0),
        y.sort(0)[0],
        x.masked_select(x > 0) * 2,
    )


@program
def places(x: Any, i: Any, m: Any, w: Any) -> Any:
    at = torch.where(m)[0]
    whole = torch.zeros(4, 6).index_add(0, at, (x[at] @ w) @ w.t())
    rows, columns = (x > 0).nonzero(as_tuple=True)
    return whole, x[rows, columns] * 2, torch.zeros(4).scatter_add(0, i[m], x[m][:, 0]), F.embedding(i[m], x), at


@program
def counted(x: Any, i: Any, m: Any, w: Any) -> Any:
    values, inverse, counts = torch.unique(i, return_inverse=True, return_counts=True)
    runs = torch.unique_consecutive(i)
    return values * 2, inverse + 1, counts, runs, torch.bincount(i, minlength=2) + 1, x[inverse] + 1


@program
def repeated(x: Any, i: Any, m: Any, w: Any) -> Any:
    return torch.repeat_interleave(x, i, dim=0) @ w


@program
def written(x: Any, i: Any, m: Any, w: Any) -> Any:
    y = x * 1
    y[m] = 0
    y[x > 1] = 5.0
    return y


@program
def experts(x: Any, i: Any, m: Any, w: Any) -> Any:
    out = torch.zeros_like(x)
    for e in range(4):
        at = torch.where(i == e)[0]
        out.index_add_(0, at, (x[at] @ w).relu() @ w.t())
    return out


@program
def parts_between_tensors(x: Any, i: Any, m: Any, w: Any) -> Any:
    out, ends = torch.zeros(4, 5), torch.cat([torch.zeros(1, dtype=torch.long), i.cumsum(0)])
    for e in range(2):
        start, end = ends[e], ends[e + 1]
        out[start:end] = x[start:end] @ w * (e + 1)
    return out


@program
def split_by_numbers(x: Any, i: Any, m: Any, w: Any) -> Any:
    return [part * 2 for part in torch.split(x, i.tolist())]


@program
def one_repeated_or_as_many(x: Any, i: Any, m: Any, w: Any) -> Any:
    """Three, three, one, and two, which eager refuses."""
    some = torch.arange(i.max().item()) * w.sum() + 1
    return some.expand(4, 3).softmax(1), some.expand(2, 4, 3).sum((0, 1)), some.expand(4, 3).t().contiguous()


@program
def attention_masked_by_a_number(x: Any, i: Any, m: Any, w: Any) -> Any:
    mask = torch.arange(i.max().item()) * w.sum()
    query, key = x.view(1, 1, 4, 6), x[:3].view(1, 1, 3, 6)
    return F.scaled_dot_product_attention(query, key, key * 2, attn_mask=mask.view(1, 1, 1, -1))


def _run(function: Any, inputs: Any, train: bool) -> Any:
    """The results and gradients, or the exception's class and message."""
    x, i, m = (t.clone() for t in inputs)
    w = W.clone().requires_grad_(train)
    x.requires_grad_(train)
    try:
        results = function(x, i, m, w)
    except (RuntimeError, IndexError) as error:
        if isinstance(error, capture.CaptureError):
            raise
        return type(error)
    leaves = [t for t in tree_leaves(results) if isinstance(t, torch.Tensor) and t.requires_grad]
    if leaves:
        sum(t.sum() * (n + 1) for n, t in enumerate(leaves)).backward()
    return results, x.grad, w.grad


@pytest.mark.parametrize(("backend", "train"), [("eager", False), ("inductor", False), ("inductor", True)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_serves_all_data(name: str, backend: str, train: bool) -> None:
    function = PROGRAMS[name]
    if name == "made_of_a_number":
        function = _promising(function)
    compiled = meta.compile(function, backend=backend, fullgraph=not train)
    for inputs in INPUTS:
        expected, found = _run(function, inputs, train), _run(compiled, inputs, train)
        if isinstance(expected, type):
            assert found is expected
            continue
        for one, other in zip(tree_leaves(expected), tree_leaves(found), strict=True):
            assert type(one) is type(other)
            torch.testing.assert_close(other, one, equal_nan=True)


def _promising(function: Callable[..., Any]) -> Callable[..., Any]:
    def promised(x: Any, i: Any, m: Any, w: Any) -> Any:
        torch._check(i.sum().item() >= 0)
        return function(x, i, m, w)

    return promised


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_promise_is_checked_by_the_compiled_program(backend: str) -> None:
    def promised(x: torch.Tensor, i: torch.Tensor) -> Any:
        n = i.item()
        torch._check(n >= 2, lambda: "at least two")
        torch._check_value(n < 5)
        return x[:n] + 1 if n >= 2 else x

    compiled = meta.compile(promised, backend=backend, fullgraph=True)
    x = torch.arange(6.0)
    assert compiled(x, torch.tensor(3)).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="at least two"):
        compiled(x, torch.tensor(1))
    with pytest.raises(ValueError) as caught:
        compiled(x, torch.tensor(5))
    assert "_check_value(n < 5)" in "".join(traceback.format_tb(caught.value.__traceback__))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_promise_that_two_sizes_are_equal_is_checked(backend: str) -> None:
    def sum_of(x: torch.Tensor, m: torch.Tensor) -> Any:
        y = x[m]
        torch._check(y.shape[0] == 3)
        return y + torch.arange(3.0)

    compiled = meta.compile(sum_of, backend=backend, fullgraph=True)
    x = torch.arange(4.0)
    m = torch.tensor([True, False, True, True])
    assert compiled(x, m).tolist() == sum_of(x, m).tolist()
    with pytest.raises(RuntimeError):
        compiled(x, ~m)


def test_a_decision_by_data_ends_the_graph_there() -> None:
    def decides(x: torch.Tensor, i: torch.Tensor) -> Any:
        n = int(i.sum())
        y = x * 2
        if n > 3:
            y += n  # an arm that does more than to compute
        return y - 1, n

    compiled = meta.compile(decides, backend="eager")
    for i in (torch.tensor([1, 1]), torch.tensor([4, 1])):
        (y, n), (want, count) = compiled(torch.ones(2), i), decides(torch.ones(2), i)
        assert y.tolist() == want.tolist() and n == count
    with pytest.raises(GraphBreakError, match="only the run can tell"):
        meta.compile(decides, backend="eager", fullgraph=True)(torch.ones(2), torch.tensor([4, 1]))


def test_rows_that_may_repeat_are_no_guess() -> None:
    """Whether 1 row is repeated or as many rows stand side by side as are there is for the run to tell."""

    def sum_of(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return x[m] + x

    compiled = meta.compile(sum_of, backend="eager")
    for m in (torch.tensor([True, False, False]), torch.tensor([True] * 3)):
        assert torch.equal(compiled(torch.arange(3.0), m), sum_of(torch.arange(3.0), m))


def test_a_backward_of_what_may_be_repeated_is_left_to_eager_at_that_call() -> None:
    """Torch's own backward of `expand` adds up nothing where it cannot tell, and takes the sizes for equal."""

    def masked(x: torch.Tensor, i: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(i.item()) * w
        attended = F.scaled_dot_product_attention(x * 2, x, x, attn_mask=mask.view(1, 1, 1, -1))
        return (attended.relu() + w).sum()

    compiled = meta.compile(masked, backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", capture.CaptureWarning)
        compiled(torch.ones(1, 1, 3, 2, requires_grad=True), torch.tensor(3), torch.tensor(0.5, requires_grad=True))
    for n in (3, 1):
        found = []
        for function in (masked, compiled):
            x, w = torch.arange(6.0).view(1, 1, 3, 2).requires_grad_(), torch.tensor(0.5, requires_grad=True)
            function(x, torch.tensor(n), w).backward()
            found.append((x.grad, w.grad))
        torch.testing.assert_close(found[0], found[1])
    (break_,) = meta.report(compiled).breaks
    assert "scaled_dot_product_attention" in str(break_)


def test_a_layout_that_one_row_would_have_is_not_foretold() -> None:
    def asks(x: torch.Tensor, m: torch.Tensor) -> Any:
        return x[m].t().is_contiguous()

    compiled = meta.compile(asks, backend="eager")
    for m in (torch.tensor([True, False]), torch.tensor([True, True])):
        assert compiled(torch.ones(2, 3), m) is asks(torch.ones(2, 3), m)


def test_what_only_the_run_can_refuse_is_not_taken_from_its_handler() -> None:
    def handled(x: torch.Tensor, i: torch.Tensor) -> Any:
        try:
            return x * (6 // i.item())
        except ZeroDivisionError as error:
            return str(error)

    compiled = meta.compile(handled, backend="eager")
    assert torch.equal(compiled(torch.ones(2), torch.tensor(2)), torch.full((2,), 3.0))
    assert compiled(torch.ones(2), torch.tensor(0)) == handled(torch.ones(2), torch.tensor(0))


def test_the_switch_ends_graphs_at_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "capture_data_dependent", False)
    with pytest.raises(GraphBreakError, match="item"):
        meta.compile(lambda x: x * x.max().item(), backend="eager", fullgraph=True)(torch.ones(2))


@torch.library.custom_op("data_dependent::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    """The elements above 0."""
    return x[x > 0].clone()


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_an_operator_of_the_users_says_that_a_size_is_in_data(backend: str) -> None:
    compiled = meta.compile(lambda x: positive(x) * 2 + 1, backend=backend, fullgraph=True)
    for x in (torch.tensor([1.0, -1.0, 2.0]), torch.tensor([-1.0, -2.0, -3.0])):
        assert torch.equal(compiled(x), x[x > 0] * 2 + 1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_copies_by_a_size_in_data_is_left_to_eager_where_it_is_written_to(backend: str) -> None:
    """Of 1 row the transposed tensor is contiguous, so that eager's `contiguous` and `reshape` share its memory."""

    def writes(x: torch.Tensor, m: torch.Tensor) -> Any:
        y = x[m]
        z = y.t().contiguous()
        z.mul_(2)
        w = y.t().reshape(-1)
        y.add_(5)
        return y, z, w

    def writes_after_a_break(x: torch.Tensor, m: torch.Tensor) -> Any:
        y = x[m]
        z = y.t().contiguous()
        compile("0", "", "eval")
        return y, z.add_(1)

    for function in (writes, writes_after_a_break):
        compiled = meta.compile(function, backend=backend)
        for m in (torch.tensor([True, False, True]), torch.tensor([False, True, False]), torch.tensor([False] * 3)):
            x = torch.arange(12.0).view(3, 4)
            for one, other in zip(function(x, m), compiled(x, m), strict=True):
                assert one.tolist() == other.tolist()
    meta.compile(lambda x, m: x[m].t().contiguous() + 1, backend=backend, fullgraph=True)(x, m)


def test_strides_of_what_may_be_empty_are_read_from_it() -> None:
    compiled = meta.compile(lambda x, m: (x[:, m] + 1).stride(), backend="aot_eager")
    for m in (torch.tensor([True, False, True]), torch.tensor([False] * 3)):
        assert compiled(torch.ones(2, 3, 4), m) == (torch.ones(2, 3, 4)[:, m] + 1).stride()


def test_a_sum_of_products_of_1_row_repeats_it() -> None:
    def products(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ij,ik->jk", x[m], x[~m])

    compiled = meta.compile(products, backend="aot_eager")
    x = torch.arange(12.0).view(3, 4)
    for m in (torch.tensor([True, False, True]), torch.tensor([False, True, False])):
        assert torch.equal(compiled(x, m), products(x, m))
    meta.compile(lambda x, m: torch.einsum("ij,ik->jk", x[m], x[m]), backend="aot_eager", fullgraph=True)(x, m)


def test_a_number_repeated_over_no_row_takes_no_memory() -> None:
    def writes(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        y = x[m]
        y[0:1] = 1
        return y

    compiled = meta.compile(writes, backend="inductor", fullgraph=True)
    x = torch.arange(12.0).view(3, 4)
    for m in (torch.tensor([True, False, True]), torch.tensor([False] * 3)):
        assert torch.equal(compiled(x, m), writes(x, m))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_promise_that_turns_on_no_number_in_data_is_a_guard(backend: str) -> None:
    """`u - n // 2 + k == u`, which holds for n // 2 == k: other sizes are eager's error."""

    def parts(x: torch.Tensor, y: torch.Tensor) -> Any:
        found = x.nonzero() * 1.0
        return found.split([len(found) - len(y) // 2, 3])[1]

    compiled = meta.compile(parts, backend=backend, dynamic=True)
    for n in (6, 7, 8, 5, 6, 9, 7):
        x, y = torch.randn(5, 4), torch.randn(n, 2)
        if n // 2 == 3:
            assert torch.equal(compiled(x, y), parts(x, y))
            continue
        with pytest.raises(RuntimeError, match="sum exactly"):
            parts(x, y)
        with pytest.raises(RuntimeError, match="sum exactly"):
            compiled(x, y)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_gradient_is_laid_out_as_a_result_whose_length_nobody_can_guess(backend: str) -> None:
    def between(x: torch.Tensor, i: torch.Tensor) -> Any:
        y = x[:, None] * x[torch.arange(i.min(), i.max())]
        return y.transpose(0, 1), y.permute(2, 0, 1), y.permute(1, 2, 0) * 2

    compiled = meta.compile(between, backend=backend, fullgraph=True)
    for rows, i, _ in INPUTS:
        gradients = []
        for function in (between, compiled):
            x = rows.clone().requires_grad_()
            results = function(x, i)
            weights = [torch.arange(float(r.numel())).view(r.shape) for r in results]
            sum((r * weight).sum() for r, weight in zip(results, weights, strict=True)).backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_length_that_the_backward_finds_in_data_is_no_matter_of_the_forward(backend: str) -> None:
    def filled(out: torch.Tensor, other: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> Any:
        out[mask] = values
        other[mask] = values * 2
        return out, other

    compiled = meta.compile(filled, backend=backend, fullgraph=True)
    for share in (-1.0, 0.0, 0.5):
        mask = torch.rand(6, 4) > share
        rows, more, values = torch.randn(6, 4), torch.randn(6, 4), torch.randn(int(mask.sum()))
        leaves = [each.requires_grad_() for each in (rows, more, values)]
        gradients = []
        for function in (filled, compiled):
            # Not the leaves themselves: what made the values asks of their gradient how long it is.
            results = function(rows * 1, more * 1, mask, values * 1)
            gradients.append(torch.autograd.grad(sum(r.square().sum() for r in results), leaves))
        torch.testing.assert_close(*gradients)


def scaled_rows(rows: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    picked = data[data > 0]
    return (rows * picked.unsqueeze(1)).sum(0) * picked.sum()


def two_lengths(first: torch.Tensor, second: torch.Tensor) -> Any:
    x, y = first[first > 0], second[second > 0]
    return torch.where(x > y, x, y) + x.sum(), x + y, x.clone().add_(y)


def with_twice_as_many(first: torch.Tensor, second: torch.Tensor, third: torch.Tensor) -> torch.Tensor:
    return torch.cat([first[first > 0], second[second > 0]]) * third[third > 0].repeat(2)


ALIKE: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "a length and a known one": (
        scaled_rows,
        [(torch.ones(3, 2), torch.tensor(d)) for d in ([1.0, 2, 3, -1], [-1.0, 2, -3], [-1.0, 2, 3], [1.0, 1, -1, 4])],
    ),
    "two lengths": (
        two_lengths,
        [
            (torch.tensor(a), torch.tensor(b))
            for a, b in (
                ([1.0, 2, -1], [1.0, 2]),
                ([1.0, -1], [2.0, 3]),
                ([1.0, 2], [1.0]),
                ([1.0], [1.0]),
                ([1.0, 2], [1.0, 2, 3]),
            )
        ],
    ),
    "a length of those found before it": (
        with_twice_as_many,
        [
            tuple(map(torch.tensor, lengths))
            for lengths in (
                ([1.0, 2, 3], [4.0, -1], [1.0, 2]),
                ([1.0, -2], [2.0, -1], [3.0, -1]),
                ([1.0, 2, 3], [4.0, 5], [1.0, 2]),
            )
        ],
    ),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", list(ALIKE))
def test_what_is_combined_by_element_is_held_to_be_of_one_length(name: str, backend: str) -> None:
    fn, inputs = ALIKE[name]
    compiled = meta.compile(fn, backend=backend, fullgraph=True)
    for given in inputs:
        outcomes = []
        for function in (fn, compiled):
            leaves = [each.clone().requires_grad_() for each in given]
            try:
                result = function(*[each * 1 for each in leaves])
            except RuntimeError as error:
                outcomes.append(str(error))
                continue
            results = result if isinstance(result, tuple) else (result,)
            sum(r.square().sum() for r in results).backward()
            outcomes.append([*(r.detach() for r in results), *(leaf.grad for leaf in leaves)])
        if isinstance(outcomes[0], str):
            assert outcomes[0] == outcomes[1]
        else:
            torch.testing.assert_close(*outcomes)


def test_a_length_of_one_after_what_cannot_be_taken_back_is_no_check() -> None:
    def fn(rows: torch.Tensor, data: torch.Tensor, kept: list[Any]) -> Any:
        kept.append(1)
        rows.add_(1)
        try:
            return rows * data[data > 0].unsqueeze(1)
        except RuntimeError:
            return None

    compiled = meta.compile(fn)
    for d in ([1.0, 2, 3], [-1.0, 2, -3], [-1.0, 2, 3]):
        results = []
        for function in (fn, compiled):
            kept: list[Any] = []
            rows = torch.ones(3, 2)
            results.append((function(rows, torch.tensor(d), kept), kept, rows))
        assert str(results[0]) == str(results[1])


SHAPES: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "reshape": lambda x, n: x.reshape(n, 2) + 1,
    "whole": lambda x, n: x.view(n) * 2,
    "inner": lambda x, n: x.view(2, -1).view(n, 2, 3).sum(1),
    "transposed": lambda x, n: x.view(3, 4).t().reshape(2, n).cumsum(1),
    "beside another": lambda x, n: x.view(n, -1).sum(0),
    "picked": lambda x, n: x[x > -9].view(n, 2) * 2,
    "its length": lambda x, n: (y := x.view(2, n), y.shape[1], x.new_zeros(y.shape[1])),
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_length_in_data_may_be_what_stands_for_the_others(name: str, backend: str) -> None:
    def shaped(x: torch.Tensor, n: torch.Tensor) -> Any:
        return SHAPES[name](x, n.item())

    compiled, x = meta.compile(shaped, backend=backend, fullgraph=True), torch.randn(12)
    for number in (6, 12, 2, -1, 5, -2, 0):
        try:
            wanted = shaped(x, torch.tensor(number))
        except RuntimeError:
            with pytest.raises(RuntimeError):
                compiled(x, torch.tensor(number))
        else:
            torch.testing.assert_close(compiled(x, torch.tensor(number)), wanted)


def test_two_lengths_in_data_of_which_one_may_stand_for_the_others_end_the_graph() -> None:
    def shaped(x: torch.Tensor, n: torch.Tensor) -> Any:
        return x.view(n.tolist()) * 2

    compiled, x = meta.compile(shaped, backend="eager"), torch.randn(12)
    for lengths in ([3, 4], [-1, 4], [2, -1]):
        assert torch.equal(compiled(x, torch.tensor(lengths)), shaped(x, torch.tensor(lengths)))


def quantiles(x: Any, q: Any) -> Any:
    return torch.quantile(x, q, dim=1).sum() + torch.nanquantile(x, 0.3, dim=0).sum() * 2


def variances(x: Any, v: Any) -> Any:
    return F.gaussian_nll_loss(x, x * 2, v.expand(6, 4).t(), full=True)


def scaled(x: Any, v: Any) -> Any:
    if not (v > 0).all():
        raise ValueError(f"expected scales, but got {v}")
    return (
        torch.distributions.Normal(x, v.mean()).log_prob(x + 1)
        + torch.distributions.Categorical(logits=x).entropy()[:, None]
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("fn", [quantiles, variances, scaled], ids=lambda fn: fn.__name__)
def test_what_looks_at_data_to_refuse_it_is_one_graph(fn: Callable[..., Any], backend: str) -> None:
    compiled = meta.compile(fn, backend=backend, fullgraph=True)
    for v in (torch.tensor([0.2, 0.9, 0.5, 0.1]), torch.tensor([0.2, 1.9, -0.5, 0.1]), torch.ones(4)):
        told = []
        for each in (fn, compiled):
            x = X.clone().requires_grad_()
            try:
                found = each(x, v)
            except (RuntimeError, ValueError) as error:
                told.append((type(error), str(error)))
            else:
                told.append((found.detach(), *torch.autograd.grad(found.sum(), x)))
        if isinstance(told[0][0], type):
            assert told[0] == told[1]
        else:
            torch.testing.assert_close(told[1], told[0])
    assert capture.report(compiled).graph_count == 1


def filled_up(x: Any, n: Any) -> Any:
    k = int(n)
    return x.view(k, 2) + torch.ones(k, 2)


def filled_up_before(x: Any, n: Any) -> Any:
    k = n.item()
    return torch.ones(k, 2) * x.view(k, 2), x.unflatten(0, (k, 2)) - torch.zeros(k, 1)


def filled_up_by_places(x: Any, n: Any) -> Any:
    k = len(torch.nonzero(x > 0))
    return x[x > 0].view(k, 1) + torch.ones(k, 2)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("fn", [filled_up, filled_up_before, filled_up_by_places], ids=lambda fn: fn.__name__)
def test_a_length_in_data_of_a_view_is_that_of_others(fn: Callable[..., Any], backend: str) -> None:
    compiled = meta.compile(fn, backend=backend, fullgraph=True)
    for x in (X[0], -X[0]):
        torch.testing.assert_close(compiled(x, torch.tensor(3)), fn(x, torch.tensor(3)))
    if fn is filled_up:
        for wrong in (torch.tensor(-1), torch.tensor(4)):
            for each in (fn, compiled):
                with pytest.raises(
                    RuntimeError, match="negative dimension" if wrong < 0 else "invalid for input of size 6"
                ):
                    each(X[0], wrong)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_tensor_is_repeated_as_often_as_data_says(backend: str) -> None:
    """The number goes in as a tensor, or as what it holds; below zero eager refuses it, and so does the graph."""

    def program(x: Any, i: Any) -> Any:
        return x.repeat(2, i.max() + 1) * 2, x[0].repeat(i.sum().item())

    compiled = meta.compile(program, backend=backend, fullgraph=True)
    for _, i, _ in INPUTS:
        for found, wanted in zip(compiled(X, i), program(X, i), strict=True):
            torch.testing.assert_close(found, wanted)
    for each in (program, compiled):
        with pytest.raises(RuntimeError, match="negative dimension"):
            each(X, torch.tensor([-5, -3, -2, -4]))
