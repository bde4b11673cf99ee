"""Scaled dot product attention: the fused kernels of CPU and CUDA, and which one runs."""

from typing import Any

import torch

from symshapes.rules.copies import like
from symshapes.rules.layout import Size, TensorMeta, contiguous_strides, fresh, strides_in_order
from symshapes.rules.registry import rule


def _like_query(query: TensorMeta, last: Size) -> TensorMeta:
    """(B, H, L, E) memory laid out as (B, L, H, E), what the fused kernels write."""
    batch, heads, length, _ = query.size
    size = (batch, heads, length, last)
    return TensorMeta(size, strides_in_order(size, [3, 1, 2, 0]), query.dtype, query.device)


@rule("_scaled_dot_product_flash_attention_for_cpu")
def flash_for_cpu(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: TensorMeta | None = None,
    scale: float | None = None,
) -> tuple[TensorMeta, TensorMeta]:
    """The result and the log of each row's sum of exponentials (B, H, L), stored as (B, L, H)."""
    batch, heads, length, _ = query.size
    rows = (batch, heads, length)
    dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
    logsumexp = TensorMeta(rows, strides_in_order(rows, [1, 2, 0]), dtype, query.device)
    return like(query), logsumexp


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_for_cpu_backward(
    grad_out: TensorMeta, query: TensorMeta, key: TensorMeta, value: TensorMeta, *_: Any, **options: Any
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """Gradients of query, key and value."""
    return tuple(_like_query(meta, meta.size[3]) for meta in (query, key, value))  # type: ignore[return-value]


@rule("_scaled_dot_product_flash_attention")
def flash(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """CUDA's flash attention: result, log-sum-exp, empty offsets, lengths, random state, empty mask."""
    batch, heads, length, _ = query.size
    seed = TensorMeta((2,), (1,), torch.uint64, query.device)
    unused = TensorMeta((), (), torch.uint64, query.device)
    return (
        like(query),
        fresh((batch, heads, length), query, torch.float32),
        None,
        None,
        length,
        key.size[2],
        seed,
        unused,
        fresh((0,), query),
    )


@rule("_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_cudnn_attention_backward")
def flash_backward(
    grad_out: TensorMeta, query: TensorMeta, key: TensorMeta, value: TensorMeta, *_: Any, **options: Any
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """Gradients of query, key and value, each in the format of its tensor."""
    return like(query), like(key), like(value)


@rule("_scaled_dot_product_efficient_attention")
def efficient(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    attn_bias: TensorMeta | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[TensorMeta, TensorMeta, TensorMeta, TensorMeta]:
    """CUDA's memory-efficient attention: result, log-sum-exp (rows padded to 32), seed and offset."""
    batch, heads, length, _ = query.size
    rows = ((length + 31) // 32) * 32 if compute_log_sumexp else 0
    # The generator's state stays on the host (a CUDA graph's capture apart).
    state = TensorMeta((), (), torch.int64, torch.device("cpu"))
    return (
        _like_query(query, value.size[3]),
        fresh((batch, heads, rows), query, torch.float32),
        state,
        state,
    )


@rule("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(
    grad_out: TensorMeta, query: TensorMeta, key: TensorMeta, value: TensorMeta, *rest: Any, **options: Any
) -> tuple[TensorMeta | None, ...]:
    """Gradients of query, key, value and bias; `rest` begins with the bias and has the wanted ones as its seventh."""
    attn_bias, grad_input_mask = rest[0], rest[6]
    grads = [_like_query(meta, meta.size[3]) for meta in (query, key, value)]
    return (*grads, _bias_gradient(attn_bias, grad_input_mask[3]))


def _bias_gradient(bias: TensorMeta | None, wanted: bool) -> TensorMeta | None:
    """The kernel wants rows of a multiple of 16 elements, and shows a slice of them."""
    if bias is None or not wanted:
        return None
    padded = (*bias.size[:-1], ((bias.size[-1] + 15) // 16) * 16)
    return TensorMeta(bias.size, contiguous_strides(padded), bias.dtype, bias.device)


@rule("_efficient_attention_backward")
def efficient_kernel_backward(
    grad_out: TensorMeta,
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    bias: TensorMeta | None,
    *rest: Any,
    shared_storage_dqdkdv: bool = False,
    **options: Any,
) -> Any:
    """Row-major gradients of query, key and value, and of the bias; `rest` ends with whether that is wanted."""
    if shared_storage_dqdkdv:
        return NotImplemented
    return (*(fresh(meta.size, meta) for meta in (query, key, value)), _bias_gradient(bias, rest[-1]))


@rule("_scaled_dot_product_cudnn_attention")
def cudnn(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    bias: TensorMeta | None,
    keep_sums: bool,
    *_: Any,
    **options: Any,
) -> tuple[Any, ...]:
    """cuDNN's attention: result, log-sum-exp if asked for, no offsets, lengths, random state, no mask."""
    batch, heads, length, _ = query.size
    state = TensorMeta((), (), torch.int64, query.device)
    logsumexp = fresh((batch, heads, length, 1), query, torch.float32) if keep_sums else None
    return like(query), logsumexp, None, None, length, key.size[2], state, state, None


@rule("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(src: TensorMeta, *_: Any, **options: Any) -> TensorMeta:
    """A whole encoder layer in one kernel, as inference runs it: like the source, row-major."""
    return fresh(src.size, src)


@rule("_native_multi_head_attention")
def native_multi_head_attention(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    embed_dim: Size,
    num_head: Size,
    qkv_weight: TensorMeta,
    qkv_bias: TensorMeta,
    proj_weight: TensorMeta,
    proj_bias: TensorMeta,
    mask: TensorMeta | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """A whole self-attention layer at inference: the result and, where asked for, the weights (averaged over heads or not)."""
    if query.device.type != "cpu":
        return NotImplemented
    batch, length, width = query.size
    if width != embed_dim or proj_weight.size[0] != embed_dim:
        raise RuntimeError(f"passed-in embed_dim {embed_dim} didn't match last dim of query {width}")
    empty = any(type(size) is int and size == 0 for size in query.size)
    if not need_weights or empty:
        return fresh((batch, length, embed_dim), query), None
    heads = () if average_attn_weights else (num_head,)
    return fresh((batch, length, embed_dim), query), fresh((batch, *heads, length, key.size[1]), query)
