"""Modules compiled in their own place, and classes and their entries that are decorated: they stay what they are."""

from __future__ import annotations

import copy
import functools
import io
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


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale


@functools.partial(capture.compile, backend=counting)
class Decorated(nn.Module):
    def __init__(self, scale: float = 3.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


x = torch.arange(6.0).reshape(2, 3)


def test_it_stays_the_module_and_runs_captured() -> None:
    module = Scaled()
    expected = module(x)
    assert capture.compile_module(module, counting, fullgraph=True) is module
    assert type(module) is Scaled
    for _ in range(2):
        assert torch.equal(module(x), expected)
    assert len(graphs) == 1
    assert list(module.state_dict()) == ["linear.weight", "linear.bias"]
    module.scale = 5.0
    assert torch.equal(module(x), module.linear(x) * 5.0)
    module.double()
    assert module(x.double()).dtype is torch.float64


def test_hooks_of_a_module_compiled_in_place() -> None:
    module = capture.compile_module(Scaled(), counting)
    plain = module(x)
    for _ in range(5):
        handle = module.register_forward_hook(lambda module, args, result: result + 1)
        assert torch.equal(module(x), plain + 1)
        handle.remove()
        assert torch.equal(module(x), plain)
    assert len(graphs) == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_are_compiled_as_well(copied: Callable[[nn.Module], Any]) -> None:
    module = capture.compile_module(Scaled(), counting)
    other = copied(module)
    with torch.no_grad():
        other.linear.weight.zero_()
    graphs.clear()
    assert torch.equal(other(x), other.linear.bias.expand(2, 3) * 2.0)
    assert len(graphs) == 1
    torch.testing.assert_close(module(x), module.linear(x) * 2.0)
    again = copied(nn.Sequential(module, nn.ReLU()))
    torch.testing.assert_close(again(x), module(x).relu())
    assert capture.report(again[0]._compiled_call_impl).graph_count == 1


def test_saved_and_loaded() -> None:
    file = io.BytesIO()
    module = capture.compile_module(Scaled(), counting)
    torch.save(module, file)
    loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    torch.testing.assert_close(loaded(x), module(x))
    assert len(graphs) == 1, "equal modules share what is captured"


def test_it_is_part_of_a_graph_around_it() -> None:
    inner = capture.compile_module(Scaled())
    outer = nn.Sequential(inner, nn.ReLU())
    run = capture.compile(outer, counting, fullgraph=True)
    assert torch.equal(run(x), inner(x).relu())
    assert len(graphs) == 1


def test_a_call_put_in_place_by_the_program_is_made() -> None:
    module = Scaled()
    module._compiled_call_impl = lambda x: x + 100
    run = capture.compile(lambda x: module(x) * 2, counting, fullgraph=True)
    assert torch.equal(run(x), (x + 100) * 2)


def test_what_is_left_to_the_interpreter_runs_once() -> None:
    class Looking(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x + 1, sorted(locals())

    module = capture.compile_module(Looking())
    y, names = module(x)
    assert torch.equal(y, x + 1) and "x" in names
    with pytest.raises(TypeError, match="needs a module, not function"):
        capture.compile_module(counting)


def test_calls_of_a_decorated_modules_objects() -> None:
    assert isinstance(Decorated, type) and Decorated.__name__ == "Decorated"
    first, second = Decorated(), Decorated(4.0)
    assert isinstance(first, Decorated)
    for _ in range(2):
        assert torch.equal(first(x), x * 3.0)
    assert len(graphs) == 1
    assert torch.equal(second(x), x * 4.0)
    again = pickle.loads(pickle.dumps(second))
    assert torch.equal(again(x), x * 4.0)
    assert torch.equal(copy.deepcopy(first)(x), x * 3.0)
    hooked = first.register_forward_hook(lambda module, args, result: result + 1)
    assert torch.equal(first(x), x * 3.0 + 1)
    hooked.remove()

    class Derived(Decorated):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 1

    graphs.clear()
    assert torch.equal(Derived()(x), x * 3.0 + 1)
    assert len(graphs) == 1
    graphs.clear()
    whole = capture.compile(lambda x: Derived()(x) + first(x), counting, fullgraph=True)
    assert torch.equal(whole(x), x * 6.0 + 1)
    assert len(graphs) == 1


def test_calls_of_a_decorated_classs_objects() -> None:
    class Adds:
        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.by

    assert capture.compile(Adds, counting, fullgraph=True) is Adds
    assert torch.equal(Adds(2)(x), x + 2)
    assert len(graphs) == 1


class Entries:
    k = 3

    def __init__(self) -> None:
        self.made = 0

    plain = capture.compile(lambda self, x: x * self.k, counting)
    static = capture.compile(staticmethod(lambda x: x + 1), counting)
    of_class = capture.compile(classmethod(lambda cls, x: x * cls.k), counting)
    static_inside = staticmethod(capture.compile(lambda x: x + 2, counting))
    of_class_inside: Any = classmethod(capture.compile(lambda cls, x: x - cls.k, counting))
    asked = capture.compile(property(lambda self: x * self.k, doc="what is asked"), counting)
    asked_inside = property(capture.compile(lambda self: x - self.k, counting))

    @functools.partial(capture.compile, backend=counting)  # type: ignore[prop-decorator]
    @functools.cached_property
    def kept(self) -> torch.Tensor:
        self.made += 1
        return x + self.k


def test_entries_of_a_class() -> None:
    entries: Any = Entries()

    def all_of_them(entries: Any) -> list[torch.Tensor]:
        return [
            entries.plain(x), entries.static(x), entries.of_class(x), entries.static_inside(x),
            entries.of_class_inside(x), entries.asked, entries.asked_inside,
        ]  # fmt: skip

    expected = [x * 3, x + 1, x * 3, x + 2, x - 3, x * 3, x - 3]
    assert all(map(torch.equal, all_of_them(entries), expected))
    assert len(graphs) == 7
    assert type(vars(Entries)["asked"]) is property and Entries.asked.__doc__ == "what is asked"
    assert torch.equal(Entries.of_class(x), x * 3)
    graphs.clear()
    assert all(map(torch.equal, capture.compile(all_of_them, counting, fullgraph=True)(entries), expected))
    assert len(graphs) == 1, "in a graph around them they are what they are made of"


def test_a_cached_property_is_computed_once() -> None:
    entries = Entries()
    assert torch.equal(entries.kept, x + 3) and entries.kept is entries.kept
    assert entries.made == 1
