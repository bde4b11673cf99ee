"""What is timed by name: models with a batch of one, the decode step of a Llama-shaped model, a graph of three kernels.

Flows in: a name. Flows out: a `Case`, built on a device in a dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from benchmarks.cpu.child import converted, prepared
from benchmarks.cpu.models import MODELS
from tests_integration.zoo import output_tensors

SMALL = (
    *("bert", "distilbert", "gpt2", "t5", "whisper_encoder"),
    *("vit_tiny_patch16_224", "resnet50", "mobilenetv2_100"),
)
"""Models with a batch of one."""
CACHED = 1024
"""Tokens that the decode step's cache has room for."""
PROMPT = 128
"""Tokens in it before the first step."""


@dataclass(frozen=True)
class Case:
    """`function` is what is compiled; `arguments` are given at each call."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    before: Callable[[], None] = lambda: None
    """What puts back what a call changed, before results are compared."""

    def step(self, run: Callable[..., Any]) -> Callable[[], list[torch.Tensor]]:
        """One call of `function` compiled, without gradients."""

        def infer() -> list[torch.Tensor]:
            with torch.no_grad():
                return output_tensors(run(*self.arguments, **self.named))

        return infer


def _model(name: str, dtype: torch.dtype, device: str) -> Case:
    module = prepared(MODELS[name].build(dtype).eval()).to(device)
    args, named = MODELS[name].inputs(1, dtype)
    return Case(
        module,
        tuple(converted(value, dtype, device) for value in args),
        {key: converted(value, dtype, device) for key, value in named.items()},
    )


def _decode(dtype: torch.dtype, device: str, **smaller: int) -> Case:
    """One token of a model with the shape of Llama 3.2 1B (1.24 billion parameters; `smaller`: of a smaller one) and a static cache."""
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    shape = {
        "vocab_size": 128256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        **smaller,
    }
    config = LlamaConfig(**shape, tie_word_embeddings=True)
    with torch.device(device):
        model = LlamaForCausalLM(config).to(dtype).eval()
    cache = StaticCache(config=config, max_cache_len=CACHED)
    token = torch.zeros(1, 1, dtype=torch.long, device=device)
    place = torch.tensor([PROMPT], device=device)
    prompt = torch.arange(PROMPT, device=device)
    with torch.no_grad():
        model(prompt[None] % config.vocab_size, past_key_values=cache, cache_position=prompt, position_ids=prompt[None])
    lengths = [each for each in (getattr(one, "cumulative_length", None) for one in cache.layers) if each is not None]
    kept = [each.clone() if isinstance(each, torch.Tensor) else each for each in lengths]

    def back() -> None:
        for layer, length in zip(cache.layers, kept, strict=False):
            if isinstance(length, torch.Tensor):
                layer.cumulative_length.copy_(length)
            else:
                layer.cumulative_length = length

    def step(token: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        answer = model(token, past_key_values=cache, cache_position=place, position_ids=place[None], use_cache=True)
        logits: torch.Tensor = answer.logits
        return logits

    return Case(step, (token, place), before=back)


class ThreeKernels(nn.Module):
    """Two sums that each need all of what is before, and what is made of them: nothing fuses these three."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = torch.relu(x + 1).sum(0)
        rows = (x * columns).sum(1)
        return x.t() * rows


def _three(dtype: torch.dtype, device: str) -> Case:
    return Case(ThreeKernels(), (torch.randn(64, 64, dtype=dtype, device=device),))


CASES: dict[str, Callable[[torch.dtype, str], Case]] = {
    **{name: lambda dtype, device, name=name: _model(name, dtype, device) for name in SMALL},  # type: ignore[misc]
    "decode": _decode,
    "three_kernels": _three,
}
"""How each is built."""
