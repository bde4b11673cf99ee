"""transformers' models of text and sound in tiny configurations, and its `generate`."""

from __future__ import annotations

import random
from typing import Any

import torch

from benchmarks.dynamic.contender import Contender
from benchmarks.dynamic.zoo.model import batch, length, model, padding, program, words

TEXT = {
    "vocab_size": 31,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
GROUPED = {**TEXT, "num_key_value_heads": 1}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def library() -> Any:
    import transformers

    return transformers


def padded(draws: random.Random) -> dict[str, Any]:
    rows, columns = batch(draws), length(draws)
    return {"input_ids": words(draws, rows, columns), "attention_mask": padding(draws, rows, columns)}


def padded_uncached(draws: random.Random) -> dict[str, Any]:
    return {**padded(draws), "use_cache": False}


def bert() -> Any:
    t = library()
    return t.BertForMaskedLM(t.BertConfig(**TEXT, **STILL))


def gpt2() -> Any:
    t = library()
    config = t.GPT2Config(
        vocab_size=31, n_embd=16, n_layer=2, n_head=2, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    return t.GPT2LMHeadModel(config)


def llama() -> Any:
    t = library()
    return t.LlamaForCausalLM(t.LlamaConfig(**GROUPED))


def qwen2() -> Any:
    t = library()
    return t.Qwen2ForCausalLM(t.Qwen2Config(**GROUPED))


def mistral() -> Any:
    t = library()
    return t.MistralForCausalLM(t.MistralConfig(**GROUPED, sliding_window=8))


def mixtral() -> Any:
    t = library()
    return t.MixtralForCausalLM(t.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2))


def qwen2_moe() -> Any:
    t = library()
    experts = {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 32, "num_experts": 4}
    return t.Qwen2MoeForCausalLM(t.Qwen2MoeConfig(**GROUPED, **experts, num_experts_per_tok=2))


def t5() -> Any:
    t = library()
    config = t.T5Config(
        vocab_size=31,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    return t.T5ForConditionalGeneration(config)


def t5_arguments(draws: random.Random) -> dict[str, Any]:
    arguments = padded_uncached(draws)
    rows = arguments["input_ids"].size(0)
    return {**arguments, "decoder_input_ids": words(draws, rows, length(draws))}


def whisper() -> Any:
    t = library()
    width = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_mel_bins": 8}
    places = {"max_source_positions": 12, "max_target_positions": 32, "dropout": 0.0}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = t.WhisperConfig(vocab_size=31, **width, **heads, **places, **special)
    return t.WhisperForConditionalGeneration(config)


def whisper_arguments(draws: random.Random) -> dict[str, Any]:
    rows = batch(draws)
    features = torch.randn(rows, 8, 24)
    return {"input_features": features, "decoder_input_ids": words(draws, rows, length(draws)), "use_cache": False}


def whisper_way(arguments: dict[str, Any]) -> str:
    """The decoder asks for a causal mask if there is more than one token (`is_causal = q_length > 1 and ...`)."""
    return "several tokens" if arguments["decoder_input_ids"].size(1) > 1 else "one token"


def wav2vec2() -> Any:
    t = library()
    convolutions = {"conv_dim": (8, 8), "conv_stride": (4, 2), "conv_kernel": (8, 3), "num_feat_extract_layers": 2}
    places = {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    still = {"mask_time_prob": 0.0, "layerdrop": 0.0, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    more = {"activation_dropout": 0.0, "feat_proj_dropout": 0.0, "final_dropout": 0.0}
    width = {k: v for k, v in TEXT.items() if k != "max_position_embeddings"}
    return t.Wav2Vec2ForCTC(t.Wav2Vec2Config(**width, **convolutions, **places, **still, **more))


def sound(draws: random.Random) -> dict[str, Any]:
    return {"input_values": torch.randn(batch(draws), draws.randint(60, 400))}


for make, drawn in {
    bert: padded,
    gpt2: padded_uncached,
    llama: padded_uncached,
    qwen2: padded_uncached,
    mistral: padded_uncached,
    mixtral: padded_uncached,
    qwen2_moe: padded_uncached,
    t5: t5_arguments,
    whisper: whisper_arguments,
    wav2vec2: sound,
}.items():
    # Those of sound draw a number in training to drop layers by, and branch on it: no graph holds them whole.
    trains, way = make not in (whisper, wav2vec2), whisper_way if make is whisper else None
    model(f"zoo_{make.__name__}", make, drawn, trains=trains, needs="transformers", way=way)


def generates(contender: Contender) -> list[Any]:
    """Tokens of prompts of all lengths, `forward` compiled."""
    torch.manual_seed(1)
    made, draws = llama().eval(), random.Random("generates")
    made.forward = contender.compile(made.forward)
    how = {"do_sample": False, "max_new_tokens": 5, "pad_token_id": 0, "eos_token_id": None, "disable_compile": True}
    return [made.generate(words(draws, batch(draws), length(draws)), **how) for _ in range(20)]


WHY = "prompts and steps are programs of their own, each compiled for its first call and then for all"
program("zoo_generate", generates, compiles=4, why=WHY, needs="transformers")
