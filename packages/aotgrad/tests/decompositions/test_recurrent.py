"""Recurrent networks of cuDNN: in inference one call of torch's own, which finds out by itself how the weights lie; in training one of ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import aotgrad
from aotgrad.decompositions import cudnn_networks
from symshapes import FakeMode, taking_symbols

KINDS: dict[str, Any] = {
    "relu": lambda **how: nn.RNN(4, 5, nonlinearity="relu", **how),
    "tanh": lambda **how: nn.RNN(4, 5, **how),
    "lstm": lambda **how: nn.LSTM(4, 5, **how),
    "projected": lambda **how: nn.LSTM(4, 5, proj_size=3, **how),
    "gru": lambda **how: nn.GRU(4, 5, **how),
}
MODES = {"relu": 0, "tanh": 1, "lstm": 2, "projected": 2, "gru": 3}
HOW: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch first": {"batch_first": True, "num_layers": 2},
    "both directions": {"bidirectional": True, "bias": False},
}


def states_of(module: nn.RNNBase, batch: int) -> Any:
    count = module.num_layers * (2 if module.bidirectional else 1)
    hidden = torch.randn(count, batch, module.proj_size or module.hidden_size)
    return (hidden, torch.randn(count, batch, module.hidden_size)) if module.mode == "LSTM" else hidden


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("how", HOW.values(), ids=list(HOW))
@pytest.mark.parametrize("name", KINDS)
def test_it_is_torchs_call(name: str, how: dict[str, Any], packed: bool) -> None:
    torch.manual_seed(0)
    module = KINDS[name](**how).eval()
    states = states_of(module, 3)
    hidden, cell = states if isinstance(states, tuple) else (states, None)
    weights = [weight for layer in module.all_weights for weight in layer]
    x = torch.randn(3, 6, 4) if module.batch_first else torch.randn(6, 3, 4)
    sizes: list[int] = []
    with torch.no_grad():
        if packed:
            x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 1]), batch_first=module.batch_first)
            expected, last = module(x, states)
            x, sizes, expected = x.data, x.batch_sizes.tolist(), expected.data
        else:
            expected, last = module(x, states)
    found = torch.ops.aotgrad.cudnn_network.default(
        x, weights, module.bias, hidden, cell, MODES[name], 5, module.proj_size, module.num_layers,
        module.batch_first and not packed, False, module.bidirectional, sizes,
    )  # fmt: skip
    last = last if cell is not None else (last, hidden.new_empty(0))
    for one, other in zip(found, (expected, *last), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:RNN module weights")
def test_it_takes_the_place_of_cudnns(name: str) -> None:
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch knows no CUDA tensors")
    functions: dict[str, Any] = {"relu": torch.rnn_relu, "tanh": torch.rnn_tanh, "gru": torch.gru}
    function = functions.get(name, torch.lstm)
    module = KINDS[name](batch_first=True).eval()
    count = sum(map(len, module.all_weights))

    class Whole(nn.Module):
        def forward(self, x: Any, h: Any, c: Any, *weights: Any) -> Any:
            states = (h, c) if function is torch.lstm else h
            found = torch._cudnn_rnn(
                x, [*weights], count, None, h, c if function is torch.lstm else None, MODES[name], 5, module.proj_size, 1, True, 0.0, False,
                False, [], None,
            )  # fmt: skip
            return states, found[:3]

    with FakeMode():
        sizes = [
            (2, 7, 4),
            (1, 2, module.proj_size or 5),
            (1, 2, 5),
            *(w.shape for each in module.all_weights for w in each),
        ]
        inputs = [torch.empty(size, device="cuda") for size in sizes]
        with torch.no_grad():
            graph = aotgrad.trace_inference(Whole(), inputs).graph
    (network,) = graph.find_nodes(op="call_function", target=torch.ops.aotgrad.cudnn_network.default)
    assert not graph.find_nodes(op="call_function", target=torch.ops.aten._cudnn_rnn.default)
    output = network.meta["val"][0]
    width = module.proj_size or 5
    assert (output.shape, output.stride()) == ((2, 7, width), (width, 2 * width, 1))


@pytest.mark.parametrize("how", HOW.values(), ids=list(HOW))
@pytest.mark.parametrize("name", KINDS)
def test_torchs_call_of_weights_on_a_gpu_is_one_network(name: str, how: dict[str, Any]) -> None:
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch knows no CUDA tensors")
    module = KINDS[name](**how).eval()
    states = states_of(module, 3)
    x = torch.randn(3, 6, 4) if module.batch_first else torch.randn(6, 3, 4)
    output, last = module(x, states)
    function = {"relu": torch.rnn_relu, "tanh": torch.rnn_tanh, "gru": torch.gru}.get(name, torch.lstm)
    options = module.bias, module.num_layers, 0.0, False, module.bidirectional, module.batch_first

    weights = [weight for layer in module.all_weights for weight in layer]
    hidden, cell = states if isinstance(states, tuple) else (states, states)
    with FakeMode(), torch.no_grad():
        inputs = [torch.empty(tensor.shape, device="cuda") for tensor in (x, hidden, cell, *weights)]
        found = taking_symbols(function, ())(
            inputs[0], tuple(inputs[1:3]) if function is torch.lstm else inputs[1], inputs[3:], *options
        )
    expected = (output, *(last if isinstance(last, tuple) else (last,)))
    assert [(t.shape, t.device.type) for t in found] == [(t.shape, "cuda") for t in expected]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cudnn_gets_what_torchs_own_call_gives_it(dtype: torch.dtype) -> None:
    """More than `torch.backends.cudnn.is_acceptable` says."""
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch knows no CUDA tensors")

    class Whole(nn.Module):
        def forward(self, x: Any, h: Any, c: Any, *weights: Any) -> Any:
            return taking_symbols(torch.lstm, ())(x, (h, c), weights, True, 1, 0.0, False, False, True)

    module = nn.LSTM(4, 5)
    with FakeMode(), torch.no_grad():
        sizes = (2, 7, 4), (1, 2, 5), (1, 2, 5), *(w.shape for each in module.all_weights for w in each)
        inputs = [torch.empty(size, device="cuda", dtype=dtype) for size in sizes]
        graph = aotgrad.trace_inference(Whole(), inputs).graph
    (network,) = graph.find_nodes(op="call_function", target=torch.ops.aotgrad.cudnn_network.default)
    assert network.meta["val"][0].dtype is dtype


def test_states_of_another_kind_are_refused_on_a_gpu() -> None:
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch knows no CUDA tensors")
    with FakeMode(), torch.no_grad():
        x, state = torch.empty(6, 3, 4, device="cuda"), torch.empty(1, 3, 5, device="cuda")
        weights = {count: [torch.empty(count * 5, width, device="cuda") for width in (4, 5)] for count in (3, 4)}
        for states in ([state], [state] * 3):
            with pytest.raises(RuntimeError, match="two hidden states"):
                taking_symbols(torch.lstm, ())(x, states, weights[4], False, 1, 0.0, False, False, False)
        with pytest.raises(TypeError):
            taking_symbols(torch.gru, ())(x, [state], weights[3], False, 1, 0.0, False, False, False)


@pytest.mark.parametrize(
    "sizes",
    [
        ((6, 3, 4), (1, 2, 5), (1, 2, 5)),
        ((6, 3, 4), (2, 3, 5), (2, 3, 5)),
        ((6, 3, 4), (1, 3, 6), (1, 3, 6)),
        ((6, 3, 4), (1, 3, 5), (1, 3, 6)),
        ((6, 3, 3), (1, 3, 5), (1, 3, 5)),
    ],
)
def test_other_sizes_are_refused_on_a_gpu(sizes: Any) -> None:
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch knows no CUDA tensors")
    weights = [weight.shape for each in nn.LSTM(4, 5).all_weights for weight in each]
    with FakeMode(), torch.no_grad():
        x, hidden, cell, *weights = [torch.empty(size, device="cuda") for size in (*sizes, *weights)]
        with pytest.raises(RuntimeError, match=r"Expected (hidden size|input of width)"):
            taking_symbols(torch.lstm, ())(x, (hidden, cell), weights, True, 1, 0.0, False, False, False)


def test_weights_are_found_where_they_lie_together() -> None:
    layout = cudnn_networks._Layout.of(230, ((20, 4), (20, 5), (20,), (20,)), (10, 90, 190, 210), 4)
    memory = torch.arange(300.0)
    together = layout.parts(memory[40:270])
    found = layout.found(together)
    assert found.data_ptr() == memory[40:].data_ptr() and found.shape == (230,)
    assert layout.found(layout.parts(memory[-230:])).data_ptr() == memory[-230:].data_ptr()
    turned = [together[0], together[1], together[3], together[2]]
    short = layout.parts(torch.arange(300.0))
    beyond = torch.arange(229.0)  # the last element is missing
    cut = [*layout.parts(torch.arange(230.0))[:3], torch.zeros(20)]
    for weights in (turned, cut, [short[0], short[1].clone(), *short[2:]]):
        copied = layout.found(weights)
        assert copied.untyped_storage().data_ptr() != weights[0].untyped_storage().data_ptr()
        for weight, part in zip(weights, layout.parts(copied), strict=True):
            assert torch.equal(weight, part)
    square = cudnn_networks._Layout.of(16, ((4, 4),), (0,), 4)
    across = torch.arange(16.0).view(4, 4).t()
    assert torch.equal(square.found([across]).view(4, 4), across)
    assert cudnn_networks._Layout.of(230, ((219,),), (10,), 4).found([beyond[10:]]).numel() == 230
    with pytest.raises(RuntimeError, match="Expected weights of the sizes"):
        layout.found([torch.zeros(20, 4), torch.zeros(20, 1), torch.zeros(20), torch.zeros(20)])


@pytest.mark.parametrize(("module", "proj_size"), [(nn.RNN, 0), (nn.GRU, 0), (nn.LSTM, 0), (nn.LSTM, 2)])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_sizes_of_weights(module: Any, layers: int, bidirectional: bool, bias: bool, proj_size: int) -> None:
    how = {"proj_size": proj_size} if proj_size else {}
    network = module(4, 5, layers, bias=bias, bidirectional=bidirectional, **how)
    sizes = [tuple(weight.shape) for each in network.all_weights for weight in each]
    each, mode = len(network.all_weights[0]), {nn.RNN: 1, nn.LSTM: 2, nn.GRU: 3}[module]
    assert cudnn_networks._sizes(4, each, mode, 5, proj_size, layers, 1 + bidirectional) == tuple(sizes)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("wanted", [[True, True, True, True], [False, False, False, True], [True, False, False, False]])
def test_a_backward_finds_them_again(name: str, wanted: list[bool]) -> None:
    """Also of a network whose own backward is traced: results and strides as the library has them."""
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch knows no CUDA tensors")
    module = KINDS[name](batch_first=True)
    lstm, width = module.mode == "LSTM", module.proj_size or 5
    count = sum(map(len, module.all_weights))
    wanted = [*wanted[:2], wanted[2] and lstm, wanted[3]]

    def program(x: Any, h: Any, c: Any, y: Any, gradient: Any, kept: Any, *weights: Any) -> Any:
        found = torch.ops.aten._cudnn_rnn_backward.default(
            x, [*weights], count, weights[0], h, c if lstm else None, y, gradient, None, None, MODES[name], 5, module.proj_size, 1, True, 0.0,
            True, False, [], None, kept, wanted,
        )  # fmt: skip
        return [one for one in (*found[:3], *found[3]) if one is not None]

    with FakeMode():
        sizes = [(2, 7, 4), (1, 2, width), (1, 2, 5), (2, 7, width), (2, 7, width)]
        inputs = [torch.empty(size, device="cuda") for size in sizes]
        inputs.append(torch.empty(4096, dtype=torch.uint8, device="cuda"))
        inputs += [torch.empty(w.shape, device="cuda") for each in module.all_weights for w in each]
        with torch.no_grad():
            graph = aotgrad.trace_inference(program, inputs).graph
    (node,) = graph.find_nodes(op="call_function", target=torch.ops.aotgrad.cudnn_network_backward.default)
    assert node.args[-1] is True  # outside of a backward
    results = [node.meta["val"] for node in graph.output_node().args[0]]
    expected = [inputs[at] for at, asked in enumerate(wanted[:3]) if asked] + inputs[6:] * wanted[3]
    assert [r.shape for r in results] == [e.shape for e in expected]
    if wanted[0]:
        assert results[0].stride() == (4, 8, 1)


def test_each_call_keeps_for_its_own_backward() -> None:
    """Which writes over what was kept: calls of the same are not made one."""
    if not torch.backends.cuda.is_built():
        pytest.skip("this build of torch knows no CUDA tensors")

    def program(x: Any, h: Any, *weights: Any) -> Any:
        how = 3, 5, 0, 1, False, True, False, [], 64
        return [torch.ops.aotgrad.cudnn_network_trained.default(x, [*weights], 4, h, None, *how)[::3] for _ in range(2)]

    with FakeMode(), torch.no_grad():
        sizes = [(7, 2, 4), (1, 2, 5), *(weight.shape for each in nn.GRU(4, 5).all_weights for weight in each)]
        inputs = [torch.empty(size, device="cuda") for size in sizes]
        graph = aotgrad.trace_inference(program, inputs).graph
    assert len(graph.find_nodes(op="call_function", target=torch.ops.aotgrad.cudnn_network_trained.default)) == 2


@pytest.mark.parametrize("within", [False, True])
def test_who_keeps_a_graph_keeps_what_its_forward_kept(monkeypatch: pytest.MonkeyPatch, within: bool) -> None:
    """Whichever backward it runs in: the program's own gradients within a forward may be computed again in another."""
    module = nn.GRU(4, 5)
    weights = [weight.detach() for each in module.all_weights for weight in each]
    x, state, kept = torch.randn(7, 2, 4), torch.randn(1, 2, 5), torch.ones(8, dtype=torch.uint8)

    def spends(input: Any, *others: Any) -> Any:
        others[-2].zero_()
        return input, None, None, weights

    layout = SimpleNamespace(found=lambda weights: weights[0])
    monkeypatch.setattr(cudnn_networks, "_layout", lambda *given: layout)
    operator = SimpleNamespace(default=spends)
    monkeypatch.setattr(cudnn_networks, "aten", SimpleNamespace(_cudnn_rnn_backward=operator))

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            how = 3, 5, 0, 1, False, True, False, [], kept, [True, False, False, True], within
            cudnn_networks.network_backward(x, weights, 4, state, None, x, None, None, None, *how)
            return gradient

    value = torch.ones(3, requires_grad=True)
    loss = Outer.apply(value).sum()  # type: ignore[no-untyped-call]
    loss.backward(retain_graph=True)
    assert kept.all()
    loss.backward()
    assert kept.all() if within else not kept.any()
