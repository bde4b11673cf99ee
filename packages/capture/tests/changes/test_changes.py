"""Every program of the table gives, captured, what plain Python gives: before a change, after it, and when it is undone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

from changes import table


@pytest.fixture
def _precisions_restored() -> Iterator[None]:
    """Programs that set torch's precision of products back leave another word for it than was there."""
    before = [(owner, owner.fp32_precision) for owner in (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)]
    yield
    for owner, precision in before:
        owner.fp32_precision = precision


@pytest.mark.usefixtures("_precisions_restored")
@pytest.mark.parametrize("name", table.PROGRAMS)
def test_change(name: str) -> None:
    expected, got = table.Recorder(), table.CapturingRecorder()
    for recorder in expected, got:
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table.PROGRAMS[name](recorder)
    for number, (plain, captured) in enumerate(zip(expected.records, got.records, strict=True)):
        assert plain == captured, f"record {number}"
