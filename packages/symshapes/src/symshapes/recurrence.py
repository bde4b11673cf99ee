"""Recurrent layers as operators that take any number of steps: one for all layers, and one for a layer in one direction, which
keeps what its gradients need, with another for these.

In: tensors as torch's own recurrent functions take them. Out: what these give. On fakes only sizes are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from symshapes.cells import CELLS, Made, Steps, Weights
from symshapes.facts.promotion import opmath_dtype
from symshapes.rules.layout import TensorMeta, fresh
from symshapes.rules.registry import register_rule

_NEEDED = "Tensor[] first, Tensor weight, Tensor? bias, Tensor? projection, Tensor? batch_sizes, str kind, bool reverse"
_SCHEMAS = (
    "recurrent_layers(Tensor input, Tensor? batch_sizes, Tensor[] first, Tensor[] weights, str kind, bool has_biases, "
    "int layers, bool bidirectional) -> (Tensor, Tensor, Tensor)",
    f"recurrence(Tensor gates, {_NEEDED}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "recurrence_backward(Tensor? of_rows, Tensor? of_hidden, Tensor? of_cell, Tensor rows, Tensor gates, Tensor states, "
    f"{_NEEDED}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
_library = torch.library.Library("symshapes", "FRAGMENT")
for _schema in _SCHEMAS:
    _library.define(_schema)

recurrent_layers = torch.ops.symshapes.recurrent_layers.default
"""`(input, batch_sizes, first states, weights, kind, has_biases, layers, bidirectional) -> (output, hidden, cell)`, as by
`torch.gru` and its like (`kind` names it) in inference, of (steps, batch, features) or, with `batch_sizes`, packed rows.
`cell` is empty but for an LSTM."""

recurrence = torch.ops.symshapes.recurrence.default
"""`(gates, first states, weight, bias, projection, batch_sizes, kind, reverse) -> (output, hidden, cell, gates, states)`: a layer in
one direction. `gates`: what the input adds to them, (steps, batch, gates) or (rows, gates). The last two are for its backward."""

recurrence_backward = torch.ops.symshapes.recurrence_backward.default
"""Gradients of a recurrence's gates, first hidden and cell states, weight, bias and projection; empty for what there is not."""


def _run_layers(
    input: Tensor,
    batch_sizes: Tensor | None,
    first: list[Tensor],
    weights: list[Tensor],
    kind: str,
    has_biases: bool,
    layers: int,
    bidirectional: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    states = first if kind == "lstm" else first[0]
    function: Any = getattr(torch, kind)
    with torch.no_grad():
        if batch_sizes is None:
            made = function(input, states, weights, has_biases, layers, 0.0, False, bidirectional, False)
        else:
            made = function(input, batch_sizes, states, weights, has_biases, layers, 0.0, False, bidirectional)
    return made if kind == "lstm" else (*made, input.new_empty(0))


def _steps(gates: Tensor, first: Sequence[Tensor], batch_sizes: Tensor | None, reverse: bool) -> Steps:
    if batch_sizes is None:
        return Steps([gates.shape[1]] * gates.shape[0], reverse)
    steps = Steps(batch_sizes.tolist(), reverse)
    if steps.sizes[0] != len(first[0]):
        raise RuntimeError(f"Expected hidden size for {steps.sizes[0]} sequences, got {len(first[0])}")
    if any(before < size for before, size in pairwise(steps.sizes)) or sum(steps.sizes) != len(gates):
        raise RuntimeError(f"{len(gates)} rows are not packed as batch sizes say: {steps.sizes}")
    return steps


def _run(
    gates: Tensor,
    first: list[Tensor],
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    batch_sizes: Tensor | None,
    kind: str,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    steps = _steps(gates, first, batch_sizes, reverse)
    given = gates.contiguous().view(-1, gates.shape[-1])
    states = [state.contiguous() for state in first]
    with torch.no_grad():
        made = CELLS[kind].forward(steps, given, states, Weights(weight, bias, projection))
        output = made.rows.view(*gates.shape[:-1], made.rows.shape[1])
        sums, inner = made.kept or (gates.new_empty(0), gates.new_empty(0))
        cell = steps.last(inner) if kind == "lstm" else gates.new_empty(0)
        return output, steps.last(made.rows), cell, sums, inner


def _run_back(
    of_rows: Tensor | None,
    of_hidden: Tensor | None,
    of_cell: Tensor | None,
    rows: Tensor,
    gates: Tensor,
    states: Tensor,
    first: list[Tensor],
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    batch_sizes: Tensor | None,
    kind: str,
    reverse: bool,
) -> tuple[Tensor, ...]:
    steps = _steps(rows, first, batch_sizes, reverse)
    dtype = rows.dtype
    precise = opmath_dtype(dtype)  # sums over many steps are in no less than single precision

    def exact(tensor: Any) -> Any:
        return None if tensor is None else tensor.to(precise).contiguous()

    with torch.no_grad():
        width = rows.shape[-1]
        made = Made(exact(rows).view(-1, width), (exact(gates), exact(states)))
        # Memory of its own, to add to.
        by_rows = torch.zeros_like(made.rows) if of_rows is None else torch.empty_like(made.rows)
        if of_rows is not None:
            by_rows.view(rows.shape).copy_(of_rows)
        steps.begin_back(by_rows, exact(of_hidden))
        begun = [exact(state) for state in first]
        before = steps.before(begun[0], made.rows)
        weights = Weights(exact(weight), None, exact(projection))
        found = CELLS[kind].backward(steps, made, begun, before, weights, by_rows, exact(of_cell))
        none = rows.new_empty(0)
        given = (
            found.by_input.view(*rows.shape[:-1], found.by_input.shape[1]),
            found.first[0],
            found.first[1] if kind == "lstm" else none,
            found.by_state.t().mm(before),
            none if bias is None else found.by_state.sum(0),
            none if found.projection is None else found.projection,
        )
        return tuple(gradient.to(dtype) for gradient in given)


for _operator, _function in (
    (recurrent_layers, _run_layers),
    (recurrence, _run),
    (recurrence_backward, _run_back),
):
    _library.impl(_operator._schema.name.partition("::")[2], _function, "CPU")


def _none(like: TensorMeta) -> TensorMeta:
    return fresh((0,), like)


@register_rule(recurrent_layers)
def _layers_rule(
    input: TensorMeta,
    batch_sizes: TensorMeta | None,
    first: Sequence[TensorMeta],
    weights: Sequence[TensorMeta],
    kind: str,
    has_biases: bool,
    layers: int,
    bidirectional: bool,
) -> tuple[TensorMeta, ...]:
    width = first[0].size[2] * (2 if bidirectional else 1)
    cell = fresh(first[1].size, input) if kind == "lstm" else _none(input)
    return fresh((*input.size[:-1], width), input), fresh(first[0].size, input), cell


@register_rule(recurrence)
def _rule(
    gates: TensorMeta,
    first: Sequence[TensorMeta],
    weight: TensorMeta,
    bias: TensorMeta | None,
    projection: TensorMeta | None,
    batch_sizes: TensorMeta | None,
    kind: str,
    reverse: bool,
) -> tuple[TensorMeta, ...]:
    rows = gates.size[0] if batch_sizes is not None else gates.size[0] * gates.size[1]
    cell = fresh(first[1].size, gates) if kind == "lstm" else _none(gates)
    width = first[-1].size[1]
    kept = (
        (_none(gates), _none(gates))
        if kind not in ("gru", "lstm")
        else (fresh((rows, gates.size[-1]), gates), fresh((rows, width), gates))
    )
    output = fresh((*gates.size[:-1], first[0].size[1]), gates)
    return output, fresh(first[0].size, gates), cell, *kept


@register_rule(recurrence_backward)
def _rule_back(
    of_rows: TensorMeta | None,
    of_hidden: TensorMeta | None,
    of_cell: TensorMeta | None,
    rows: TensorMeta,
    gates: TensorMeta,
    states: TensorMeta,
    first: Sequence[TensorMeta],
    weight: TensorMeta,
    bias: TensorMeta | None,
    projection: TensorMeta | None,
    batch_sizes: TensorMeta | None,
    kind: str,
    reverse: bool,
) -> tuple[TensorMeta, ...]:
    return (
        fresh((*rows.size[:-1], weight.size[0]), rows),
        fresh(first[0].size, rows),
        fresh(first[1].size, rows) if kind == "lstm" else _none(rows),
        fresh(weight.size, rows),
        _none(rows) if bias is None else fresh(bias.size, rows),
        _none(rows) if projection is None else fresh(projection.size, rows),
    )
