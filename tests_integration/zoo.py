"""The real models everything is measured on: built from their configurations with random weights, nothing downloaded.

Used by the integration tests and the benchmarks, so that what is timed is what is checked.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Model:
    """A model, the inputs it is run on, and how its output becomes a loss.

    `build(dtype)` returns the module, `inputs(batch, dtype)` its positional and keyword arguments; `needs` names the
    libraries it comes from.
    """

    name: str
    build: Callable[[torch.dtype], nn.Module]
    inputs: Callable[[int, torch.dtype], Inputs]
    batch: int
    needs: tuple[str, ...] = ()

    @property
    def available(self) -> bool:
        """Whether the libraries it comes from are installed."""
        return all(importlib.util.find_spec(name) is not None for name in self.needs)

    def make(
        self, *, train: bool = False, dtype: torch.dtype = torch.float32, seed: int = 0
    ) -> tuple[nn.Module, Inputs]:
        """The module, in train or eval mode, and its inputs; the same for the same seed."""
        torch.manual_seed(seed)
        module = self.build(dtype).train(train)
        return module, self.inputs(self.batch, dtype)


def output_tensors(output: Any) -> list[torch.Tensor]:
    """The floating-point tensors of a model's output, in order; containers are looked into."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, (tuple, list)):
        return [t for item in output for t in output_tensors(item)]
    return []


def loss_of(output: Any) -> torch.Tensor:
    """A scalar that depends on every floating-point output, with gradients of ordinary size."""
    parts = [t.float().pow(2).mean() for t in output_tensors(output) if t.is_floating_point()]
    return torch.stack(parts).sum()


class Mlp(nn.Module):
    """Three layers; the example of the documentation."""

    def __init__(self, features: int = 64, hidden: int = 256, classes: int = 10) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class LstmClassifier(nn.Module):
    """Embeds tokens, runs an LSTM and classifies its last state."""

    def __init__(self, vocabulary: int = 200, features: int = 32, hidden: int = 48, classes: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, features)
        self.lstm = nn.LSTM(features, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        out, _ = self.lstm(self.embedding(tokens))
        return self.head(out[:, -1])


def images(size: int) -> Callable[[int, torch.dtype], Inputs]:
    """Square images of three channels."""
    return lambda batch, dtype: ((torch.randn(batch, 3, size, size, dtype=dtype),), {})


def tokens(vocabulary: int, length: int, **extra: Any) -> Callable[[int, torch.dtype], Inputs]:
    """Rows of this many tokens without padding, and other keyword arguments."""

    def inputs(batch: int, dtype: torch.dtype) -> Inputs:
        tokens = torch.randint(0, vocabulary, (batch, length))
        return (), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **extra}

    return inputs


def timm_model(name: str) -> Callable[[torch.dtype], nn.Module]:
    """A model of timm by its name."""

    def build(dtype: torch.dtype) -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False).to(dtype)

    return build


def _bert(attention: str) -> Callable[[torch.dtype], nn.Module]:
    def build(dtype: torch.dtype) -> nn.Module:
        from transformers import BertConfig, BertModel

        config = BertConfig(
            num_hidden_layers=2,
            hidden_size=128,
            num_attention_heads=4,
            intermediate_size=256,
            vocab_size=1000,
        )
        config._attn_implementation = attention
        return BertModel(config).to(dtype)

    return build


def _gpt2(attention: str) -> Callable[[torch.dtype], nn.Module]:
    def build(dtype: torch.dtype) -> nn.Module:
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=1000, n_positions=128)
        config._attn_implementation = attention
        return GPT2LMHeadModel(config).to(dtype)

    return build


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("mlp", lambda dtype: Mlp().to(dtype), lambda b, d: ((torch.randn(b, 64, dtype=d),), {}), 32),
        Model(
            "lstm",
            lambda dtype: LstmClassifier().to(dtype),
            lambda b, d: ((torch.randint(0, 200, (b, 20)),), {}),
            8,
        ),
        Model("resnet18", timm_model("resnet18"), images(224), 2, ("timm", "torchvision")),
        Model("mobilenetv3_small_100", timm_model("mobilenetv3_small_100"), images(224), 2, ("timm", "torchvision")),
        Model("vit_tiny_patch16_224", timm_model("vit_tiny_patch16_224"), images(224), 2, ("timm", "torchvision")),
        Model("bert_eager", _bert("eager"), tokens(1000, 32), 4, ("transformers",)),
        Model("bert_sdpa", _bert("sdpa"), tokens(1000, 32), 4, ("transformers",)),
        Model("gpt2_eager", _gpt2("eager"), tokens(1000, 32), 4, ("transformers",)),
        Model("gpt2_sdpa", _gpt2("sdpa"), tokens(1000, 32), 4, ("transformers",)),
    )
}
