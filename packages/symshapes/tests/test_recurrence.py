"""The operators of recurrent layers against torch's own functions: values bit for bit, gradients, every kind and direction."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import symshapes.recurrence  # noqa: F401  (defines the operators)

recurrence = torch.ops.symshapes.recurrence.default
backward = torch.ops.symshapes.recurrence_backward.default

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}
INPUT, HIDDEN, WIDTH, BATCH = 3, 19, 7, 4
PACKED = (4, 4, 3, 1, 1)


def _drawn(kind: str, dtype: torch.dtype, biases: bool, projected: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Weights as eager takes them, and first states."""
    width, rows = WIDTH if projected else HIDDEN, GATES[kind] * HIDDEN
    sizes = [(rows, INPUT), (rows, width), *([(rows,), (rows,)] if biases else []), *([(width, HIDDEN)] * projected)]
    states = [(1, BATCH, width), *([(1, BATCH, HIDDEN)] if kind == "lstm" else [])]

    def draw(size: tuple[int, ...]) -> Tensor:
        return (torch.randn(size, dtype=dtype) * 0.3).requires_grad_()

    return list(map(draw, sizes)), list(map(draw, states))


def _eager(
    kind: str, x: Tensor, sizes: Any, states: list[Tensor], weights: list[Tensor], biases: bool, reverse: bool
) -> Any:
    """Output and last states of one direction."""
    if reverse:  # is the second of two
        states, weights = [torch.cat([state, state]) for state in states], weights * 2
    given = states if kind == "lstm" else states[0]
    options = (weights, biases, 1, 0.0, True, reverse)
    function = getattr(torch, kind)
    output, *last = function(x, given, *options, False) if sizes is None else function(x, sizes, given, *options)
    width = states[0].shape[2]
    return [output[..., width:] if reverse else output, *(state[-1] for state in last)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize(
    "kind, dtype, projected",
    [
        ("rnn_tanh", torch.float32, False),
        ("rnn_relu", torch.float32, False),
        ("gru", torch.float32, False),
        ("gru", torch.float64, False),
        ("lstm", torch.float64, False),
        ("lstm", torch.float32, True),
    ],
)
def test_values_and_gradients(
    kind: str, dtype: torch.dtype, projected: bool, biases: bool, packed: bool, reverse: bool
) -> None:
    torch.manual_seed(0)
    weights, states = _drawn(kind, dtype, biases, projected)
    sizes = torch.tensor(PACKED) if packed else None
    x = torch.randn((sum(PACKED), INPUT) if packed else (5, BATCH, INPUT), dtype=dtype)
    wanted = _eager(kind, x, sizes, states, weights, biases, reverse)
    of_input, of_state, *rest = weights
    projection = rest.pop() if projected else None
    bias_of_input, bias = rest or (None, None)
    with torch.no_grad():
        gates = torch.nn.functional.linear(x, of_input, bias_of_input)
        arguments = ([state[0] for state in states], of_state, bias, projection, sizes, kind, reverse)
        output, hidden, cell, *kept = recurrence(gates, *arguments)
    got = [output, hidden, cell][: len(wanted)]
    # Not bit for bit: MKL's products depend on where in memory their operands lie.
    exactness = {"rtol": 1e-5, "atol": 1e-6} if dtype is torch.float32 else {"rtol": 1e-12, "atol": 1e-13}
    for mine, their in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, their, **exactness)
    tangents = [torch.randn_like(value) for value in wanted]
    asked = [*states, *weights]
    theirs = torch.autograd.grad(wanted, asked, tangents)
    by_gates, *by_states, by_weight, by_bias, by_projection = backward(
        *(*tangents, None)[:3], output, *kept, *arguments
    )
    rows, flat = by_gates.flatten(0, -2), x.flatten(0, -2)
    ours = [*(state[None] for state in by_states[: len(states)]), rows.t().mm(flat), by_weight]
    ours += [rows.sum(0), by_bias] if biases else []
    ours += [by_projection] if projected else []
    exactness = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-10, "atol": 1e-12}
    for mine, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, their, **exactness)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_single(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weights, states = _drawn("gru", torch.float32, True, False)
    gates = torch.randn(9, BATCH, 3 * HIDDEN)
    found = []
    for kind in (dtype, torch.float64):
        first, weight, bias, given = (
            t.detach().to(dtype).to(kind) for t in (states[0][0], weights[1], weights[3], gates)
        )
        rest = ([first], weight, bias, None, None, "gru", False)
        output, _, _, *kept = recurrence(given, *rest)
        found.append(backward(torch.ones_like(output), None, None, output, *kept, *rest))
    for half, double in zip(*found, strict=True):
        assert half.dtype is dtype
        torch.testing.assert_close(
            half.double(), double, rtol=0.02, atol=0.02 * float(double.abs().max()) if double.numel() else 0
        )


def test_no_steps_and_other_batches_are_refused() -> None:
    weights, states = _drawn("gru", torch.float32, True, False)
    rest = ([states[0][0].detach()], weights[1].detach(), None, None)
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        recurrence(torch.randn(0, BATCH, 3 * HIDDEN), *rest, None, "gru", False)
    for wrong in ([4, 3, 5, 4], [4, 3], [4, 4, 5]):  # the first have as many rows as equal ones would
        with pytest.raises(RuntimeError, match="rows are not packed"):
            recurrence(torch.randn(16 if len(wrong) == 4 else 12, 3 * HIDDEN), *rest, torch.tensor(wrong), "gru", False)
    with pytest.raises(RuntimeError, match="Expected hidden size for 3 sequences, got 4"):
        recurrence(torch.randn(5, 3 * HIDDEN), *rest, torch.tensor([3, 2]), "gru", False)


def test_no_sequences() -> None:
    """A batch may be empty, as in eager."""
    weights, _ = _drawn("gru", torch.float32, True, False)
    rest = ([torch.zeros(0, HIDDEN)], weights[1].detach(), weights[3].detach(), None, None, "gru", False)
    output, hidden, _, *kept = recurrence(torch.randn(5, 0, 3 * HIDDEN), *rest)
    assert output.shape == (5, 0, HIDDEN) and hidden.shape == (0, HIDDEN)
    found = backward(torch.ones_like(output), None, None, output, *kept, *rest)
    assert found[0].shape == (5, 0, 3 * HIDDEN) and not found[3].any()
