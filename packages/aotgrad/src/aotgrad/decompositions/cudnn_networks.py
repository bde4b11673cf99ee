"""cuDNN's recurrent networks, as ops that look by themselves how the weights lie.

In: a call of `_cudnn_rnn` with weights of which it is not known where they lie, or of its backward. Out: a call of
`aotgrad::cudnn_network`, or in training of `aotgrad::cudnn_network_trained`, which is told how many bytes it keeps (or that it is any
number: only the library knows), and of `aotgrad::cudnn_network_backward`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from aotgrad import _torch
from aotgrad.decompositions.registry import decomposition
from aotgrad.errors import Unsupported
from symshapes import dataclass, register_apart, register_fake, register_function

aten = torch.ops.aten

_ANY = -1
_library = torch.library.Library("aotgrad", "FRAGMENT")
_library.define(
    "cudnn_network(Tensor input, Tensor[] weights, bool biases, Tensor hx, Tensor? cx, int mode, SymInt hidden_size, SymInt proj_size, int layers, "
    "bool batch_first, bool train, bool bidirectional, SymInt[] batch_sizes) -> (Tensor, Tensor, Tensor)"
)
_NETWORKS = (torch.rnn_relu, torch.rnn_tanh, torch.lstm, torch.gru)
"""By cuDNN's number for them."""
_LSTM = 2
_GATES = (1, 1, 4, 3)
"""How many each computes, by that number."""


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


def _torchs(how: Sequence[Any]) -> tuple[Any, ...]:
    """How a network runs, from its kind on, as torch's own operators take it, which are told of dropout, too."""
    *first, train, bidirectional, batch_sizes = how
    return *first, 0.0, train, bidirectional, batch_sizes, None


def _shapes(input: Tensor, weights: list[Tensor], each: int, *states_and_how: Any) -> tuple[Tensor, Tensor, Tensor]:
    hx, cx, *how = states_and_how
    output, hidden, cell, *_ = aten._cudnn_rnn.default(input, weights, each, None, hx, cx, *_torchs(how))
    return output, hidden, cell


def _shapes_of_network(
    input: Tensor, weights: list[Tensor], biases: bool, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _shapes(input, weights, 4 if biases else 2, *others)


_library.impl("cudnn_network", _run_network, "CompositeExplicitAutograd")
register_fake("aotgrad::cudnn_network", _shapes_of_network, _library)


@dataclass(frozen=True)
class _Layout:
    """How a network's weights lie one behind the other as cuDNN wants them: elements of all, the size of each weight and where it begins."""

    size: int
    sizes: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    # The same in bytes, from the first weight on.
    distances: list[int]

    @classmethod
    def of(cls, size: int, sizes: tuple[tuple[int, ...], ...], offsets: Sequence[int], width: int) -> _Layout:
        """Of elements of `width` bytes."""
        return cls(size, sizes, tuple(offsets), [(at - offsets[0]) * width for at in offsets])

    def found(self, weights: Sequence[Tensor]) -> Tensor:
        """The memory that the weights lie in so, as modules keep them; of others a copy."""
        first, *_ = addresses = [*map(Tensor.data_ptr, weights)]
        if [address - first for address in addresses] == self.distances and all(map(Tensor.is_contiguous, weights)):
            before = weights[0].storage_offset() - self.offsets[0]
            if before >= 0 and (before + self.size) * weights[0].itemsize <= weights[0].untyped_storage().nbytes():
                return weights[0].as_strided((self.size,), (1,), before)
        if (sizes := tuple(tuple(weight.shape) for weight in weights)) != self.sizes:
            raise RuntimeError(f"Expected weights of the sizes {self.sizes}, got {sizes}")
        copied = weights[0].new_zeros(self.size)
        for weight, part in zip(weights, self.parts(copied), strict=True):
            part.copy_(weight)
        return copied

    def parts(self, memory: Tensor) -> list[Tensor]:
        """The weights in such memory."""
        places = zip(self.sizes, self.offsets, strict=True)
        return [memory.narrow(0, at, math.prod(size)).view(*size) for size, at in places]


def _layout(weights: Sequence[Tensor], each: int, how: Sequence[Any]) -> _Layout:
    mode, hidden_size, proj_size, layers, _, _, bidirectional, _ = how
    first = weights[0]
    return _layout_of(
        first.shape[1], first.dtype, first.device, each, mode, hidden_size, proj_size, layers, bidirectional
    )


@functools.lru_cache(maxsize=256)
def _layout_of(
    input_size: int,
    dtype: torch.dtype,
    device: torch.device,
    each: int,
    mode: int,
    hidden_size: int,
    proj_size: int,
    layers: int,
    bidirectional: bool,
) -> _Layout:
    """Only the library knows: it lays out some of these sizes."""
    sizes = _sizes(input_size, each, mode, hidden_size, proj_size, layers, 1 + bidirectional)
    with torch.no_grad():
        weights = [torch.empty(size, dtype=dtype, device=device) for size in sizes]
        how = mode, hidden_size, proj_size, layers, False, bidirectional
        memory = aten._cudnn_rnn_flatten_weight.default(weights, each, input_size, *how)
        width = memory.itemsize
        offsets = [(weight.data_ptr() - memory.data_ptr()) // width for weight in weights]
        return _Layout.of(memory.numel(), sizes, offsets, width)


def _sizes(
    input_size: int, each: int, mode: int, hidden_size: int, proj_size: int, layers: int, directions: int
) -> tuple[tuple[int, ...], ...]:
    """Of the weights of all layers and directions: of what comes in, of the state, biases of both where there are any, a projection's."""
    gates, state = _GATES[mode] * hidden_size, proj_size or hidden_size
    biases = [(gates,), (gates,)] if each >= 4 else []
    projections = [(proj_size, hidden_size)] if proj_size else []
    sizes: list[tuple[int, ...]] = []
    for layer in range(layers):
        width = state * directions if layer else input_size
        sizes += [(gates, width), (gates, state), *biases, *projections] * directions
    return tuple(sizes)


_library.define(
    "cudnn_network_trained(Tensor input, Tensor[] weights, int each, Tensor hx, Tensor? cx, int mode, SymInt hidden_size, SymInt proj_size, "
    "int layers, bool batch_first, bool train, bool bidirectional, SymInt[] batch_sizes, int kept_bytes) -> (Tensor, Tensor, Tensor, Tensor)"
)
_library.define(
    "cudnn_network_backward(Tensor input, Tensor[] weights, int each, Tensor hx, Tensor? cx, Tensor output, Tensor? grad_output, "
    "Tensor? grad_hy, Tensor? grad_cy, int mode, SymInt hidden_size, SymInt proj_size, int layers, bool batch_first, bool train, "
    "bool bidirectional, SymInt[] batch_sizes, Tensor kept, bool[] wanted, bool keeps_graph) -> Tensor[]"
)


def network_trained(
    input: Tensor, weights: list[Tensor], each: int, hx: Tensor, cx: Tensor | None, *others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`aotgrad::cudnn_network_trained`: output, last states (the second is empty where there is one) and what the backward wants.

    Args:
        each: weights of a layer and direction.
        others: the kind of network by cuDNN's number and how it runs, in the schema's order; last the bytes of what the backward wants
            (-1: any), which only say how long it is where nothing runs.
    """
    *how, _ = others
    memory = _layout(weights, each, how).found(weights)
    output, hidden, cell, kept, _ = aten._cudnn_rnn.default(input, weights, each, memory, hx, cx, *_torchs(how))
    return output, hidden, cell, kept


def _shapes_trained(input: Tensor, weights: list[Tensor], each: int, *others: Any) -> tuple[Tensor, ...]:
    *states_and_how, kept_bytes = others
    size = torch.library.get_ctx().new_dynamic_size() if kept_bytes == _ANY else kept_bytes
    kept = torch.empty(size, dtype=torch.uint8, device=input.device)
    return *_shapes(input, weights, each, *states_and_how), kept


def network_backward(
    input: Tensor,
    weights: list[Tensor],
    each: int,
    hx: Tensor,
    cx: Tensor | None,
    output: Tensor,
    grad_output: Tensor | None,
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    *others: Any,
) -> list[Tensor]:
    """`aotgrad::cudnn_network_backward`: gradients of the input and of the states, each empty where it is not wanted, then of the weights.

    Args:
        others: how the network runs, as `network_trained` is told; then what the forward kept, which this may write over, which
            gradients are wanted (of input, first and second state, and all weights), and whether they were asked for with their graph kept.

    Raises:
        RuntimeError: for a network in evaluation, as eager.
    """
    *how, kept, wanted, keeps_graph = others
    memory = _layout(weights, each, how).found(weights)
    # The library writes to what was kept. Who keeps the graph reads it again: who runs the backward, or the program, which asked for
    # gradients within a forward. That may run in any backward, as where a checkpoint computes it again.
    mine = kept.clone() if keeps_graph or _torch.keeps_graph() else kept
    gradients = grad_output, grad_hy, grad_cy
    *found, of_weights = aten._cudnn_rnn_backward.default(
        input, weights, each, memory, hx, cx, output, *gradients, *_torchs(how), mine, wanted
    )
    nothing = input.new_empty(0)
    return [*(nothing if one is None else one for one in found), *(of_weights if wanted[3] else ())]


def _shapes_of_backward(
    input: Tensor, weights: list[Tensor], each: int, hx: Tensor, cx: Tensor | None, *others: Any
) -> list[Tensor]:
    *_, batch_first, _, _, batch_sizes, _, wanted, _ = others
    made = [t.new_empty(t.shape) for t in (input, hx, hx if cx is None else cx, *weights)]
    if batch_first and not batch_sizes:  # the library's, transposed
        made[0] = input.new_empty([input.shape[at] for at in (1, 0, 2)]).transpose(0, 1)
    nothing = input.new_empty(0)
    return [one if asked else nothing for one, asked in zip(made, wanted[:3], strict=False)] + made[3:] * wanted[3]


for _name, _function, _fake in (
    ("trained", network_trained, _shapes_trained),
    ("backward", network_backward, _shapes_of_backward),
):
    _library.impl(f"cudnn_network_{_name}", _function, "CompositeExplicitAutograd")
    register_fake(f"aotgrad::cudnn_network_{_name}", _fake, _library)
    register_function(getattr(torch.ops.aotgrad, f"cudnn_network_{_name}").default, _function)
# A backward writes over what its forward kept.
register_apart(torch.ops.aotgrad.cudnn_network_trained.default)


def _kept_bytes(
    input: Tensor, weights: list[Tensor], each: int, hx: Tensor, cx: Tensor | None, how: Sequence[Any]
) -> int:
    """What the library keeps for its backward, under the settings of this moment: only a run tells."""
    metadata = [(t.shape, t.dtype, t.device) for t in (input, hx, *weights)]
    with _disable_current_modes(), _torch.BelowAutograd(), torch.inference_mode(False):
        x, hidden, *zeros = (torch.zeros(size, dtype=dtype, device=device) for size, dtype, device in metadata)
        cell = None if cx is None else torch.zeros(cx.shape, dtype=cx.dtype, device=cx.device)
        layout = _layout(zeros, each, how)
        laid = layout.parts(zeros[0].new_zeros(layout.size))
        return network_trained(x, laid, each, hidden, cell, *how, _ANY)[3].numel()


def _in_training(input: Tensor, weights: list[Tensor], each: int, hx: Tensor, cx: Tensor | None, *how: Any) -> Any:
    """The network that keeps what its backward wants; its weights' memory is no result, for the backward finds it again."""
    if not torch.cuda.is_available():
        raise Unsupported("training of cuDNN's recurrent layers where there is no GPU to ask what they keep")
    given = input, weights, each, hx, cx
    sizes = [size for t in (input, hx, cx, *weights) if t is not None for size in t.shape]
    kept = _kept_bytes(*given, how) if all(type(size) is int for size in sizes) else _ANY
    results = torch.ops.aotgrad.cudnn_network_trained.default(*given, *how, kept)
    return *results, input.new_empty(0)


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
    """A network; where it drops, or weights were laid out by the program, in inference the call stays as it is.

    Args:
        each: weights of a layer and direction.
        buffer: where all of them lie.
    """
    states = hx, cx if mode == _LSTM else None
    how = mode, hidden_size, proj_size, layers, batch_first, train, bidirectional, batch_sizes
    apart = buffer is not None or (train and dropout > 0)
    if torch.is_grad_enabled():
        if apart:
            raise Unsupported("training of cuDNN's recurrent layers that drop, or whose weights the program laid out")
        return _in_training(input, weights, each, *states, *how)
    if apart:
        return NotImplemented
    output, hidden, cell = torch.ops.aotgrad.cudnn_network.default(input, weights, each >= 4, *states, *how)
    return output, hidden, cell, input.new_empty(0, dtype=torch.uint8), input.new_empty(0)


@decomposition(aten._cudnn_rnn_backward.default)
def cudnn_rnn_backward(
    input: Tensor, weights: list[Tensor], each: int, memory: Tensor, hx: Tensor, cx: Tensor | None, *others: Any
) -> Any:
    """The backward of a network, from which it got all but its weights' memory."""
    *given, dropout, train, bidirectional, batch_sizes, _, kept, wanted = others
    if dropout > 0 and train:
        return NotImplemented
    found = torch.ops.aotgrad.cudnn_network_backward.default(
        *(input, weights, each, hx, cx, *given, train, bidirectional, batch_sizes, kept, wanted),
        _torch.keeps_graph(),
    )
    return *(one if asked else None for one, asked in zip(found, wanted[:3], strict=False)), found[3:]
