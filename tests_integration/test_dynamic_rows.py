"""Programs called with changing sizes: the rows of `benchmarks/dynamic`, captured; a dozen compiled too.

What fails is named in `dynamic_failures.txt` with its reason, and has to fail: what is mended is struck there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import capture
import meta
from benchmarks.dynamic import families  # noqa: F401  (fills the table)
from benchmarks.dynamic.cell import judged
from benchmarks.dynamic.contender import FORMS, Form
from benchmarks.dynamic.registry import ROWS as ALL_ROWS
from benchmarks.dynamic.zoo.model import FAMILIES as OF_MODELS

#: Rows of whole models, which are there as soon as anything imports them, have a test of their own.
ROWS = {name: row for name, row in ALL_ROWS.items() if row.family not in OF_MODELS}
#: Measured by `python -m benchmarks --suite dynamic` alone: they take seconds each.
LONG = (
    "model_bert_padded", "model_gpt2_lengths", "model_llama_lengths", "model_vit_batches",
    "model_gpt_growing_cache", "model_gpt_training", "model_conv_net_images", "model_unet_padded",
)  # fmt: skip
CAPTURED = [form for form in FORMS if not form.compiled]
COMPILED = (
    "gelu_tanh", "softmax_last", "mlp", "conv2d_batch", "slice_odd_columns", "pad_to_multiple", "arange_of_size", "index_add", "true_division",
    "float_scales", "zero_one_and_many", "train_with_batch_norm", "gradient_of_slices", "mask_selects", "interpolate_places", "adaptive_avg_pool_rows",
    "transpose_in_place",
)  # fmt: skip
LINES = Path(__file__).with_name("dynamic_failures.txt").read_text().splitlines()
#: Reasons by row and form: `row | form | reason` a line.
FAILURES = {
    (row.strip(), form.strip()): reason.strip()
    for row, form, reason in (line.split("|", 2) for line in LINES if line and not line.startswith("#"))
}


@pytest.fixture(autouse=True)
def _sizes_in_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "capture_data_dependent", True)


def checked(name: str, form: Form) -> str | None:
    """What is wrong with a row in a form, as it is said in the failing test."""
    meta.reset()
    cell = judged(ROWS[name], form, "ours")
    reason = FAILURES.get((name, form.name))
    if cell.passed:
        return None if reason is None else f"{name} | {form.name}: passes: strike it in dynamic_failures.txt ({reason})"
    return None if reason is not None else f"{name} | {form.name}: {cell.status}: {cell.why}"


@pytest.mark.parametrize("form", CAPTURED, ids=lambda form: form.name)
@pytest.mark.parametrize("family", dict.fromkeys(row.family for row in ROWS.values()))
def test_rows_are_captured_for_all_sizes(family: str, form: Form) -> None:
    found = [checked(row.name, form) for row in ROWS.values() if row.family == family and row.name not in LONG]
    wrong = [text for text in found if text is not None]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("form", [form for form in FORMS if form.compiled], ids=lambda form: form.name)
@pytest.mark.parametrize("name", COMPILED)
def test_rows_are_compiled_for_all_sizes(name: str, form: Form) -> None:
    wrong = checked(name, form)
    assert wrong is None, wrong


def test_failures_name_rows_and_forms() -> None:
    unknown = [(row, form) for row, form in FAILURES if row not in ROWS or form not in {f.name for f in FORMS}]
    assert not unknown
