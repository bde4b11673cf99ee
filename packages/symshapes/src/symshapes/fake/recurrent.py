"""Recurrent layers for symbolic sizes, of which torch's C++ writes out the steps that it meets.

In: what `torch.gru` and its like take. Out: what they give: by oneDNN's layers where eager's LSTM is made of them, by cuDNN's networks, else by
operators that take any number of steps (recurrence.py), else by the steps met, as for few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from symshapes import _torch
from symshapes.cells import CELLS
from symshapes.fake import products
from symshapes.fake.uncounted import dropout
from symshapes.records import dataclass
from symshapes.recurrence import recurrence, recurrence_backward, recurrent_layers
from symshapes.rules.layout import sure
from symshapes.rules.registry import DataDependentError

WRITTEN_OUT = 100
"""How many steps of all layers are written out at most where that is known: kernels that compute several operations of a step run
faster than eager's one by one, but each step takes a twentieth to a fifth of a second to compile."""

_linear: Any = products.linear if _torch.MATMUL_NEEDS_INTS else F.linear


@dataclass(frozen=True)
class _Call:
    """A call of `torch.gru` or its like. `states`: (layers and directions, batch, width) each; `batch_sizes`: of packed rows."""

    kind: str
    input: Tensor
    batch_sizes: Tensor | None
    states: Sequence[Tensor]
    weights: Sequence[Tensor]
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @classmethod
    def of(cls, kind: str, args: Sequence[Any]) -> _Call | None:
        """The call with these arguments; None where they are not told by place, or the states are none of this kind's."""
        if len(args) != 9:
            return None
        packed = _is_packed(args, {})
        input, batch_sizes, states, *rest = args if packed else (args[0], None, *args[1:])
        if kind != "lstm":
            states = [states]
        elif not isinstance(states, (list, tuple)) or len(states) != 2:
            return None
        if not all(isinstance(state, Tensor) for state in states):
            return None
        return cls(kind, input, batch_sizes, states, *rest, *([False] if packed else []))

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def projected(self) -> bool:
        """Whether weights for an LSTM's output follow those of each layer."""
        count = self.layers * self.directions * (4 if self.has_biases else 2)
        return self.kind == "lstm" and len(self.weights) > count

    @property
    def each(self) -> int:
        """Weights of a layer in a direction."""
        return 2 + 2 * self.has_biases + self.projected

    @property
    def has_all_weights(self) -> bool:
        """Whether there are as many as its layers and directions have."""
        return len(self.weights) == self.layers * self.directions * self.each

    def parts(self, at: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
        """Weights for the input and for the state, biases and projection of a layer in a direction."""
        count = len(self.weights) // (self.layers * self.directions)
        of_input, of_state, *rest = self.weights[at * count : (at + 1) * count]
        projection = rest.pop() if self.projected else None
        return of_input, of_state, *((rest[0], rest[1]) if self.has_biases else (None, None)), projection

    def fits(self) -> bool:
        """Whether the operators for any number of steps do what eager does: on the CPU, where torch itself goes step by step."""
        tensors = [self.input, *self.states, *self.weights]
        return (
            all(t.device.type == "cpu" and t.dtype is self.input.dtype for t in tensors)
            and self.input.is_floating_point()
            and not torch.is_autocast_enabled("cpu")
            and self.input.dim() == (3 if self.batch_sizes is None else 2)
            and self.has_all_weights
            and all(state.dim() == 3 and state.shape[0] == self.layers * self.directions for state in self.states)
            and all(sure(state.shape[1] == self.states[0].shape[1]) for state in self.states)
            and (self.batch_sizes is not None or sure(self.states[0].shape[1] == self.batch))
        )

    def check_widths(self) -> None:
        """Raises `RuntimeError` where the input, which is no packed one, or a state is of another size than weights and batch ask, as cuDNN does."""
        of_input, of_state, *_, projection = self.parts(0)
        cell = of_state.shape[1] if projection is None else projection.shape[1]
        if sure(self.input.shape[2] != of_input.shape[1]):
            raise RuntimeError(f"Expected input of width {of_input.shape[1]}, got {self.input.shape[2]}")
        for state, width in zip(self.states, (of_state.shape[1], cell), strict=False):
            wanted = (self.layers * self.directions, self.batch, width)
            if any(sure(size != each) for size, each in zip(state.shape, wanted, strict=True)):
                raise RuntimeError(f"Expected hidden size {wanted}, got {tuple(state.shape)}")

    @property
    def batch(self) -> Any:
        return self.input.shape[0 if self.batch_first else 1]

    def is_short(self) -> bool:
        """Whether torch's C++ may write out the steps: where all is known, which it would make constants."""
        if self.batch_sizes is not None or _is_symbolic([self.input, *self.states, *self.weights]):
            return False
        length = self.input.shape[1 if self.batch_first else 0]
        return bool(length * self.layers * self.directions <= WRITTEN_OUT)

    def is_onednn(self) -> bool:
        """Whether eager's LSTM may be made of oneDNN's layers, by its kind: which dtypes these take hangs on the processor."""
        return (
            self.kind == "lstm"
            and self.batch_sizes is None
            and not self.projected
            and self.input.dtype is not torch.float64
        )


class _Recurrence(torch.autograd.Function):
    """A layer in one direction, with an operator of its own for its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        projection: Tensor | None,
        batch_sizes: Tensor | None,
        kind: str,
        reverse: bool,
        *first: Tensor,
    ) -> tuple[Tensor, ...]:
        rest = (list(first), weight, bias, projection, batch_sizes, kind, reverse)
        output, hidden, cell, *kept = recurrence(gates, *rest)
        ctx.kind, ctx.reverse = kind, reverse
        ctx.save_for_backward(output, *kept, weight, bias, projection, batch_sizes, *first)
        ctx.set_materialize_grads(False)
        # The program may write to what it gets.
        return (output.clone(), hidden, cell) if kind == "lstm" else (output.clone(), hidden)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        of_rows, of_hidden, of_cell = (*gradients, None)[:3]
        rows, gates, states, weight, bias, projection, batch_sizes, *first = ctx.saved_tensors
        by_gates, hidden, cell, by_weight, by_bias, by_projection = recurrence_backward(
            *(of_rows, of_hidden, of_cell, rows, gates, states),
            *(first, weight, bias, projection, batch_sizes, ctx.kind, ctx.reverse),
        )
        return (
            *(by_gates, by_weight, None if bias is None else by_bias, None if projection is None else by_projection),
            *(None, None, None),
            *(hidden, cell)[: len(first)],
        )


def _through(call: _Call) -> tuple[Tensor, ...]:
    """The call by operators for any number of steps."""
    value = call.input.transpose(0, 1) if call.batch_first else call.input
    drops = call.dropout != 0 and call.train and call.layers > 1
    if torch.is_grad_enabled() and any(t.requires_grad for t in (value, *call.states, *call.weights)):
        by_layer = _differentiable
    elif drops:
        by_layer = _alone
    else:
        rest = (list(call.weights), call.kind, call.has_biases, call.layers, call.bidirectional)
        value, *last = recurrent_layers(value, call.batch_sizes, list(call.states), *rest)
        return _returned(call, value, last[: len(call.states)])
    ends: list[tuple[Tensor, ...]] = []
    for layer in range(call.layers):
        value, last = by_layer(call, value, layer)
        ends.append(last)
        if drops and layer < call.layers - 1:
            value = dropout(value, call.dropout, True)
    return _returned(call, value, [torch.cat(states) for states in zip(*ends, strict=True)])


def _returned(call: _Call, value: Tensor, last: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return (value.transpose(0, 1) if call.batch_first else value, *last)


def _alone(call: _Call, value: Tensor, layer: int) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A layer as eager runs it in inference; its last states."""
    count = len(call.weights) // call.layers
    first = [state[layer * call.directions : (layer + 1) * call.directions] for state in call.states]
    weights = list(call.weights[layer * count : (layer + 1) * count])
    value, *last = recurrent_layers(
        value, call.batch_sizes, first, weights, call.kind, call.has_biases, 1, call.bidirectional
    )
    return value, tuple(last[: len(first)])


def _differentiable(call: _Call, value: Tensor, layer: int) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A layer with its gradients; its last states."""
    outputs, ends = [], []
    for direction in range(call.directions):
        at = layer * call.directions + direction
        of_input, of_state, bias_of_input, bias, projection = call.parts(at)
        output, *last = _Recurrence.apply(  # type: ignore[no-untyped-call]
            *(_linear(value, of_input, bias_of_input), of_state, bias, projection, call.batch_sizes),
            *(call.kind, direction > 0, *(state[at] for state in call.states)),
        )
        outputs.append(output)
        ends.append(last)
    value = outputs[0] if call.directions == 1 else torch.cat(outputs, -1)
    return value, tuple(torch.stack(states) for states in zip(*ends, strict=True))


def _with_plain_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on views whose sizes are ints: each symbolic size is guarded to its hint."""

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor) and any(type(length) is torch.SymInt for length in value.shape):  # type: ignore[comparison-overlap]
            return value.view([int(length) for length in value.shape])
        if isinstance(value, (list, tuple)):
            return type(value)(plain(item) for item in value)
        return value

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*plain(args), **{name: plain(value) for name, value in kwargs.items()})

    return call


def _is_symbolic(tensors: Sequence[Tensor]) -> bool:
    return any(isinstance(length, torch.SymInt) for tensor in tensors for length in tensor.shape)


def _is_packed(args: Sequence[Any], named: dict[str, Any]) -> bool:
    """Whether a call says by a tensor how many rows each step has."""
    return "batch_sizes" in named or (len(args) > 3 and isinstance(args[3], (list, tuple)))


def _layers(kind: str) -> Callable[..., Any]:
    torchs: Any = getattr(torch, kind)
    met = _with_plain_sizes(torchs) if kind == "lstm" else torchs

    def layers(*args: Any, **named: Any) -> Any:
        """`torch.gru` and its like. Raises DataDependentError for packed rows that no operator here takes."""
        call = None if named else _Call.of(kind, args)
        if (call is None or not call.fits()) and _is_packed(args, named):
            raise DataDependentError(torchs)  # the C++ would read memory that fakes have not
        if call is None:
            return met(*args, **named)
        if _by_onednn(call):
            return _of_onednn(call)
        if _by_cudnn(call):
            call.check_widths()
            return _of_cudnn(call)
        if call.is_onednn() or not call.fits() or call.is_short():
            return met(*args)
        return _through(call)

    return layers


def _by_onednn(call: _Call) -> bool:
    """Whether eager's LSTM of these, of which some size is symbolic, is made of oneDNN's layers."""
    tensors = [call.input, *call.states, *call.weights]
    mkldnn: Any = torch.backends.mkldnn
    return bool(
        call.is_onednn()
        and _is_symbolic(tensors)
        and call.has_all_weights
        and all(tensor.device.type == "cpu" and tensor.dtype is torch.float32 for tensor in tensors)
        and mkldnn.is_available()
        and mkldnn.enabled
        and call.input.dim() == 3
        and call.input.numel() != 0
    )


def _of_onednn(call: _Call) -> tuple[Tensor, ...]:
    value = (call.input.transpose(0, 1) if call.batch_first else call.input).contiguous()
    hidden, cell = (state.contiguous() for state in call.states)
    after: tuple[list[Tensor], list[Tensor]] = [], []
    for layer in range(call.layers):
        outputs = []
        for direction in range(call.directions):
            at = layer * call.directions + direction
            of_input, of_state, *biases, _ = call.parts(at)
            if not call.has_biases:
                biases = [torch.zeros_like(of_input), torch.zeros_like(of_state)]
            output, *last, _ = torch.ops.aten.mkldnn_rnn_layer.default(
                *(value, of_input, of_state, *biases, hidden[at], cell[at], direction > 0, [], 2),
                *(hidden.shape[2], call.layers, call.has_biases, call.bidirectional, call.batch_first, call.train),
            )
            outputs.append(output)
            for states_after, state in zip(after, last, strict=True):
                states_after.append(state)
        value = outputs[0] if call.directions == 1 else torch.cat(outputs, -1)
        if call.dropout != 0 and call.train and layer < call.layers - 1:
            value = dropout(value, call.dropout, True)
    return _returned(call, value, [torch.stack(states) for states in after])


_CUDNN = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
"""cuDNN's number for each kind."""


def _by_cudnn(call: _Call) -> bool:
    """Whether eager's networks of these are cuDNN's. Torch's C++ asks the library how the weights lie, which those of fakes do nowhere."""
    first, *others = [call.input, *call.states, *call.weights]
    return bool(
        first.device.type == "cuda"
        and call.batch_sizes is None
        and not (call.train and call.dropout)
        and not torch.is_autocast_enabled("cuda")
        and all(tensor.device == first.device and tensor.dtype is first.dtype for tensor in others)
        and first.dim() == 3
        and all(state.dim() == 3 for state in call.states)
        and call.has_all_weights
        and not sure(first.numel() == 0)
        and _takes(first.dtype, first.device)
    )


def _takes(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether torch's C++ hands tensors to cuDNN: of more dtypes than `torch.backends.cudnn.is_acceptable` says."""
    return torch.cudnn_is_acceptable(torch.empty(1, dtype=dtype, device=device))


def _of_cudnn(call: _Call) -> tuple[Tensor, ...]:
    hidden, cell = call.states[0], call.states[1] if len(call.states) > 1 else None
    output, *last, _, _ = torch.ops.aten._cudnn_rnn.default(
        *(call.input, [*call.weights], call.each, None, hidden, cell, _CUDNN[call.kind]),
        hidden.shape[2] if cell is None else cell.shape[2],
        hidden.shape[2] if call.projected else 0,
        *(call.layers, call.batch_first, call.dropout, call.train, call.bidirectional, [], None),
    )
    return output, *last[: len(call.states)]


ROWS: dict[Any, Callable[..., Any]] = {getattr(torch, kind): _layers(kind) for kind in CELLS}
