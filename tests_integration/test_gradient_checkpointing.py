"""Models of transformers whose layers are checkpoints: training steps are one graph, with eager's gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import capture
import meta

transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
}


def bert() -> Any:
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SHAPE, **quiet))
    return model, {"input_ids": torch.randint(0, 64, (2, 8)), "labels": torch.tensor([0, 1])}


def llama() -> Any:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE, use_cache=False))
    ids = torch.randint(0, 64, (2, 8))
    return model, {"input_ids": ids, "labels": ids}


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable`:FutureWarning")
@pytest.mark.parametrize("build", [bert, llama])
def test_a_training_step_is_one_graph(build: Any) -> None:
    torch.manual_seed(0)
    model, given = build()
    model.train()
    model.gradient_checkpointing_enable()

    def step(**given: Any) -> Any:
        loss = model(**given).loss
        loss.backward()
        return loss

    def gradients(run: Any) -> Any:
        model.zero_grad()
        loss = run(**given)
        return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    expected = gradients(step)
    compiled = meta.compile(step, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(gradients(compiled), expected)
    capture.reset()
    forward = meta.compile(model, fullgraph=True)

    def around(**given: Any) -> Any:
        loss = forward(**given).loss
        loss.backward()
        return loss

    torch.testing.assert_close(gradients(around), expected)
