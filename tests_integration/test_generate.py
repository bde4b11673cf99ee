"""Text generation of transformers with `model.forward` compiled: eager's tokens, few compiles however long it gets."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import meta

transformers = pytest.importorskip("transformers")


def _model(family: str) -> Any:
    torch.manual_seed(0)
    if family == "llama":
        config = transformers.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=64, max_position_embeddings=64, bos_token_id=1, eos_token_id=None,
        )  # fmt: skip
        return transformers.LlamaForCausalLM(config).eval()
    config = transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=64, n_positions=64, bos_token_id=1, eos_token_id=None
    )
    return transformers.GPT2LMHeadModel(config).eval()


@pytest.mark.parametrize(
    ("family", "cache", "backend", "dynamic"),
    [
        ("llama", "dynamic", "inductor", None),
        ("llama", "dynamic", "eager", True),
        ("llama", "static", "eager", None),
        ("gpt2", "dynamic", "aot_eager", None),
    ],
)
def test_tokens_of_any_length(family: str, cache: str, backend: str, dynamic: bool | None) -> None:
    model = _model(family)
    how = {"do_sample": False, "max_new_tokens": 6, "pad_token_id": 0, "disable_compile": True}
    if cache == "static":
        how["cache_implementation"] = "static"
    prompts = [torch.randint(1, 64, (1, n)) for n in (5, 7, 4, 9)]
    expected = [model.generate(prompt, **how) for prompt in prompts]
    model.forward = compiled = meta.compile(model.forward, backend=backend, dynamic=dynamic)
    for prompt, tokens in zip(prompts, expected, strict=True):
        assert torch.equal(model.generate(prompt, **how), tokens)
    report = compiled.session.report
    assert report.breaks == [] and report.skipped == []
    assert report.graph_count <= 4
