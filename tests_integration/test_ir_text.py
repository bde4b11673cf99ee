"""The kernels of real models, forward and backward, print as text that is read back as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import inductor
import meta
from tests_integration.zoo import loss_of

transformers = pytest.importorskip("transformers", reason="the models are transformers'")


def bert() -> tuple[torch.nn.Module, torch.Tensor]:
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=20
    )
    return transformers.BertModel(config), torch.arange(12).reshape(2, 6)


def resnet() -> tuple[torch.nn.Module, torch.Tensor]:
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic")
    return transformers.ResNetModel(config), torch.ones(2, 3, 16, 16)


def t5() -> tuple[torch.nn.Module, torch.Tensor]:
    config = transformers.T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, vocab_size=20)
    return transformers.T5EncoderModel(config), torch.arange(12).reshape(2, 6)


class Printing(inductor.ReferenceBackend):
    """Keeps what it prints, and runs it without a compiler."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.bodies: list[inductor.Body] = []

    def emit(self, kernel: inductor.Kernel) -> inductor.KernelSource:
        self.bodies.append(kernel.body)
        return super().emit(kernel)


@pytest.fixture
def printing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Printing]:
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path))
    before = inductor.backend_for(torch.device("cpu"))
    backend = Printing()
    inductor.register_backend(backend)
    yield backend
    inductor.register_backend(before)


@pytest.mark.parametrize(("model", "dynamic"), [(bert, False), (bert, True), (resnet, False), (t5, True)])
def test_read_back(model: Callable[[], tuple[torch.nn.Module, Any]], dynamic: bool, printing: Printing) -> None:
    torch.manual_seed(0)
    module, x = model()
    loss_of(meta.compile(module.train(), dynamic=dynamic)(x)).backward()
    assert len(printing.bodies) > 10
    for body in printing.bodies:
        assert inductor.parse_body(str(body)) == body
