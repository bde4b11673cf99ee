"""transformers' models in tiny configurations."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.dynamic.contender import Contender
from benchmarks.dynamic.registry import Family

row = Family("models")


def configured(kind: str) -> Any:
    """A tiny model of transformers', its weights made from the seed."""
    import transformers as t

    torch.manual_seed(2)
    text = {
        "vocab_size": 31,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    if kind == "bert":
        return t.BertModel(t.BertConfig(**text, max_position_embeddings=64)).eval()
    if kind == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=31, n_embd=16, n_layer=2, n_head=2, n_positions=64)).eval()
    if kind == "llama":
        return t.LlamaForCausalLM(t.LlamaConfig(**text, num_key_value_heads=1)).eval()
    return t.ViTModel(
        t.ViTConfig(image_size=16, patch_size=4, **{k: v for k, v in text.items() if k != "vocab_size"})
    ).eval()


def outputs(kind: str, made: Callable[[int], dict[str, Any]]) -> Callable[[Contender], list[Any]]:
    """Logits or hidden states of the model for four sizes."""

    def run(contender: Contender) -> list[Any]:
        compiled, found = contender.compile(configured(kind)), []
        for n in (5, 8, 12, 17):
            with torch.no_grad():
                found.append(compiled(**made(n))[0])
        return found

    return run


def words(n: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 31, (n % 4 + 2, n)), "use_cache": False}


def padded(n: int) -> dict[str, Any]:
    mask = torch.ones(3, n, dtype=torch.int64)
    mask[0, n // 2 :] = 0
    return {"input_ids": torch.randint(0, 31, (3, n)), "attention_mask": mask}


CASES: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "bert_padded": ("bert", padded),
    "gpt2_lengths": ("gpt2", words),
    "llama_lengths": ("llama", words),
    "vit_batches": ("vit", lambda n: {"pixel_values": torch.randn(n, 3, 16, 16)}),
}

if importlib.util.find_spec("transformers") is not None:
    for name, (kind, made) in CASES.items():
        run = outputs(kind, made)
        run.__name__ = f"model_{name}"
        row.program(tolerance=1e-3)(run)
