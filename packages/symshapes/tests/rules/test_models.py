"""Small modules of every kind a common model is made of: no rule is missing, and all foretell eager."""

import pytest
import torch
from torch import nn

from symshapes import FakeMode

F = nn.functional


class _Losses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits, target = self.head(self.embed(tokens)), tokens.clamp(0, 4)
        noise = torch.rand_like(logits)
        logp = logits.log_softmax(-1)
        return (
            F.cross_entropy(logits, target)
            + F.cross_entropy(logits, target, label_smoothing=0.1)
            + F.mse_loss(logits, noise)
            + F.smooth_l1_loss(logits, noise)
            + F.huber_loss(logits, noise)
            + F.l1_loss(logits, noise)
            + F.nll_loss(logp, target)
            + F.kl_div(logp, noise)
            + F.binary_cross_entropy_with_logits(logits, noise)
            + F.one_hot(target, 5).sum()
        )


def _mlp() -> nn.Module:
    acts = [
        nn.ReLU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Tanh(), nn.ELU(), nn.LeakyReLU(), nn.Softplus(),
        nn.Hardswish(), nn.Mish(), nn.LogSigmoid(), nn.SELU(), nn.ReLU6(), nn.PReLU(), nn.Hardsigmoid(), nn.Sigmoid(),
    ]  # fmt: skip
    return nn.Sequential(nn.Linear(8, 16), *acts, nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 4), nn.Softmax(-1))


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8), nn.GroupNorm(2, 8), nn.SiLU(), nn.AvgPool2d(2), nn.Upsample(scale_factor=2),
        nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
    )  # fmt: skip


def _image() -> torch.Tensor:
    return torch.randn(2, 3, 16, 16)


def _image_last() -> torch.Tensor:
    return _image().contiguous(memory_format=torch.channels_last)


MODELS = {
    "mlp": (_mlp, lambda: torch.randn(3, 8)),
    "cnn": (_cnn, _image),
    "cnn channels last": (lambda: _cnn().to(memory_format=torch.channels_last), _image_last),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), lambda: torch.randn(2, 5, 16)),
    "lstm": (lambda: nn.LSTM(8, 16, 2, batch_first=True), lambda: torch.randn(3, 5, 8)),
    "gru": (lambda: nn.GRU(8, 16, bidirectional=True), lambda: torch.randn(3, 5, 8)),
    "losses": (_Losses, lambda: torch.randint(0, 10, (6,))),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_model(name, training, oracle):
    make, sample = MODELS[name]
    torch.manual_seed(0)
    model = make().train(training)
    with oracle:
        out = model(sample())
        leaves = torch.utils._pytree.tree_leaves(out)
        sum((leaf.float() ** 2).mean() for leaf in leaves).backward()
    oracle.check()
    assert not oracle.missing


@pytest.mark.parametrize("name", MODELS)
def test_model_in_inference_mode(name):
    """Composite ops reach the mode whole there."""
    make, sample = MODELS[name]
    model = make().eval()
    with torch.inference_mode():
        expected = torch.utils._pytree.tree_leaves(model(sample()))
        mode = FakeMode()
        with mode:
            found = torch.utils._pytree.tree_leaves(model(sample()))
    assert [(t.shape, t.stride(), t.dtype) for t in found] == [(t.shape, t.stride(), t.dtype) for t in expected]
