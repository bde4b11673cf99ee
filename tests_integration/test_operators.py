"""Operators of torch's database that were wrong or refused once, compiled with generated kernels beside eager."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("expecttest")  # what torch's operator samples import
import torch

import meta
from benchmarks.operators.cell import run_cell
from benchmarks.operators.judge import errors, judge
from benchmarks.operators.samples import (
    FACTORS,
    USUAL,
    alike,
    applies,
    widened,
    without_unwritten,
    without_unwritten_rows,
)

ONCE_WRONG = (
    "split_with_sizes_copy unbind_copy nn.functional.embedding_bag resize_as_ index_put index_fill cdist linalg.eigvals "
    "nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.hardtanh native_dropout_backward "
    "nn.functional.fractional_max_pool3d histogram ormqr"
).split()

LEFT = {"resize_as_": "it changes a storage", "index_fill": "the gradient of a value reads which positions repeat"}
"""What eager runs, by whole calls of the operator, and why."""


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_results_and_gradients_are_eagers(name: str) -> None:
    for dtype in USUAL:
        for kind in ("forward", "gradients"):
            if applies(name, dtype, kind):
                cell = run_cell(name, dtype, kind, 4)
                assert cell.verdict == "right", (dtype, kind, cell.verdict, cell.message)
                assert not cell.left or name in LEFT, (dtype, kind, cell.left)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("nn.functional.normalize", "float16"), ("nn.functional.normalize", "bfloat16"), ("__rpow__", "bfloat16")],
)
def test_a_result_nearer_to_float64_than_eagers_is_right(name: str, dtype: str) -> None:
    cell = run_cell(name, dtype, "gradients", 4)
    assert (cell.verdict, cell.left) == ("right", ""), cell.message


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.householder_product(x, x.diagonal()),
        lambda x: torch.nn.functional.mse_loss(x, torch.zeros(5, 4), reduction="none"),
        lambda x: torch.nn.functional.huber_loss(x, torch.zeros(5, 4)),
        lambda x: torch.nn.functional.smooth_l1_loss(x, torch.zeros(5, 4)),
    ],
    ids=["householder_product", "mse_loss", "huber_loss", "smooth_l1_loss"],
)
def test_gradients_of_transposed_matrices_lie_as_eagers(function) -> None:
    x = torch.rand(4, 5).t().requires_grad_()

    def gradient(run) -> torch.Tensor:
        return torch.autograd.grad(run(x).square().sum(), x)[0]

    assert judge([gradient(meta.compile(function))], [gradient(function)], None) == ("right", "")


def test_the_judge_where_eager_overflows() -> None:
    exact = torch.tensor([3.0, 1e8, 0.5], dtype=torch.float64)
    eager = torch.tensor([math.inf, math.nan, 0.5], dtype=torch.float16)
    right = torch.tensor([3.0, math.inf, 0.5], dtype=torch.float16)
    assert judge([right], [eager], [exact]) == ("right", "")
    assert judge([right[:1]], [eager[:1]], [exact[:1]]) == ("right", "")
    for at, wrong in enumerate((-math.inf, 3.0, math.nan)):
        found = right.clone()
        found[at] = wrong
        assert judge([found], [eager], [exact])[0] == "values"


def test_the_judge_where_eager_has_a_number_for_what_is_none() -> None:
    x, power = torch.tensor([-2.0], dtype=torch.bfloat16), torch.tensor([-7.96875], dtype=torch.bfloat16)
    eager, exact = x ** (power - 1), x.double() ** (power.double() - 1)  # -8.96875 is -9 in bfloat16
    assert exact.isnan().all() and eager.isfinite().all()
    assert judge([torch.full_like(eager, math.nan)], [eager], [exact]) == ("right", "")
    assert judge([eager.clone()], [eager], [exact]) == ("right", "")
    assert judge([eager + 1], [eager], [exact])[0] == "values"
    assert judge([torch.full_like(eager, math.inf)], [eager], [exact])[0] == "values"


def test_of_few_elements_eagers_error_is_that_for_calls_alike() -> None:
    """Two roundings of one number may be alike there, and their difference be exact, by chance."""
    for dtype in (torch.float16, torch.bfloat16):
        exact, eagers = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=dtype)
        found = eagers + torch.finfo(dtype).eps
        assert judge([found], [eagers], [exact])[0] == "values"
        assert judge([found], [eagers], [exact], elsewhere=[torch.finfo(dtype).eps]) == ("right", "")
        assert judge([50 * found], [eagers], [exact], elsewhere=[torch.finfo(dtype).eps])[0] == "values"
        many = [t.expand(100) for t in (found, eagers, exact)]  # which say themselves how eager rounds
        assert judge([many[0]], [many[1]], [many[2]], elsewhere=[torch.finfo(dtype).eps])[0] == "values"
    assert errors([torch.tensor([1.0, math.inf]), 3], [torch.tensor([1.5, 2.0]).double(), 3]) == [0.5, 0.0]


def test_calls_alike_are_smaller_by_one_factor() -> None:
    rows = torch.rand(3, 1, requires_grad=True).expand(3, 2)
    whole = torch.arange(3)
    for factor in FACTORS:
        ((others, (index,), kwargs),) = alike([(rows, (whole,), {"n": 2})], factor)
        assert others.shape == rows.shape and others.stride() == rows.stride() and others.requires_grad
        factors = (others / rows).detach()
        assert torch.allclose(factors, torch.full((3, 2), factor))
        assert torch.equal(index, whole) and kwargs == {"n": 2}


def test_the_judge_tells_what_differs() -> None:
    x = torch.arange(6, dtype=torch.float32).view(2, 3)
    assert judge([x], [x.clone()], None) == ("right", "")
    assert judge([x], [x + 1], None)[0] == "values"
    assert judge([x], [x + 1], None, values=False)[0] == "right"
    assert judge([x], [x.double()], None)[0] == "dtype"
    assert judge([x], [x.view(3, 2)], None)[0] == "sizes"
    assert judge([x], [x.t().contiguous().t()], None)[0] == "strides"
    assert judge([x, x], [x], None)[0] == "sizes"
    # Eager's own error is what a result may have.
    exact = x.double()
    assert judge([x + 3e-3], [x + 1e-3], [exact])[0] == "right"
    assert judge([x + 9e-3], [x + 1e-3], [exact])[0] == "values"


def test_in_float64_nothing_is_rounded_on_the_way() -> None:
    """A dtype that a call is told is no more the arguments' then: eager would refuse it, and there would be no judge."""
    given = torch.rand(3, 4, dtype=torch.float16), torch.rand(3, 4, dtype=torch.float16)
    ((grad, (out, *rest), _),) = widened([(given[0], (given[1], -1, torch.float16), {})])
    exact = torch.ops.aten._softmax_backward_data(grad, out, *rest)
    assert exact.dtype is torch.float64
    product = given[0] * given[1]  # eager on a GPU rounds it to a half
    rounded = product.float() - given[1].float() * product.float().sum(-1, True)
    unrounded = torch.ops.aten._softmax_backward_data(*given, -1, torch.float16)
    assert judge([unrounded], [rounded.half()], [exact]) == ("right", "")


def test_memory_that_nothing_was_written_to_says_nothing() -> None:
    results = tuple(torch.full((2,), float(at)) for at in range(5))
    name = "torch.ops.aten._flash_attention_forward"
    for dropped, places in ((0.0, {2, 3}), (0.5, {3})):
        found = without_unwritten(name, (results[0], (), {"dropout_p": dropped}), results)
        assert {at for at, value in enumerate(found) if not torch.equal(value, results[at])} == places
    assert without_unwritten("add", (results[0], (), {}), results) is results


def test_keys_behind_the_last_sequence_have_no_gradient() -> None:
    q, k, v = (torch.ones(1, 6, 2, 4) for _ in range(3))
    gradients = [torch.ones(1, 6, 2, 4) for _ in range(3)]
    call = (q, (k, v), {"cu_seqlens_k": torch.tensor([0, 2, 5])})
    without_unwritten_rows("torch.ops.aten._efficient_attention_forward", call, [q, k, v], gradients)
    assert [int(gradient[:, 5].count_nonzero()) for gradient in gradients] == [8, 0, 0]
    assert all(gradient[:, :5].all() for gradient in gradients)
