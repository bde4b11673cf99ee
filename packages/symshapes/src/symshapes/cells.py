"""The arithmetic of recurrent layers in one direction, over the rows of all steps: forward, and back.

In: what the input adds to each row's gates, first states, weights. Out: a state a row, the last states, and what the way back
needs; there, gradients. The way there is eager's operations one by one, so that values are eager's; the way back is a
product a step, and the rest over all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from symshapes.records import dataclass

_threshold_backward = torch.ops.aten.threshold_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input

Part = slice | None
Way = list[tuple[int, list[tuple[Tensor, Part]]]]


class Steps:
    """Which rows are each step's. `sizes`: how many, never more than the step before has: some sequences are over sooner.

    Raises RuntimeError, as eager does, where there is no step.
    """

    def __init__(self, sizes: Sequence[int], reverse: bool) -> None:
        if not sizes:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        self.sizes = list(sizes)
        self.reverse = reverse
        self.order = range(len(sizes) - 1, -1, -1) if reverse else range(len(sizes))
        self.even = self.sizes[0] == self.sizes[-1]

    def of(self, rows: Tensor) -> Sequence[Tensor]:
        """The rows of each step."""
        if self.even:
            return rows.view(len(self.sizes), self.sizes[0], *rows.shape[1:]).unbind(0)
        return rows.split(self.sizes)

    def start(self, first: Tensor) -> Tensor:
        """The states that the first of the steps to be gone through begins with."""
        return first[: self.sizes[self.order[0]]]

    def begun(self, state: Tensor, first: Tensor, step: int) -> Tensor:
        """The states that a step goes on with: without those of sequences that are over, with those that begin."""
        count = self.sizes[step]
        if count == len(state):
            return state
        return state[:count] if count < len(state) else torch.cat([state, first[len(state) : count]])

    def before(self, first: Tensor, made: Tensor) -> Tensor:
        """For each row the state before it."""
        if self.even:
            count = len(made) - len(first)
            return torch.cat([made[len(first) :], first] if self.reverse else [first, made[:count]])
        states, state, parts = self.of(made), self.start(first), []
        for step in self.order:
            parts.append(self.begun(state, first, step))
            state = states[step]
        return torch.cat(parts[::-1] if self.reverse else parts)

    def ends(self, rows: Tensor) -> list[tuple[Tensor, slice]]:
        """The rows that are the last of sequences, in the order of these, and which."""
        if self.reverse:
            return [(rows[: self.sizes[0]], slice(None))]
        if self.even:
            return [(rows[len(rows) - self.sizes[0] :], slice(None))]
        found = zip(self.of(rows), pairwise([*self.sizes, 0]), strict=True)
        return [(of_step[end:], slice(end, size)) for of_step, (size, end) in found if end != size][::-1]

    def last(self, made: Tensor) -> Tensor:
        """The last state of each sequence, in memory of its own."""
        return torch.cat([part for part, _ in self.ends(made)])

    def begin_back(self, rows: Tensor, gradient: Tensor | None) -> None:
        """Add to rows' gradients what comes by the last states."""
        if gradient is not None:
            for part, which in self.ends(rows):
                part.add_(gradient[which])

    def back(self, rows: Tensor, first: Tensor) -> Way:
        """The steps, last ones first; for each, where the gradients of the states before it are added: those of which of its rows
        (None: all) to gradients of rows, or of first states."""
        steps = self.of(rows)
        order = list(reversed(self.order))
        way: Way = []
        for step, before in zip(order, [*order[1:], None], strict=True):
            count = self.sizes[step]
            kept = 0 if before is None else min(count, self.sizes[before])
            targets: list[tuple[Tensor, Part]] = []
            if before is not None:
                to = steps[before]
                targets.append((to if kept == len(to) else to[:kept], None if kept == count else slice(0, kept)))
            if kept < count:
                targets.append((first[kept:count], None if kept == 0 else slice(kept, count)))
            way.append((step, targets))
        return way


def _part(rows: Tensor, part: Part) -> Tensor:
    return rows if part is None else rows[part]


@dataclass(frozen=True)
class Weights:
    """Of a layer: (gates, width), (gates), and (width, hidden) of an LSTM whose output is projected."""

    hidden: Tensor
    bias: Tensor | None
    projection: Tensor | None

    def gates(self, state: Tensor, out: Tensor) -> Tensor:
        """What a state adds to the gates."""
        if self.bias is None:
            return torch.mm(state, self.hidden.t(), out=out)
        return torch.addmm(self.bias, state, self.hidden.t(), out=out)


@dataclass
class Made:
    """What a layer gave: `rows` a state each; `kept`: what else the way back needs, (rows, ...) each."""

    rows: Tensor
    kept: tuple[Tensor, Tensor] | None = None


@dataclass
class Gradients:
    """Of gates, as the input and as the state before see them, first states, and a projection."""

    by_input: Tensor
    by_state: Tensor
    first: list[Tensor]
    projection: Tensor | None = None


class Cell(Protocol):
    """What a kind of layer does in each step. The gates of a row are `gates` times as many as its state's (before a projection)."""

    @property
    def gates(self) -> int:
        """How many there are."""
        ...

    def forward(self, steps: Steps, given: Tensor, first: Sequence[Tensor], weights: Weights) -> Made:
        """Through all steps, by what the input adds to gates, from the first states."""
        ...

    def backward(
        self,
        steps: Steps,
        made: Made,
        first: Sequence[Tensor],
        before: Tensor,
        weights: Weights,
        rows: Tensor,
        cell: Any,
    ) -> Gradients:
        """Back through them, by the gradients of rows, to which those of the steps after them are added in place.

        `before`: each row's state before it. `cell`: the gradient of an LSTM's last cells, if there is one.
        """
        ...


class Plain:
    """`tanh` or `relu` of the sum."""

    gates = 1

    def __init__(self, activation: str) -> None:
        self.activation = activation

    def forward(self, steps: Steps, given: Tensor, first: Sequence[Tensor], weights: Weights) -> Made:
        """See `Cell.forward`."""
        made = torch.empty_like(given)
        rows, inputs = steps.of(made), steps.of(given)
        state = steps.start(first[0])
        for step in steps.order:
            before = steps.begun(state, first[0], step)
            state = weights.gates(before, rows[step]).add_(inputs[step])
            state = state.tanh_() if self.activation == "tanh" else state.relu_()
        return Made(made)

    def backward(
        self,
        steps: Steps,
        made: Made,
        first: Sequence[Tensor],
        before: Tensor,
        weights: Weights,
        rows: Tensor,
        cell: Any,
    ) -> Gradients:
        """See `Cell.backward`."""
        gates, of_first = torch.empty_like(rows), torch.zeros_like(first[0])
        sums, states, gradients = steps.of(gates), steps.of(made.rows), steps.of(rows)
        for step, targets in steps.back(rows, of_first):
            if self.activation == "tanh":
                _tanh_backward(gradients[step], states[step], grad_input=sums[step])
            else:
                _threshold_backward(gradients[step], states[step], 0, grad_input=sums[step])
            for to, part in targets:
                to.addmm_(_part(sums[step], part), weights.hidden)
        return Gradients(gates, gates, [of_first])


class Gru:
    """Reset, update and new gates, as torch has them."""

    gates = 3

    def forward(self, steps: Steps, given: Tensor, first: Sequence[Tensor], weights: Weights) -> Made:
        """See `Cell.forward`."""
        width = first[0].shape[1]
        sums, new = torch.empty_like(given), given.new_empty(len(given), width)
        made = torch.empty_like(new)
        of_sums, of_new, rows = steps.of(sums), steps.of(new), steps.of(made)
        resets, updates, news = (steps.of(part) for part in sums.split(width, 1))
        to_reset, to_update, to_new = (steps.of(part) for part in given.split(width, 1))
        state = steps.start(first[0])
        for step in steps.order:
            before = steps.begun(state, first[0], step)
            weights.gates(before, of_sums[step])
            reset = resets[step].add_(to_reset[step]).sigmoid_()
            update = updates[step].add_(to_update[step]).sigmoid_()
            candidate = torch.mul(news[step], reset, out=of_new[step]).add_(to_new[step]).tanh_()
            state = torch.sub(before, candidate, out=rows[step]).mul_(update).add_(candidate)
        return Made(made, (sums, new))

    def backward(
        self,
        steps: Steps,
        made: Made,
        first: Sequence[Tensor],
        before: Tensor,
        weights: Weights,
        rows: Tensor,
        cell: Any,
    ) -> Gradients:
        """See `Cell.backward`."""
        width = rows.shape[1]
        assert made.kept is not None
        sums, new = made.kept
        reset, update, by_reset = sums.view(-1, 3, width).unbind(1)
        # What a row's gradient is to be multiplied by for each gate's.
        to_new = (1 - new.square()).mul_(1 - update)
        factors = torch.stack(
            [
                to_new * by_reset * (reset * (1 - reset)),
                (before - new).mul_(update * (1 - update)),
                to_new * reset,
            ],
            1,
        )
        gates, of_first = torch.empty_like(sums), torch.zeros_like(first[0])
        of_gates, of_factors, updates = steps.of(gates), steps.of(factors), steps.of(update)
        by_gate, gradients = steps.of(gates.view_as(factors)), steps.of(rows)
        across = steps.of(rows.unsqueeze(1))
        for step, targets in steps.back(rows, of_first):
            torch.mul(across[step], of_factors[step], out=by_gate[step])
            for to, part in targets:
                to.addcmul_(_part(gradients[step], part), _part(updates[step], part))
                to.addmm_(_part(of_gates[step], part), weights.hidden)
        by_input = torch.cat([gates[:, : 2 * width], rows * to_new], 1)
        return Gradients(by_input, gates, [of_first])


class Lstm:
    """Input, forget, cell and output gates, and a cell a row; the output may be projected."""

    gates = 4

    def forward(self, steps: Steps, given: Tensor, first: Sequence[Tensor], weights: Weights) -> Made:
        """See `Cell.forward`."""
        width = first[1].shape[1]
        sums, cells = torch.empty_like(given), given.new_empty(len(given), width)
        made = given.new_empty(len(given), first[0].shape[1])
        of_sums, of_cells, rows = steps.of(sums), steps.of(cells), steps.of(made)
        inputs, forgets, news, outputs = (steps.of(part) for part in sums.split(width, 1))
        of_given = steps.of(given)
        state, cell = map(steps.start, first)
        for step in steps.order:
            before = steps.begun(state, first[0], step)
            cell_before = steps.begun(cell, first[1], step)
            weights.gates(before, of_sums[step]).add_(of_given[step])
            entered = inputs[step].sigmoid_()
            forget = forgets[step].sigmoid_()
            new = news[step].tanh_()
            output = outputs[step].sigmoid_()
            cell = torch.mul(forget, cell_before, out=of_cells[step]).add_(entered * new)
            if weights.projection is None:
                state = torch.mul(output, cell.tanh(), out=rows[step])
            else:
                state = torch.mm(output * cell.tanh(), weights.projection.t(), out=rows[step])
        return Made(made, (sums, cells))

    def backward(
        self,
        steps: Steps,
        made: Made,
        first: Sequence[Tensor],
        before: Tensor,
        weights: Weights,
        rows: Tensor,
        cell: Any,
    ) -> Gradients:
        """See `Cell.backward`."""
        assert made.kept is not None
        sums, cells = made.kept
        width, projection = cells.shape[1], weights.projection
        entered, forget, new, output = sums.view(-1, 4, width).unbind(1)
        seen = cells.tanh()
        to_cell = output * (1 - seen.square())
        to_output = seen * output * (1 - output)
        factors = torch.stack(
            [
                new * entered * (1 - entered),
                steps.before(first[1], cells).mul_(forget * (1 - forget)),
                entered * (1 - new.square()),
            ],
            1,
        )
        of_cells = torch.zeros_like(cells)
        steps.begin_back(of_cells, cell)
        gates, of_first, of_first_cell = torch.empty_like(sums), torch.zeros_like(first[0]), torch.zeros_like(first[1])
        of_gates, of_factors, forgets = steps.of(gates), steps.of(factors), steps.of(forget)
        by_cell, by_output = steps.of(gates.view(-1, 4, width)[:, :3]), steps.of(gates[:, 3 * width :])
        cell_gradients, across = steps.of(of_cells), steps.of(of_cells.unsqueeze(1))
        gradients, to_cells, to_outputs = steps.of(rows), steps.of(to_cell), steps.of(to_output)
        ways = zip(steps.back(rows, of_first), steps.back(of_cells, of_first_cell), strict=True)
        for (step, targets), (_, cell_targets) in ways:
            shown = gradients[step] if projection is None else torch.mm(gradients[step], projection)
            torch.mul(shown, to_outputs[step], out=by_output[step])
            cell_gradients[step].addcmul_(shown, to_cells[step])
            torch.mul(across[step], of_factors[step], out=by_cell[step])
            for (to, part), (to_before, _) in zip(targets, cell_targets, strict=True):
                to.addmm_(_part(of_gates[step], part), weights.hidden)
                to_before.addcmul_(_part(cell_gradients[step], part), _part(forgets[step], part))
        of_projection = None if projection is None else rows.t().mm(output * seen)
        return Gradients(gates, gates, [of_first, of_first_cell], of_projection)


CELLS: dict[str, Cell] = {"rnn_tanh": Plain("tanh"), "rnn_relu": Plain("relu"), "gru": Gru(), "lstm": Lstm()}
"""By the name of torch's function."""
