"""Recurrent layers over lengths and batches that change: one compile for all of them, in inference and in training."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import aotgrad
import meta


class Layers(nn.Module):
    """A recurrent module whose results are all used, and whose first states are given."""

    def __init__(self, kind: Callable[..., nn.Module], **options: Any) -> None:
        super().__init__()
        self.run = kind(3, 5, **options)

    def forward(self, x: Tensor, *states: Tensor) -> Any:
        given = states[0] if len(states) == 1 else states
        output, last = self.run(x, given) if states else self.run(x)
        return output, last


def _states(module: Any, batch: int, dtype: torch.dtype) -> list[Tensor]:
    layers = module.num_layers * (2 if module.bidirectional else 1)
    widths = [module.proj_size or module.hidden_size, *([module.hidden_size] if module.mode == "LSTM" else [])]
    return [torch.randn(layers, batch, width, dtype=dtype, requires_grad=True) for width in widths]


def _counting() -> tuple[list[Any], Any]:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return meta.backends.inductor(graph, inputs)

    return graphs, backend


def _flat(results: Any) -> list[Tensor]:
    output, last = results
    return [output, *(last if isinstance(last, tuple) else [last])]


def _compare(compiled: Any, eager: Any, make: Callable[[], list[Tensor]], train: bool) -> None:
    """Results of both, and gradients of all parameters and all given tensors that want them."""
    inputs = make()
    found = []
    for module in (eager, compiled):
        given = [t.detach().requires_grad_(t.requires_grad and train) for t in inputs]
        torch.manual_seed(7)
        with torch.set_grad_enabled(train):
            results = _flat(module(*given))
        gradients = []
        if train:
            torch.manual_seed(8)
            loss = sum((value * torch.randn_like(value)).sum() for value in results)
            asked = [*eager.parameters()] if module is eager else [*compiled.parameters()]
            gradients = list(torch.autograd.grad(loss, [*asked, *(t for t in given if t.requires_grad)]))
        found.append((results, gradients))
    (wanted, theirs), (got, ours) = found
    for one, other in zip(got, wanted, strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


KINDS = {
    "gru": (nn.GRU, {}),
    "gru, all": (nn.GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False}),
    "gru, dropped": (nn.GRU, {"num_layers": 2, "dropout": 0.5}),
    "gru, double": (nn.GRU, {"dtype": torch.float64}),
    "tanh": (nn.RNN, {"num_layers": 2, "batch_first": True}),
    "relu": (nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
    "lstm": (nn.LSTM, {"num_layers": 2}),
    "lstm, projected": (nn.LSTM, {"proj_size": 2, "num_layers": 2, "bidirectional": True}),
    "lstm, double": (nn.LSTM, {"dtype": torch.float64, "batch_first": True}),
}


def _arguments(run: Any, length: int, batch: int, dtype: torch.dtype) -> list[Tensor]:
    size = (batch, length, 3) if run.batch_first else (length, batch, 3)
    return [torch.randn(size, dtype=dtype, requires_grad=True), *_states(run, batch, dtype)]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", KINDS)
def test_any_length_and_batch(name: str, train: bool) -> None:
    """One compile serves all; values are eager's where its own kernels run."""
    kind, options = KINDS[name]
    torch.manual_seed(0)
    eager = Layers(kind, **options)
    graphs, backend = _counting()
    compiled = meta.compile(copy.deepcopy(eager), backend=backend, dynamic=True, fullgraph=True)
    dtype = options.get("dtype", torch.float32)
    for length, batch in ((9, 7), (6, 11), (12, 8)):
        _compare(compiled, eager, lambda at=(length, batch): _arguments(eager.run, *at, dtype), train)
    assert len(graphs) == 1


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_lengths_and_batches_of_one(kind: Any, train: bool) -> None:
    """What is compiled once sizes have changed is right for 1, too."""
    eager = Layers(kind, batch_first=True)
    graphs, backend = _counting()
    compiled = meta.compile(copy.deepcopy(eager), backend=backend, fullgraph=True)
    for length, batch in ((9, 7), (6, 11), (1, 8), (7, 1), (1, 1), (12, 6)):
        _compare(compiled, eager, lambda at=(length, batch): _arguments(eager.run, *at, torch.float32), train)
    assert len(graphs) == 2


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_packed_sequences(kind: Any, train: bool) -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.run = kind(3, 5, bidirectional=True)

        def forward(self, x: Tensor, lengths: Tensor) -> Any:
            output, last = self.run(pack_padded_sequence(x, lengths, enforce_sorted=False))
            return pad_packed_sequence(output)[0], last

    torch.manual_seed(0)
    eager = Packed()
    module = copy.deepcopy(eager)
    graphs, backend = _counting()
    compiled = meta.compile(module, backend=backend, dynamic=True, fullgraph=True)
    counts = []
    for lengths in ([3, 5, 2], [4, 4, 4, 4], [1, 6], [7, 1, 3, 2, 2]):

        def make(lengths: list[int] = lengths) -> list[Tensor]:
            return [torch.randn(max(lengths), len(lengths), 3, requires_grad=True), torch.tensor(lengths)]

        _compare(compiled, eager, make, train)
        counts.append(len(graphs))
    assert len(set(counts[1:])) == 1, counts


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_packed_and_padded(train: bool, batch_first: bool) -> None:
    """By themselves, to another length and with another value."""

    class Packed(nn.Module):
        def forward(self, x: Tensor, lengths: Tensor) -> Any:
            packed = pack_padded_sequence(x * 2, lengths, batch_first=batch_first, enforce_sorted=False)
            padded, counts = pad_packed_sequence(packed, batch_first=batch_first, padding_value=1.5)
            return padded, (packed.data.sin(), packed.batch_sizes * 1.0, counts * 1.0)

    graphs, backend = _counting()
    compiled = meta.compile(Packed(), backend=backend, fullgraph=True)
    for lengths in ([3, 5, 2], [4, 4, 4], [1, 6, 1], [7, 1], [1], [2, 2, 9]):

        def make(lengths: list[int] = lengths) -> list[Tensor]:
            size = (len(lengths), max(lengths), 3) if batch_first else (max(lengths), len(lengths), 3)
            return [torch.randn(size, requires_grad=train), torch.tensor(lengths)]

        _compare(compiled, Packed(), make, train)
    assert len(graphs) <= 4


@pytest.mark.parametrize("lengths", [[2, 3], [3, 0], [3], [[3, 2]]])
def test_lengths_that_cannot_be_packed(lengths: Any) -> None:
    def fn(x: Tensor, lengths: Tensor) -> Tensor:
        return pack_padded_sequence(x, lengths, batch_first=True).data * 2

    x = torch.randn(2, 3, 4)
    words = []
    for run in (fn, meta.compile(fn)):
        with pytest.raises(RuntimeError) as raised:
            run(x, torch.tensor(lengths))
        words.append(str(raised.value))
    assert words[0] == words[1]


def _operators(kind: Any, length: int, train: bool) -> set[str]:
    """The operators of a compiled layer that is given so many steps."""
    seen: set[str] = set()

    def backend(graph: Any, inputs: Any) -> Any:
        trace = aotgrad.trace_joint if train else aotgrad.trace_inference
        seen.update(str(node.target) for node in trace(graph, inputs).graph.nodes)
        return graph

    module = kind(3, 5, dtype=torch.float64)
    with torch.set_grad_enabled(train):
        meta.compile(module, backend=backend, fullgraph=True)(torch.randn(length, 2, 3, dtype=torch.float64))
    return seen


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_many_steps_are_not_written_out(kind: Any) -> None:
    """What is compiled does not grow with a length, known as it may be; a few steps are better compiled into kernels."""
    inference, training = "symshapes.recurrent_layers.default", "symshapes.recurrence_backward.default"
    assert inference in _operators(kind, 300, False) and training in _operators(kind, 300, True)
    assert inference not in _operators(kind, 4, False) and training not in _operators(kind, 4, True)


@pytest.mark.parametrize("changing", [False, True])
def test_packed_rows_are_captured(changing: bool) -> None:
    """How many rows each step has is data: torch's C++ cannot be traced there, whether or not it is known how many rows there are."""

    def program(gru: nn.GRU, rows: Tensor, sizes: Tensor, first: Tensor) -> Any:
        return torch.gru(rows, sizes, first, list(gru.parameters()), True, 1, 0.0, True, False)

    eager = nn.GRU(3, 5)
    module = copy.deepcopy(eager)
    compiled = meta.compile(program, dynamic=changing, fullgraph=True)
    for sizes in ([6, 4, 4, 1], [6, 6, 2, 1]):
        rows, first = torch.randn(15, 3), torch.randn(1, 6, 5)
        found = []
        for function, gru in ((program, eager), (compiled, module)):
            results = function(gru, rows, torch.tensor(sizes), first)
            found.append([*results, *torch.autograd.grad(results[0].square().sum(), list(gru.parameters()))])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_packed_rows_under_autocast_are_eagers_affair() -> None:
    """Torch's C++ reads how many rows each step has, also from a fake, which has no memory: the process died of it."""
    gru = nn.GRU(3, 5)

    def program(rows: Tensor, sizes: Tensor, first: Tensor, named: bool) -> Any:
        rest = (first, list(gru.parameters()), True, 1, 0.0, False)
        if named:
            return torch.gru(rows, sizes, *rest, bidirectional=False)[0] + 1
        with torch.autocast("cpu", torch.bfloat16):
            return torch.gru(rows, sizes, *rest, False)[0] + 1

    compiled = meta.compile(program, backend=meta.backends.aot_eager)
    arguments = torch.randn(15, 3), torch.tensor([6, 4, 4, 1]), torch.randn(1, 6, 5)
    for named in (False, True):
        with torch.no_grad():
            torch.testing.assert_close(compiled(*arguments, named), program(*arguments, named), rtol=1e-5, atol=1e-6)


def test_output_may_be_written_to() -> None:
    """Of a layer's results the program may do what it will: what gradients need is kept beside."""
    eager = nn.GRU(3, 4)
    module = copy.deepcopy(eager)

    def program(gru: nn.GRU, x: Tensor) -> Tensor:
        output, last = gru(x)
        output.mul_(2)
        last.add_(output[-1])
        return output.sum(0) * last

    compiled = meta.compile(program, dynamic=True, fullgraph=True)
    for length in (4, 6):
        x = torch.randn(length, 2, 3)
        wanted, got = program(eager, x), compiled(module, x)
        torch.testing.assert_close(got, wanted)
        for one, other in zip(
            torch.autograd.grad(got.sum(), list(module.parameters())),
            torch.autograd.grad(wanted.sum(), list(eager.parameters())),
            strict=True,
        ):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_twice_differentiated() -> None:
    eager = nn.GRU(3, 4, dtype=torch.float64)
    compiled = meta.compile(copy.deepcopy(eager), dynamic=True, fullgraph=True)
    for length in (4, 6):
        x = torch.randn(length, 2, 3, dtype=torch.float64)
        found = []
        for module in (eager, compiled):
            given = x.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(module(given)[0].square().sum(), given, create_graph=True)
            found.append(torch.autograd.grad(gradient.square().sum(), given)[0])
        torch.testing.assert_close(*found)


def test_frozen_layers() -> None:
    """Gradients for the input alone, or for the weights alone."""
    torch.manual_seed(0)
    for frozen in (True, False):
        eager = Layers(nn.GRU).requires_grad_(not frozen)
        module = copy.deepcopy(eager)
        compiled = meta.compile(module, dynamic=True, fullgraph=True)
        for length in (9, 7):
            x = torch.randn(length, 6, 3)
            found = []
            for each in (eager, compiled):
                given = x.clone().requires_grad_(frozen)
                asked = [given] if frozen else list((eager if each is eager else module).parameters())
                found.append(torch.autograd.grad(each(given)[1].sum(), asked))
            for one, other in zip(*found, strict=True):
                torch.testing.assert_close(one, other)


def test_without_gradients_under_grad_mode() -> None:
    eager = nn.GRU(3, 4).requires_grad_(False)
    graphs, backend = _counting()
    compiled = meta.compile(copy.deepcopy(eager), backend=backend, dynamic=True, fullgraph=True)
    for length in (9, 7, 12):
        x = torch.randn(length, 2, 3)
        torch.testing.assert_close(compiled(x)[0], eager(x)[0], rtol=1e-5, atol=1e-6)
    assert len(graphs) == 1


@pytest.mark.parametrize("states", [(1, 4), (2, 1)])
def test_sizes_that_do_not_fit_are_eagers_affair(states: tuple[int, int]) -> None:
    """States of another batch than the input's: eager spreads one row of input, and refuses the other way."""
    cell = nn.GRU(3, 4)

    def program(x: Tensor, first: Tensor) -> Tensor:
        return torch.gru(x, first, list(cell.parameters()), True, 1, 0.0, False, False, False)[0]

    compiled = meta.compile(program, dynamic=True)
    batch, other = states
    for length in (3, 5):
        x, first = torch.randn(length, batch, 3), torch.randn(1, other, 4)
        with torch.no_grad():
            try:
                wanted = program(x, first)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=re.escape(str(error)[:30])):
                    compiled(x, first)
            else:
                torch.testing.assert_close(compiled(x, first), wanted)


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN, nn.LSTM])
def test_dropout_under_inference_mode(kind: Any) -> None:
    """Composite operators come to a trace whole there, and what torch has in Python in place of these drops no elements."""
    eager = kind(3, 5, num_layers=2, dropout=0.5)
    compiled = meta.compile(copy.deepcopy(eager), backend=meta.backends.aot_eager, fullgraph=True)
    for length in (4, 6, 9):
        x = torch.randn(length, 2, 3)
        found = []
        for module in (eager, compiled):
            torch.manual_seed(3)
            with torch.inference_mode():
                found.append(module(x)[0])
        torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6)
