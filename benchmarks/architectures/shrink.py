"""Tiny configurations. In: a configuration class of transformers. Out: instances, the smallest first, to be tried in turn.

The rules know the field's usual names, not the architectures: a field says by its name what it counts, and lists as
long as the number of layers are cut with it. What does not build with one set of rules is tried with a milder one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

LAYERS = 2
WIDTH, HEADS, HEAD_DIM = 64, 4, 16
VOCABULARY = 256
IMAGE = 64

KINDS: tuple[tuple[str, str, int], ...] = (
    ("layers", r"(num|n)_(\w+_)?(layers?|blocks)|n_layers?|(encoder|decoder|\w+)_layers|num_layers_\w+|depth|\w+_depth", LAYERS),
    ("groups", r"n_group|num_expert_group|topk_group|num_hash_layers|first_k_dense_replace|num_nextn_predict_layers|kv_shared", 1),
    ("groups", r"(attn|expert)_layer_period", 2),
    ("groups", r"(attn|expert)_layer_offset", 1),
    ("experts", r"(num|n|moe_num|max_num)_?(local_|routed_|total_)?experts|moe_num_experts|num_moe_experts", 4),
    ("experts", r"num_experts_per_tok(en)?|num_selected_experts|moe_topk|moe_top_k|top_k_experts|expert_top_k|moe_k", 2),
    ("heads", r"(\w+_)?(num|n)_(\w+_)?heads?|(\w+_)?attention_heads|num_heads_\w+|linear_num_\w+_heads", HEADS),
    ("kv heads", r"(\w+_)?num_(key_value|kv)_heads|multi_query_group_num|num_kv_heads", 2),
    ("head width", r"head_dim|\w+_head_dim|d_kv|attention_head_size|kv_channels|head_size", HEAD_DIM),
    ("head width", r"rotary_dim", HEAD_DIM),
    ("head width", r"(qk_rope|qk_nope)_head_dim", HEAD_DIM // 2),
    ("width", r"(kv|q|\w+)_lora_rank|lora_\w*dim|\w+_rank", HEAD_DIM),
    ("inner", r"(\w+_)?(intermediate|ffn?|feed_?forward|mlp|inner)_(dim|size|hidden_size)|d_ff|d_inner|n_inner|\w+_ffn_dim|ffn_hidden_size|dim_feedforward", 2 * WIDTH),
    ("width", r"(\w+_)?hidden_size(_\w+)?|d_model|(\w+_)?embed(ding)?_(dim|size)|n_embd|dim|\w*hidden_dim|projection_dim|\w*proj(ection)?_dim|width|decoder_dim", WIDTH),
    ("vocabulary", r"(\w+_)?vocab(ulary)?_size(_\w+)?|(\w+_)?num_buckets", VOCABULARY),
    ("image", r"image_size|img_size|input_image_size", IMAGE),
    ("positions", r"num_queries|num_query_tokens|num_latents|num_object_queries|max_source_positions|num_frames", 8),
    ("state", r"mamba_d_state|state_size|mamba_d_head|ssm_state_size", 16),
)  # fmt: skip
"""Kind of quantity, what its field is called, the small value."""

MISSING = {"prediction_length": 8, "num_experts_per_tok": 2, "n_routed_experts": 4, "moe_intermediate_size": 32}
"""What some classes leave None and then need."""

EXPERTS: dict[str, Any] = {
    "is_moe": True,
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 2,
    "n_shared_experts": 1,
    "encoder_sparse_step": 1,
    "decoder_sparse_step": 1,
    "moe_layer_start_index": 0,
    "mlp_layer_types": ["dense", "sparse"],
    "head_dim": HEAD_DIM,
}
"""What mixtures of experts need beside it: counts and kinds of layers that some classes leave None, and layers of experts where
a default configuration has none among the first. None of it replaces what a configuration says, but for switches and steps."""

PARTICULAR: dict[str, dict[str, Any]] = {
    "DbrxAttentionConfig": {"rope_theta": 10000.0, "clip_qkv": 8.0},
    "DiffusionGemmaConfig": {
        "vision_config": {
            "model_type": "gemma4_vision",
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "head_dim": HEAD_DIM,
        }
    },
    "Ernie4_5_VLMoeTextConfig": {
        "moe_intermediate_size": [32, 32],
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0, "mrope_section": [3, 3, 2]},
    },
    "Glm4vMoeTextConfig": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
        }
    },
    "GraniteMoeHybridConfig": {"layer_types": ["linear_attention", "full_attention"], "mamba_d_head": 32},
    "HunYuanMoEV1Config": {"num_experts": 4, "moe_topk": 2},
    "LagunaConfig": {
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32,
        "head_dim": HEAD_DIM,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "num_attention_heads_per_layer": [HEADS, HEADS],
    },
    "Lfm2MoeConfig": {"num_dense_layers": 1, "layer_types": ["conv", "full_attention"]},
    "LongcatFlashConfig": {"qk_head_dim": 2 * HEAD_DIM, "zero_expert_num": 2},
    "NemotronHConfig": {"n_groups": 2},
    "Qwen4ExpTextConfig": {
        "indexer_n_heads": HEADS,
        "indexer_kv_heads": 1,
        "indexer_head_dim": HEAD_DIM,
        "indexer_budget": 16,
        "indexer_compress_ratio": 4,
    },
    "Step3p7TextConfig": {"sliding_window": 8},
}
"""What some configurations of mixtures need, by class: sizes that must fit others, and what the library's own defaults lack."""

_ROPE = {"rope_type": "default", "rope_theta": 10000.0}

LACKING: dict[str, dict[str, Any]] = {
    "CohereCompassTextConfig": {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}},
}
"""What the library's own defaults lack for the model to be built at all, by class."""

LEVELS: tuple[frozenset[str], ...] = (
    frozenset(kind for kind, _, _ in KINDS),
    frozenset({"layers", "groups", "experts", "vocabulary", "image", "inner", "positions"}),
    frozenset({"layers", "groups", "experts", "heads", "kv heads", "head width", "inner", "width", "vocabulary", "state"}),
    frozenset({"layers", "experts", "vocabulary"}),
    frozenset({"layers"}),
)  # fmt: skip
"""Kinds that are made small; each level is tried where the ones before it did not run."""


def shrunk(config_class: type, level: int, *, experts: bool = False) -> Any:
    """An instance of `config_class`, with `experts` one that has some; raises what the class raises."""
    return _shrink(config_class(), LEVELS[level], {**EXPERTS, **MISSING} if experts else MISSING)


def levels() -> Iterator[int]:
    yield from range(len(LEVELS))


def kind_of(name: str) -> tuple[str, int] | None:
    """Kind and small value of the field called `name`: of the last row that matches in full."""
    found = None
    for kind, pattern, value in KINDS:
        if re.fullmatch(pattern, name) and (
            found is None or found[0] not in ("groups", "kv heads", "inner", "head width")
        ):
            found = (kind, value)
    return found


def fields(config: Any) -> dict[str, Any]:
    """What a configuration says, by name; without what differs from layer to layer, which some refuse to be asked for."""
    names = [f.name for f in dataclasses.fields(config)] if dataclasses.is_dataclass(config) else list(vars(config))
    values = {}
    for name in names:
        try:
            values[name] = getattr(config, name)
        except Exception:  # a class of the library's own, raised for a name of several values
            continue
    return values


def _shrink(default: Any, kinds: frozenset[str], missing: dict[str, Any]) -> Any:
    values = fields(default)
    changes: dict[str, Any] = {}
    # Widths that differ from stage to stage hang together in ways of their own.
    staged = any(
        isinstance(v, (list, tuple)) and re.search("heads|hidden_sizes|embed_dims|widths", n) for n, v in values.items()
    )
    if staged:
        kinds = kinds - {"width", "heads", "kv heads", "head width", "inner"}
    count = max(
        [v for n, v in values.items() if isinstance(v, int) and (kind_of(n) or "")[:1] == ("layers",)], default=0
    )
    kept = _layers_kept(values, count)
    for name, value in values.items():
        changes.update(_change(name, value, values, kinds, count, kept, missing))
    changes.update(LACKING.get(type(default).__name__, {}))
    if missing is not MISSING:
        particular = PARTICULAR.get(type(default).__name__, {})
        changes.update({name: _configured(value) for name, value in particular.items()})
    return _rebuilt(default, changes)


def _configured(value: Any) -> Any:
    """A value of `PARTICULAR`; of one that says its kind of model the configuration."""
    if not isinstance(value, dict) or "model_type" not in value:
        return value
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[value["model_type"]](**{n: v for n, v in value.items() if n != "model_type"})


def _layers_kept(values: dict[str, Any], count: int) -> int:
    """How many layers hold one of each kind that the configuration's lists name."""
    kept = LAYERS
    for value in values.values():
        if isinstance(value, (list, tuple)) and len(value) == count and all(isinstance(v, str) for v in value):
            kept = max(kept, *(value.index(kind) + 1 for kind in set(value)))
    return kept


def _change(
    name: str,
    value: Any,
    values: dict[str, Any],
    kinds: frozenset[str],
    count: int,
    kept: int,
    missing: dict[str, Any],
) -> dict[str, Any]:
    if hasattr(value, "to_diff_dict"):
        return {name: _shrink(value, kinds, missing)}
    if value is None:
        return {name: missing[name]} if name in missing else {}
    if isinstance(value, bool):
        if name in missing:
            return {name: missing[name]}
        return {name: False} if value and name in ("apply_spec_augment", "use_pretrained_backbone") else {}
    if isinstance(value, float):
        noisy = re.search(r"drop|jitter|mask_(time|feature)_prob", name) and not name.endswith("num_drop")
        return {name: 0.0} if noisy and value else {}
    if isinstance(value, dict):
        section = value.get("mrope_section")
        if section and "head width" in kinds:
            return {name: {**value, "mrope_section": [HEAD_DIM // 2 - 2 * (HEAD_DIM // 6), *([HEAD_DIM // 6] * 2)]}}
        return {}
    if isinstance(value, (list, tuple)):
        return _list_change(name, value, kinds, count, kept)
    if not isinstance(value, int):
        return {}
    if re.search(r"(token_id|token_index|_id|_idx)$", name) and "vocabulary" in kinds and value >= VOCABULARY:
        # Distinct tokens stay distinct.
        big = sorted(
            {v for n, v in values.items() if isinstance(v, int) and re.search(r"token_i", n) and v >= VOCABULARY}
        )
        return {name: VOCABULARY - 1 - (big.index(value) if value in big else 0)}
    if re.search(r"_(step|index)$", name) and name in missing:
        return {name: missing[name]}
    found = kind_of(name)
    if found is None or found[0] not in kinds:
        return {}
    kind, small = found
    if kind == "layers":
        small = kept if value == count else LAYERS
    if kind == "kv heads":
        heads = values.get("num_attention_heads") or values.get("n_head") or value
        small = HEADS if value == heads else min(value, 2)
    if kind == "image":
        patch = values.get("patch_size", 16)
        patch = patch if isinstance(patch, int) else 16
        small = patch * max(2, IMAGE // patch)
    return {name: min(value, small)}


def _list_change(name: str, value: Any, kinds: frozenset[str], count: int, kept: int) -> dict[str, Any]:
    same = type(value)
    if count and len(value) == count and len(value) > kept and "layers" in kinds and not hasattr(value[0], "to_dict"):
        return {name: same(value[:kept])}
    numbers = bool(value) and all(isinstance(v, int) for v in value)
    if numbers and re.search(r"depths|num_layers|layers|num_blocks|blocks", name) and "layers" in kinds:
        if re.search("feature|idx|index|indices|ids", name):
            return {}
        return {name: same([min(v, 1) for v in value])}
    if numbers and name in ("image_size", "img_size") and "image" in kinds:
        return {name: same([min(v, IMAGE) for v in value])}
    return {}


def _rebuilt(default: Any, changes: dict[str, Any]) -> Any:
    """A configuration with the changes: built anew, so that what is derived from fields follows; else set."""
    try:
        plain = type(default)()
        own = {n: v for n, v in vars(default).items() if not n.startswith("_") and getattr(plain, n, None) != v}
        known = {f.name for f in dataclasses.fields(default)} if dataclasses.is_dataclass(default) else set(own)
        return type(default)(**{**{n: v for n, v in own.items() if n in known}, **changes})
    except Exception:  # a class that takes no such keyword, or checks what the next level leaves alone
        for name, value in changes.items():
            setattr(default, name, value)
        return default
