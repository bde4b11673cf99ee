"""Whole models at twenty random sizes: the quick ones of `benchmarks/dynamic/zoo`, captured; one trained, compiled too."""

from __future__ import annotations

import pytest

import capture
import meta
from benchmarks.dynamic import zoo  # noqa: F401  (fills the table)
from benchmarks.dynamic.cell import judged
from benchmarks.dynamic.contender import Form
from benchmarks.dynamic.registry import ROWS
from benchmarks.dynamic.zoo.model import model_of

QUICK = (
    "zoo_char_lstm", "zoo_graph_attention", "zoo_detections", "zoo_best_boxes", "zoo_unet", "zoo_recommender", "zoo_encoder_padded",
    "zoo_transformer", "zoo_masked_rows", "zoo_llama", "zoo_vit",
)  # fmt: skip
NAMES = [name for name in ROWS if model_of(name) in QUICK]


@pytest.fixture(autouse=True)
def _sizes_in_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "capture_data_dependent", True)


def _is_right(name: str, form: Form) -> None:
    meta.reset()
    cell = judged(ROWS[name], form, "ours")
    assert cell.passed, f"{cell.status}: {cell.why}"


@pytest.mark.parametrize("name", NAMES)
def test_random_sizes(name: str) -> None:
    _is_right(name, Form(dynamic=None, compiled=False))


@pytest.mark.parametrize("name", ["zoo_masked_rows_training", "zoo_char_lstm"])
def test_random_sizes_compiled(name: str) -> None:
    _is_right(name, Form(dynamic=None, compiled=True))
