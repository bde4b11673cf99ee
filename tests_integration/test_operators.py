"""Operators of torch's database that were wrong or refused once, compiled with generated kernels beside eager."""

from __future__ import annotations

import pytest

pytest.importorskip("expecttest")  # what torch's operator samples import
import torch

from benchmarks.operators.cell import run_cell
from benchmarks.operators.judge import judge
from benchmarks.operators.samples import USUAL, applies

ONCE_WRONG = (
    "split_with_sizes_copy unbind_copy nn.functional.embedding_bag resize_as_ index_put index_fill cdist linalg.eigvals "
    "nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.hardtanh native_dropout_backward "
    "nn.functional.fractional_max_pool3d histogram"
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
