# ruff: noqa: TID251
"""What a program tells of its functions: kept out, in graphs as they are, constant, or replaced; and of torch's own marks of that kind."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn

import capture

graphs: list[fx.GraphModule] = []


def counting(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    graphs.append(module)
    return module.forward


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    capture.reset()
    graphs.clear()


x = torch.arange(6.0).reshape(2, 3)


def calls(graph: fx.GraphModule) -> list[str]:
    return [node.name for node in graph.graph.nodes if node.op.startswith("call")]


# Kept out


@capture.disable
def kept(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@capture.disable(reason="it talks to a device")  # type: ignore[untyped-decorator]
def kept_for_a_reason(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@torch.compiler.disable(reason="torch was told")  # type: ignore[untyped-decorator]
def kept_by_torch(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.kept = capture.disable(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), reason="by place")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kept(self.linear(x)) * len(self.kept)


@pytest.mark.parametrize(
    ("function", "reason"),
    [(kept, "capture.disable"), (kept_for_a_reason, "it talks to a device"), (kept_by_torch, "torch was told")],
)
def test_the_graph_ends_at_its_call_which_names_the_reason(function: Any, reason: str) -> None:
    run = capture.compile(lambda x: function(x + 1) * 2, counting)
    assert torch.equal(run(x), (x + 1).sin() * 2)
    assert [calls(graph) for graph in graphs] == [["add"], ["mul"]]
    (ended,) = capture.report(run).breaks
    assert reason in ended.reason
    with pytest.raises(capture.GraphBreakError, match="kept out of graphs"):
        capture.compile(lambda x: function(x + 1), fullgraph=True)(x)


def test_handed_on_it_ends_no_graph() -> None:
    def program(x: torch.Tensor, function: Any) -> Any:
        return x + 1, function, [kept]

    run = capture.compile(program, counting, fullgraph=True)
    y, given, (found,) = run(x, kept_for_a_reason)
    assert torch.equal(y, x + 1) and given is kept_for_a_reason and found is kept


def test_a_method_and_one_made_in_the_frame() -> None:
    class Holder:
        @capture.disable
        def method(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    holder = Holder()
    run = capture.compile(lambda x: holder.method(x + 1) * 2, counting)
    assert torch.equal(run(x), (x + 1).sin() * 2)
    assert [calls(graph) for graph in graphs] == [["add"], ["mul"]]

    def plain(x: torch.Tensor) -> torch.Tensor:
        return x.cos()

    for disable in (capture.disable, torch.compiler.disable):
        graphs.clear()

        def program(x: torch.Tensor, disable: Any = disable) -> torch.Tensor:
            out = disable(plain)
            return out(x + 1) * 2

        run = capture.compile(program, counting)
        for _ in range(2):
            assert torch.equal(run(x), (x + 1).cos() * 2)
        assert [calls(graph) for graph in graphs] == [["add"], ["mul"]]


def test_a_module_that_is_kept_out_is_a_module() -> None:
    layer = Layer()
    assert list(layer.state_dict()) == ["linear.weight", "linear.bias", "kept.0.weight", "kept.0.bias"]
    assert isinstance(layer.kept, nn.Sequential) and "DisabledModule" in repr(layer.kept)
    run = capture.compile(layer, counting)
    assert torch.equal(run(x), layer(x))
    assert not any("relu" in name for graph in graphs for name in calls(graph))
    assert "by place" in capture.report(run).breaks[0].reason
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(again(x), layer(x)) and again.kept.reason == "by place"
    assert layer.double().kept[0].weight.dtype is torch.float64


def test_calls_of_a_classs_objects_and_entries_of_a_class() -> None:
    @capture.disable
    class Kept(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    class Holder:
        static = capture.disable(staticmethod(lambda x: x.cos()))
        of_class = capture.disable(classmethod(lambda cls, x: x.tan()))

    module = Kept()
    assert isinstance(module, Kept)
    run = capture.compile(lambda x: module(x + 1) + Holder.static(x) + Holder.of_class(x), counting)
    torch.testing.assert_close(run(x), (x + 1).sin() + x.cos() + x.tan())
    assert not {"sin", "cos", "tan"} & {name for graph in graphs for name in calls(graph)}


def test_only_its_own_frames() -> None:
    def beneath(x: torch.Tensor) -> torch.Tensor:
        return x.sin().cos()

    @capture.disable(recursive=False, reason="for a moment")  # type: ignore[untyped-decorator]
    def kept_alone(x: torch.Tensor) -> torch.Tensor:
        return beneath(x * 2) + 1

    run = capture.compile(lambda x: kept_alone(x + 1) * 3, counting)
    assert torch.equal(run(x), (((x + 1) * 2).sin().cos() + 1) * 3)
    assert [calls(graph) for graph in graphs] == [["add"], ["sin", "cos"], ["mul"]]
    assert "for a moment" in capture.report(run).breaks[0].reason
    with pytest.raises(TypeError, match="written in Python"):
        capture.disable(len, recursive=False)


def test_what_was_compiled_is_taken_apart_again() -> None:
    run = capture.disable(capture.compile(lambda x: x + 1, counting))
    assert torch.equal(run(x), x + 1) and not graphs
    module = capture.disable(capture.compile(nn.ReLU(), counting))
    assert torch.equal(module(x), x) and not graphs


# In graphs as they are


@capture.allow_in_graph
def opaque(x: torch.Tensor, k: int, *, more: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    text = repr(sorted({str(k), str(more)}))  # nothing that is to be looked at
    return x * k + more, x.sum() + len(text) * 0


def test_it_is_one_operation() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        first, second = opaque(x + 1, 3, more=0.5)
        return first * second

    run = capture.compile(program, counting, fullgraph=True)
    for _ in range(2):
        assert torch.equal(run(x), program(x))
    ((add, name, *_),) = map(calls, graphs)
    assert add == "add" and name == "opaque"
    assert graphs[0].graph.find_nodes(op="call_function", target=opaque)
    w = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(run(w).sum(), w)
    torch.testing.assert_close(grad, torch.autograd.grad(program(w).sum(), w)[0])


def test_another_function_in_its_place_is_another_graph() -> None:
    def program(x: torch.Tensor, function: Any) -> torch.Tensor:
        result: torch.Tensor = function(x)
        return result

    made = [capture.allow_in_graph(lambda x, k=k: x * k) for k in (2, 3)]
    run = capture.compile(program, counting)
    assert [run(x, each)[1, 2].item() for each in made] == [10.0, 15.0]
    assert capture.allow_in_graph(made) == made
    with pytest.raises(TypeError, match="needs a function, not ReLU"):
        capture.allow_in_graph(nn.ReLU())


# Constant


def test_it_is_called_once_for_a_capture() -> None:
    called: list[int] = []

    @capture.assume_constant_result
    def setting(k: int) -> int:
        called.append(k)
        return len(called)

    run = capture.compile(lambda x: x * setting(7), counting, fullgraph=True)
    for _ in range(3):
        assert torch.equal(run(x), x)
    assert called == [7]
    with pytest.raises(capture.GraphBreakError, match="whose result is a constant"):
        capture.compile(lambda x: x * setting(x), fullgraph=True)(x)


# Replaced


class Wrapped:
    """What no capture looks into."""


def test_another_function_is_captured_in_its_place() -> None:
    @capture.substitute_in_graph(operator.length_hint)
    def length_hint(obj: Any, default: int = 0, /) -> int:
        return len(obj) + 100

    run = capture.compile(lambda x: x * operator.length_hint([1, 2]), counting, fullgraph=True)
    assert torch.equal(run(x), x * 102)

    def original(x: torch.Tensor, k: int = 1) -> torch.Tensor:
        return x * float(x.sum()) * k

    with pytest.raises(TypeError, match="the substitute takes"):
        capture.substitute_in_graph(original)(lambda x: x)
    capture.substitute_in_graph(original)(lambda x, k=1: x * x.sum() * k)
    run = capture.compile(lambda x: original(x, 2), counting, fullgraph=True)
    torch.testing.assert_close(run(x), x * x.sum() * 2)
    with pytest.raises(TypeError, match="needs a function, not type"):
        capture.substitute_in_graph(Wrapped, skip_signature_check=True)(lambda: 1)


# Whether it is captured


def test_it_tells_what_is_captured_from_what_runs() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + (10 if capture.is_compiling() else 1)

    assert torch.equal(program(x), x + 1)
    assert torch.equal(capture.compile(program, fullgraph=True)(x), x + 10)
    assert capture.is_compiling() is False


# Ranges


def test_a_range_around_a_function_is_recorded_where_a_profiler_is() -> None:
    @torch.profiler.record_function("a range")
    def within(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    run = capture.compile(lambda x: within(x) * 2, counting)
    assert torch.equal(run(x), (x + 1) * 2) and len(graphs) == 1
    with torch.autograd.profiler.profile() as seen:
        assert torch.equal(run(x), (x + 1) * 2)
    assert "a range" in {event.name for event in seen.function_events}
    assert torch.equal(run(x), (x + 1) * 2) and len(graphs) == 3


# Hooks


@pytest.mark.parametrize("kept_of", ["module", "all"])
def test_a_hook_registered_again_is_no_other_graph(kept_of: str) -> None:
    layer = nn.Linear(3, 3)

    def hook(module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor:
        return result + 1

    def register() -> Any:
        if kept_of == "module":
            return layer.register_forward_hook(hook)
        return nn.modules.module.register_module_forward_hook(hook)  # type: ignore[arg-type]

    run = capture.compile(lambda x: layer(x) * 2, counting)
    for _ in range(5):
        handle = register()
        assert torch.equal(run(x), layer(x) * 2)
        handle.remove()
    assert len(graphs) == 1


def test_a_hook_that_the_frame_registers_is_one_graph() -> None:
    layer = nn.Linear(3, 3)

    def activations(x: torch.Tensor) -> Any:
        found: dict[str, torch.Tensor] = {}

        def hook(module: nn.Module, args: Any, result: torch.Tensor) -> None:
            found["layer"] = result

        handle = layer.register_forward_hook(hook)
        y = layer(x)
        handle.remove()
        return y, found

    run = capture.compile(activations, counting, fullgraph=True)
    for _ in range(5):
        y, found = run(x)
        assert torch.equal(y, layer(x)) and torch.equal(found["layer"], y)
    assert len(graphs) == 1 and not layer._forward_hooks


def test_a_hook_that_outlives_the_frame_is_registered_for_real() -> None:
    layer = nn.Linear(3, 3)

    def program(x: torch.Tensor) -> Any:
        return x + 1, layer.register_forward_hook(lambda module, args, result: result + 1)

    plain = layer(x)
    y, handle = capture.compile(program)(x)
    assert torch.equal(y, x + 1) and torch.equal(layer(x), plain + 1)
    handle.remove()
    assert torch.equal(layer(x), plain)


def test_a_methods_result_is_constant_while_it_is_of_that_object() -> None:
    class Holder:
        def __init__(self, number: int) -> None:
            self.number = number

        @capture.assume_constant_result
        def setting(self) -> int:
            return len(str(self.__dict__)) * 0 + self.number

        def run(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.setting()

    first, second = Holder(2), Holder(3)
    run = capture.compile(lambda holder, x: holder.run(x), counting, fullgraph=True)
    assert torch.equal(run(first, x), x * 2) and torch.equal(run(second, x), x * 3)
    first.number = 5
    assert torch.equal(run(first, x), x * 2), "which is what it is assumed to be"
    assert len(graphs) == 2


def test_a_size_in_data_with_an_end() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        n = int(x[0, 1].item())
        torch._check_is_size(n, max=4)
        return torch.ones(n) + 1

    run = capture.compile(program, counting, fullgraph=True)
    assert run(x).shape == (1,)
    with pytest.raises(RuntimeError):
        run(x + 5)
