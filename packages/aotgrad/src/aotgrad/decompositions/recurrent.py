"""The CPU's LSTM kernel, as an op whose results have known sizes whatever the grad mode; cuDNN's are refused in training.

In: a call of `mkldnn_rnn_layer`, whose fourth result (what its backward wants) is there only under grad mode and has a
size that only the kernel knows. Out: a call of `aotgrad::mkldnn_rnn_layer`, which is told that size, or that it is any.
In: a call of `_cudnn_rnn` with weights of which it is not known where they lie. Out: one of `aotgrad::cudnn_network`, which looks.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from aotgrad import _torch
from aotgrad.decompositions.registry import decomposition
from aotgrad.errors import Unsupported
from symshapes import register_fake

aten = torch.ops.aten

_ANY = -1
_SIGNATURE = (
    "(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor hx_, Tensor cx_, "
    "bool reverse, int[] batch_sizes, int mode, int hidden_size, int num_layers, bool has_biases, bool bidirectional, "
    "bool batch_first, bool train, int workspace_bytes) -> (Tensor, Tensor, Tensor, Tensor)"
)
_library = torch.library.Library("aotgrad", "DEF")
_library.define("mkldnn_rnn_layer" + _SIGNATURE)


def _run(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *given, workspace_bytes = arguments
    if workspace_bytes == 0:
        with torch.no_grad():
            output, hidden, cell, _ = aten.mkldnn_rnn_layer.default(*given)
        return output, hidden, cell, torch.empty(0, dtype=torch.uint8)
    # As kernels run in eager training: grad mode on, autograd already passed.
    with _torch.BelowAutograd(), torch.enable_grad():
        return aten.mkldnn_rnn_layer.default(*given)


def _shapes(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, hidden, cell, hidden_size, workspace_bytes = (arguments[i] for i in (0, 5, 6, 10, 16))
    output = x.new_empty((*x.shape[:2], hidden_size))
    size = torch.library.get_ctx().new_dynamic_size() if workspace_bytes == _ANY else workspace_bytes
    workspace = torch.empty(size, dtype=torch.uint8, device=x.device)
    return output, torch.empty_like(hidden), torch.empty_like(cell), workspace


_library.impl("mkldnn_rnn_layer", _run, "CPU")
register_fake("aotgrad::mkldnn_rnn_layer", _shapes, _library)


@decomposition(aten.mkldnn_rnn_layer.default)
def mkldnn_rnn_layer(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same kernel as an operator of our own, which says how large a workspace its backward needs (0: none; where sizes are
    symbolic, what the kernel makes)."""
    wanted = 0
    if torch.is_grad_enabled():
        tensors = arguments[:7]
        if any(type(size) is not int for t in tensors for size in t.shape):
            return torch.ops.aotgrad.mkldnn_rnn_layer.default(*arguments, _ANY)
        metadata = tuple((tuple(t.shape), t.dtype) for t in tensors)
        scalars = tuple(tuple(a) if isinstance(a, (list, tuple)) else a for a in arguments[7:])
        wanted = _workspace_bytes(metadata, scalars)
    return torch.ops.aotgrad.mkldnn_rnn_layer.default(*arguments, wanted)


@functools.lru_cache(maxsize=256)
def _workspace_bytes(metadata: tuple[Any, ...], scalars: tuple[Any, ...]) -> int:
    """What the kernel makes for its backward: only a run tells."""
    with _disable_current_modes(), _torch.BelowAutograd(), torch.enable_grad():
        tensors = [torch.zeros(size, dtype=dtype) for size, dtype in metadata]
        workspace = aten.mkldnn_rnn_layer.default(*tensors, *scalars)[3]
    return workspace.numel()


_library.define(
    "cudnn_network(Tensor input, Tensor[] weights, bool biases, Tensor hx, Tensor? cx, int mode, SymInt hidden_size, SymInt proj_size, int layers, "
    "bool batch_first, bool train, bool bidirectional, SymInt[] batch_sizes) -> (Tensor, Tensor, Tensor)"
)
_NETWORKS = (torch.rnn_relu, torch.rnn_tanh, torch.lstm, torch.gru)
"""By cuDNN's number for them."""
_LSTM = 2


def _run_network(
    input: Tensor,
    weights: list[Tensor],
    biases: bool,
    hx: Tensor,
    cx: Tensor | None,
    mode: int,
    hidden_size: int,
    proj_size: int,
    layers: int,
    batch_first: bool,
    train: bool,
    bidirectional: bool,
    batch_sizes: list[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """Torch's own call, which sees that weights lie one behind the other as cuDNN wants them; `_cudnn_rnn` would copy them each time."""
    states: Any = hx if cx is None else (hx, cx)
    network: Any = _NETWORKS[mode]
    how = weights, biases, layers, 0.0, train, bidirectional
    with torch.no_grad():
        if batch_sizes:
            output, *last = network(input, torch.tensor(batch_sizes), states, *how)
        else:
            output, *last = network(input, states, *how, batch_first)
    return output, last[0], last[1] if cx is not None else hx.new_empty(0)


def _shapes_of_network(
    input: Tensor, weights: list[Tensor], biases: bool, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """`others`: as `_cudnn_rnn` takes them, too, which is told of no dropout."""
    *how, train, bidirectional, batch_sizes = others
    given = weights, 4 if biases else 2, None, *how, 0.0, train, bidirectional, batch_sizes, None
    output, hidden, cell, *_ = aten._cudnn_rnn.default(input, *given)
    return output, hidden, cell


_library.impl("cudnn_network", _run_network, "CompositeExplicitAutograd")
register_fake("aotgrad::cudnn_network", _shapes_of_network, _library)


@decomposition(aten._cudnn_rnn.default)
def cudnn_rnn(
    input: Tensor,
    weights: list[Tensor],
    each: int,
    buffer: Tensor | None,
    hx: Tensor,
    cx: Tensor | None,
    mode: int,
    hidden_size: int,
    proj_size: int,
    layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_sizes: list[int],
    state: Tensor | None,
) -> Any:
    """In inference a network; where it drops, or weights were laid out by the program, it stays as it is. What it keeps for its backward
    has sizes that only the library knows, on the device.

    Args:
        each: weights of a layer and direction.
        buffer: where all of them lie.
    """
    if torch.is_grad_enabled():
        raise Unsupported("training of cuDNN's recurrent layers")
    if buffer is not None or (train and dropout > 0):
        return NotImplemented
    states = hx, cx if mode == _LSTM else None
    output, hidden, cell = torch.ops.aotgrad.cudnn_network.default(
        input,
        weights,
        each >= 4,
        *states,
        mode,
        hidden_size,
        proj_size,
        layers,
        batch_first,
        train,
        bidirectional,
        batch_sizes,
    )
    return output, hidden, cell, input.new_empty(0, dtype=torch.uint8), input.new_empty(0)
