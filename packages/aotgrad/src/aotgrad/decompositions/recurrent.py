"""The CPU's LSTM kernel, as an op whose results have known sizes whatever the grad mode.

In: a call of `mkldnn_rnn_layer`, whose fourth result (what its backward wants) is there only under grad mode and has a
size that only the kernel knows. Out: a call of `aotgrad::mkldnn_rnn_layer`, which is told that size, or that it is any.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from aotgrad import _torch
from aotgrad.decompositions.registry import decomposition
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
