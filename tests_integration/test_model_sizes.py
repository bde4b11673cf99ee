"""Whole models at twenty random sizes: the quick ones of `benchmarks/dynamic/zoo`, captured; one trained, compiled too."""

from __future__ import annotations

import pytest
import torch

import capture
import meta
from benchmarks.dynamic import zoo  # noqa: F401  (fills the table)
from benchmarks.dynamic.cell import judged
from benchmarks.dynamic.contender import Form
from benchmarks.dynamic.registry import ROWS
from benchmarks.dynamic.zoo.model import model_of

QUICK = (
    "zoo_char_lstm", "zoo_graph_attention", "zoo_detections", "zoo_best_boxes", "zoo_unet", "zoo_recommender", "zoo_encoder_padded",
    "zoo_transformer", "zoo_masked_rows", "zoo_llama", "zoo_vit", "zoo_gru_seq2seq",
)  # fmt: skip
LONG = (
    "zoo_unet_training",
    "zoo_gru_seq2seq_training",
    "zoo_transformer_training",
    "zoo_encoder_padded_training",
    "zoo_vit_training",
)
"""Measured by `python -m benchmarks --suite dynamic` alone: they take seconds each."""
NAMES = [name for name in ROWS if model_of(name) in QUICK and name not in LONG]


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


class Patches(torch.nn.Module):
    """A token and what patches of an image come to; sides are multiples of the patch's."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.token = torch.nn.Conv2d(3, 8, 4, 4), torch.nn.Parameter(torch.zeros(1, 1, 8))
        self.mlp = torch.nn.Sequential(
            torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = x.shape
        assert height % 4 == 0 and width % 4 == 0
        y = self.cut(x).permute(0, 2, 3, 1).reshape(batch, -1, 8)
        y = torch.cat([self.token.expand(batch, -1, -1), y], 1)
        y = y + self.mlp(y)
        return (y + self.mlp(y))[:, 0]


def test_strides_are_compared_by_what_is_known_of_sizes() -> None:
    """Four times the quotient by four of a multiple of four is the number itself, in strides as in sizes."""
    model = Patches()
    compiled = meta.compile(model, fullgraph=True)
    for size in ((2, 3, 8, 12), (3, 3, 4, 16), (1, 3, 20, 8), (2, 3, 4, 4)):
        x = torch.randn(size)
        found = []
        for each in (model, compiled):
            model.zero_grad()
            out = each(x)
            out.sin().sum().backward()
            assert model.token.grad is not None
            found.append((out, model.token.grad.clone()))
        torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-4)


class Merging(torch.nn.Module):
    """Every other patch of an image's, beside one another, as Swin merges them."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.norm = torch.nn.Conv2d(3, 8, 2, 2), torch.nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = x.shape
        assert height % 2 == 0 and width % 2 == 0
        y = self.norm(self.cut(x).flatten(2).transpose(1, 2)).view(batch, height // 2, width // 2, 8)
        return torch.cat([y[:, 0::2, 0::2], y[:, 1::2, 0::2], y[:, 0::2, 1::2], y[:, 1::2, 1::2]], -1).mean((1, 2))


def test_views_of_products_of_quotients() -> None:
    model = Merging()
    compiled = meta.compile(model, fullgraph=True)
    with torch.no_grad():
        for size in ((2, 3, 8, 12), (3, 3, 12, 8), (1, 3, 20, 16), (2, 3, 4, 24)):
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


def _trains(model: torch.nn.Module, *shapes: tuple[int, ...]) -> int:
    """Compare gradients of compiled and eager at these shapes; how often it was compiled."""
    compiled = meta.compile(model, fullgraph=True)
    for shape in shapes:
        x, found = torch.randn(shape), []
        for each in (model, compiled):
            model.zero_grad()
            out = each(x)
            out.sin().sum().backward()
            found.append([out, *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
        assert found[0][0].stride() == found[1][0].stride()
        torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-4)
    return meta.report(compiled).graph_count


def test_a_strided_view_of_one_row() -> None:
    """What stride a dimension of length 1 has decides nothing."""
    assert _trains(Merging(), (1, 3, 8, 12), (1, 3, 12, 8), (1, 3, 16, 20)) == 2


class Padded(torch.nn.Module):
    """Windows of two by two over an image of patches, padded to be cut so."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.up = torch.nn.Conv2d(3, 8, 2, 2), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = x.shape
        assert height % 2 == 0 and width % 2 == 0
        y = self.cut(x).permute(0, 2, 3, 1)
        y = torch.nn.functional.pad(y, (0, 0, 0, -(width // 2) % 2, 0, -(height // 2) % 2))
        y = y.view(batch, y.size(1) // 2, 2, y.size(2) // 2, 2, 8).transpose(2, 3).contiguous()
        return self.up(y.view(-1, 4, 8)).sin() @ y.view(-1, 4, 8).transpose(1, 2)


def test_strides_of_padded_windows() -> None:
    assert _trains(Padded(), (2, 3, 8, 12), (3, 3, 12, 16), (2, 3, 8, 24)) == 2


class Pooled(torch.nn.Module):
    """The mean over all positions, channels innermost."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.pool = torch.nn.Linear(4, 6), torch.nn.AdaptiveAvgPool1d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flatten(self.pool(self.up(x).transpose(1, 2)), 1)


def test_a_pooled_image_is_of_any_batch() -> None:
    assert _trains(Pooled(), (2, 5, 4), (1, 7, 4), (4, 3, 4)) == 2
