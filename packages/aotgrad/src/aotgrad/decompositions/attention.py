"""The one-kernel attention and encoder layers that `nn.MultiheadAttention` and `nn.TransformerEncoderLayer` call at inference.

ATen's CPU kernels of them write all weights of all heads to memory and fuse with nothing; as products and the attention
kernel they do neither. On other devices they are left as they are.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import has_no_elements
from aotgrad.decompositions.precision import cast
from aotgrad.decompositions.registry import Maybe, decomposition

aten = torch.ops.aten

_OF_ROWS, _OF_KEYS = 0, 1
"""The `mask_type` of a mask of (length, keys), and of one of (batch, keys); others are of (batch, heads, length, keys)."""


def _heads(x: Tensor, count: int) -> Tensor:
    """(batch, length, width) as (batch, heads, length, width / heads)."""
    batch, length, width = x.shape
    return aten.permute.default(aten.view.default(x, [batch, length, count, width // count]), [0, 2, 1, 3])


def _projections(inputs: tuple[Tensor, Tensor, Tensor], weight: Tensor, bias: Tensor) -> list[Tensor]:
    """Query, key and value; one product makes them of one input."""
    width = weight.shape[0] // 3
    if inputs[0] is inputs[1] is inputs[2]:
        return list(aten.split.Tensor(aten.linear.default(inputs[0], weight, bias), width, -1))
    weights, biases = aten.split.Tensor(weight, width), aten.split.Tensor(bias, width)
    return [aten.linear.default(*of) for of in zip(inputs, weights, biases, strict=True)]


def _places(mask: Tensor, mask_type: int | None) -> Tensor:
    """What is left out, (batch, heads, length, keys) or what broadcasts to it: wherever the mask, of any dtype, is not zero."""
    hidden = cast(mask, torch.bool)
    if mask_type == _OF_ROWS:
        return aten.view.default(hidden, [1, 1, *mask.shape])
    if mask_type == _OF_KEYS:
        return aten.view.default(hidden, [mask.shape[0], 1, 1, mask.shape[1]])
    return hidden


@decomposition(aten._native_multi_head_attention.default)
def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Maybe = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """Attention of `num_head` heads between two projections, and where asked for its weights, averaged over heads or not."""
    if query.device.type != "cpu" or has_no_elements(query) or has_no_elements(key):
        return NotImplemented
    projected = _projections((query, key, value), qkv_weight, qkv_bias)
    queries, keys, values = (_heads(x, num_head) for x in projected)
    batch, heads, length, width = queries.shape
    places = None if mask is None else _places(mask, mask_type)
    added = None
    if places is not None:
        nothing = aten.full.default([], 0.0, dtype=query.dtype, device=query.device)
        added = aten.where.self(places, aten.full_like.default(nothing, -math.inf), nothing)
    weights = None
    if need_weights:
        across = aten.permute.default(keys, [0, 1, 3, 2])
        scores = aten.matmul.default(queries * (1 / math.sqrt(width)), across)
        weights = aten._softmax.default(scores if added is None else scores + added, -1, False)
        result = aten.matmul.default(weights, values)
    else:
        if added is not None:
            added = aten.expand.default(added, [*added.shape[:2], length, keys.shape[2]])
        attention = aten._scaled_dot_product_flash_attention_for_cpu.default
        result, _ = attention(queries, keys, values, 0.0, False, attn_mask=added)
        if places is not None:  # the attention kernel gives zeros where a row sees no key, and the layer NaN
            blind = aten.all.dim(places, -1, True)
            result = aten.where.self(blind, aten.full.default([], math.nan, dtype=result.dtype), result)
    together = aten.reshape.default(aten.permute.default(result, [0, 2, 1, 3]), [batch, length, heads * width])
    out = aten.linear.default(together, proj_weight, proj_bias)
    if weights is not None and average_attn_weights:
        weights = aten.mean.dim(weights, [1])
    return out, weights


@decomposition(aten._transformer_encoder_layer_fwd.default)
def transformer_encoder_layer(src: Tensor, embed_dim: int, num_heads: int, *given: Any) -> Any:
    """Attention and a network of two layers, each added to what it reads and normalised, before or behind.

    `given`: weight and bias of both projections of attention; whether the network has GELU, whether norms come first, their ε;
    weight and bias of the norms and of the network's layers; a mask and its type.
    """
    if src.device.type != "cpu":
        return NotImplemented
    projections, (use_gelu, norm_first, eps), of_norms, of_network = given[:4], given[4:7], given[7:11], given[11:15]

    def normalised(x: Tensor, at: int) -> Tensor:
        weight, bias = of_norms[2 * at : 2 * at + 2]
        return aten.native_layer_norm.default(x, [embed_dim], weight, bias, eps)[0]

    x = normalised(src, 0) if norm_first else src
    mask, mask_type = (*given[15:], None, None)[:2]
    attend = aten._native_multi_head_attention.default
    attended, _ = attend(x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type)
    x = attended + src if norm_first else normalised(attended + src, 0)
    wide = aten.linear.default(normalised(x, 1) if norm_first else x, *of_network[:2])
    wide = aten.gelu.default(wide) if use_gelu else aten.relu.default(wide)
    out = aten.linear.default(wide, *of_network[2:]) + x
    return out if norm_first else normalised(out, 1)
