"""Recurrent layers."""

from collections.abc import Sequence
from typing import Any

import torch

from symshapes.rules.layout import Size, TensorMeta, View, fresh, view_of
from symshapes.rules.registry import DataDependentError, rule


@rule("_pack_padded_sequence")
def pack_padded_sequence(input: TensorMeta, lengths: TensorMeta, batch_first: bool) -> Any:
    """How many rows and steps there are is in the lengths."""
    raise DataDependentError(torch.ops.aten._pack_padded_sequence.default)


@rule("mkldnn_rnn_layer")
def mkldnn_rnn_layer(*args: Any) -> tuple[TensorMeta, TensorMeta, TensorMeta, TensorMeta]:
    """(L, N, I) through one layer in one direction: output, last states, and a workspace only the library knows.

    The arguments: input, four weights, two states, reverse, batch sizes, mode, hidden size and flags.
    """
    input, states, hidden = args[0], args[5:7], args[10]
    length, batch = input.size[:2]
    hy, cy = (fresh(state.size, state) for state in states)
    return fresh((length, batch, hidden), input), hy, cy, TensorMeta((0,), (1,), torch.uint8, input.device)


@rule("mkldnn_rnn_layer_backward")
def mkldnn_rnn_layer_backward(
    input: TensorMeta,
    weight1: TensorMeta,
    weight2: TensorMeta,
    weight3: TensorMeta,
    weight4: TensorMeta,
    hx_: TensorMeta,
    cx_tmp: TensorMeta,
    *_: Any,
) -> tuple[TensorMeta, ...]:
    """Gradients of input, weights, biases and states, in float32 whatever they are."""
    metas = (input, weight1, weight2, weight3, weight4, hx_, cx_tmp)
    return tuple(fresh(meta.size, meta, torch.float32) for meta in metas)


@rule("_thnn_fused_lstm_cell")
def thnn_fused_lstm_cell(
    input_gates: TensorMeta, hidden_gates: TensorMeta, cx: TensorMeta, *_: Any
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """CUDA's fused cell: hidden state, cell state, workspace."""
    state = fresh(cx.size, cx)
    return state, state, fresh(input_gates.size, input_gates)


@rule("_thnn_fused_gru_cell")
def thnn_fused_gru_cell(
    input_gates: TensorMeta, hidden_gates: TensorMeta, hx: TensorMeta, *_: Any
) -> tuple[TensorMeta, TensorMeta]:
    """CUDA's fused cell: hidden state and workspace of five gates."""
    return fresh(hx.size, hx), fresh((hx.size[0], hx.size[1] * 5), hx)


@rule("_thnn_fused_gru_cell_backward")
def thnn_fused_gru_cell_backward(
    grad_hy: TensorMeta, workspace: TensorMeta, has_bias: bool
) -> tuple[TensorMeta | None, ...]:
    """Gradients of both gates, hidden state and both biases."""
    hidden = grad_hy.size[1]
    gates = fresh((workspace.size[0], 3 * hidden), workspace)
    bias = fresh((3 * hidden,), workspace) if has_bias else None
    return gates, gates, fresh(grad_hy.size, grad_hy), bias, bias


@rule("_thnn_fused_lstm_cell_backward_impl")
def thnn_fused_lstm_cell_backward(
    grad_hy: TensorMeta | None,
    grad_cy: TensorMeta | None,
    cx: TensorMeta,
    cy: TensorMeta,
    workspace: TensorMeta,
    has_bias: bool,
) -> tuple[Any, ...]:
    """Gradients of gates, cell state and bias."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    gates = fresh(workspace.size, workspace)
    return gates, fresh(cx.size, cx), fresh((workspace.size[1],), workspace) if has_bias else None


@rule("_cudnn_rnn")
def cudnn_rnn(
    input: TensorMeta,
    weight: Sequence[TensorMeta],
    weight_stride0: int,
    weight_buf: TensorMeta | None,
    hx: TensorMeta,
    cx: TensorMeta | None,
    mode: int,
    hidden_size: Size,
    proj_size: Size,
    num_layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_sizes: Sequence[Size],
    dropout_state: TensorMeta | None,
) -> tuple[TensorMeta | View, ...]:
    """A whole network: output, last states, and a reserve whose size only the library knows (taken as empty)."""
    directions = 2 if bidirectional else 1
    width = (proj_size if proj_size else hidden_size) * directions
    packed = bool(batch_sizes)
    if packed:
        output = fresh((*input.size[:-1], width), input)
        batch = batch_sizes[0]
    else:
        # The library writes (L, N, H); batch-first results are its transpose.
        length, batch = (input.size[1], input.size[0]) if batch_first else input.size[:2]
        output = fresh((length, batch, width), input)
        if batch_first:
            size = (batch, length, width)
            output = TensorMeta(size, (width, width * batch, 1), input.dtype, input.device)
    layers = num_layers * directions
    hy = fresh((layers, batch, proj_size if proj_size else hidden_size), hx)
    cy = fresh((layers, batch, hidden_size), hx) if cx is not None else TensorMeta((0,), (1,), hx.dtype, hx.device)
    reserve = TensorMeta((0,), (1,), torch.uint8, input.device)
    # The packed weights come back as they went in.
    weights: TensorMeta | View = (
        TensorMeta((0,), (1,), input.dtype, input.device)
        if weight_buf is None
        else view_of(weight_buf, weight_buf.size, weight_buf.stride, base=3)
    )
    return output, hy, cy, reserve, weights


@rule("_cudnn_rnn_backward")
def cudnn_rnn_backward(
    input: TensorMeta,
    weight: Sequence[TensorMeta],
    weight_stride0: int,
    weight_buf: TensorMeta,
    hx: TensorMeta,
    cx: TensorMeta | None,
    *_: Any,
) -> tuple[Any, ...]:
    """Gradients of input, states and weights."""
    return (
        fresh(input.size, input),
        fresh(hx.size, hx),
        fresh(cx.size, cx) if cx is not None else None,
        [fresh(meta.size, meta) for meta in weight],
    )
