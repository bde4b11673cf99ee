"""Compiled functions and modules as objects: copied, pickled, nested, indexed, asked for their signature."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
import torch
from torch import fx, nn

import capture


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")


graphs: list[fx.GraphModule] = []


def counting(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    graphs.append(module)
    return module.forward


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = 2.0

    def forward(self, x: torch.Tensor, *, shift: float = 0.0) -> torch.Tensor:
        return self.linear(x) * self.scale + shift


@capture.compile
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def runs_captured(run: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    graphs.clear()
    y: torch.Tensor = run(x)
    assert graphs, "it ran, and nothing was captured"
    return y


def test_a_copy_is_a_compiled_module_of_the_copied_original() -> None:
    module = capture.compile(Scaled(), counting)
    deep, shallow = copy.deepcopy(module), copy.copy(module)
    x = torch.randn(2, 3)
    with torch.no_grad():
        for p in deep.parameters():
            p.zero_()
    deep.scale = 5.0
    assert runs_captured(deep, x).eq(0).all()
    torch.testing.assert_close(runs_captured(shallow, x), module.original(x))
    assert shallow.original is not module.original
    assert shallow.linear is module.linear
    assert module.scale == 2.0


@pytest.mark.parametrize("dump", [pickle, torch])
def test_a_pickled_module_comes_back_compiled(dump: Any) -> None:
    module = capture.compile(Scaled(), counting, dynamic=True)
    file = io.BytesIO()
    if dump is torch:
        torch.save(module, file)
        again = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    else:
        again = pickle.loads(pickle.dumps(module))
    x = torch.randn(2, 3)
    torch.testing.assert_close(runs_captured(again, x), module.original(x))
    assert again.session.dynamic is True


def test_a_backend_that_cannot_be_pickled_is_named() -> None:
    module = capture.compile(Scaled(), lambda graph, inputs: graph.forward)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(module)


def test_a_compiled_method_is_bound_to_the_copy() -> None:
    class Holder:
        def __init__(self) -> None:
            self.offset = 1.0
            self.add = capture.compile(self.add, counting)  # type: ignore[method-assign]

        def add(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.offset

    first = Holder()
    second = copy.deepcopy(first)
    second.offset = 7.0
    assert runs_captured(second.add, torch.zeros(1)).item() == 7.0
    assert first.add(torch.zeros(1)).item() == 1.0

    module = Scaled()
    module.forward = capture.compile(module.forward, counting)  # type: ignore[method-assign]
    twin = copy.deepcopy(module)
    twin.scale = 0.0
    assert runs_captured(twin, torch.ones(1, 3)).eq(0).all()


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated


def test_averaging_a_compiled_module() -> None:
    from torch.optim.swa_utils import AveragedModel

    module = capture.compile(Scaled(), counting)
    average = AveragedModel(module)
    before = [p.detach().clone() for p in module.parameters()]
    average.update_parameters(module)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(2.0)
    average.update_parameters(module)
    for p, start in zip(average.parameters(), before, strict=True):
        torch.testing.assert_close(p.detach(), start + 1.0)
    runs_captured(average, torch.ones(1, 3))


def test_inside_another_module_it_takes_the_originals_place() -> None:
    plain, holding = nn.Sequential(Scaled(), nn.ReLU()), nn.Sequential(capture.compile(Scaled(), counting), nn.ReLU())
    assert list(holding.state_dict()) == list(plain.state_dict())
    assert [n for n, _ in holding.named_parameters()] == [n for n, _ in plain.named_parameters()]
    holding.load_state_dict(plain.state_dict())
    holding.eval()
    assert not any(m.training for m in holding.modules())
    x = torch.randn(2, 3)
    torch.testing.assert_close(runs_captured(holding, x), plain(x))
    holding.double()
    assert runs_captured(holding, x.double()).dtype is torch.float64


def test_it_is_to_its_users_what_the_original_is() -> None:
    layers = capture.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    assert isinstance(layers, nn.Sequential)
    assert len(layers) == 2
    assert layers[1] is layers.original[1]
    assert list(layers) == list(layers.original)
    assert layers.share_memory() is layers
    module = capture.compile(Scaled())
    assert isinstance(module, Scaled)
    assert (
        str(inspect.signature(module))
        == str(inspect.signature(module.forward))
        == str(inspect.signature(module.original.forward))
    )


class Mock:
    """Claims another class, as `unittest.mock` does."""

    @property
    def __class__(self) -> type:
        return dict


def test_a_claimed_class_is_not_guessed() -> None:
    mock = Mock()

    def kind(x: torch.Tensor) -> Any:
        return x + 1, isinstance(mock, dict), mock.__class__

    _, is_dict, cls = capture.compile(kind)(torch.ones(1))
    assert is_dict and cls is dict


def test_generated_locals_are_identifiers_and_meet_no_other() -> None:

    def broken(_capture: torch.Tensor, _capture_stack0: int) -> torch.Tensor:
        _capture_0 = _capture * 2
        import gc

        held = [_capture_0.sin(), gc.get_count()[0] * 0 + _capture_stack0, _capture_0.cos()]
        return held[0] + held[1] + held[2] + _capture_0

    x = torch.randn(3)
    run = capture.compile(broken)
    torch.testing.assert_close(run(x, 3), broken(x, 3))
    from capture import _native
    from capture.resume import _functions

    codes = [code for _, known in _functions._entries.values() for code in known.values()]
    codes += [e.code for c in [broken.__code__, *codes] for e in _native.entries(c) if e.code is not None]
    assert len(codes) > 1, "nothing broke"
    for code in codes:
        assert all(name.isidentifier() for name in code.co_varnames), code.co_varnames
        assert len(set(code.co_varnames)) == len(code.co_varnames)


class Options(TypedDict):
    size: int


def test_a_class_that_refuses_to_be_asked_raises_in_the_program() -> None:
    def asks(x: torch.Tensor, options: Any) -> torch.Tensor:
        try:
            return x + isinstance(options, Options)
        except TypeError:
            return x + 2

    assert capture.compile(asks)(torch.zeros(1), {"size": 1}).item() == 2


def test_signatures_are_those_of_the_functions() -> None:
    class Steps:
        @capture.compile
        def step(self, batch: Any, *, index: int = 0) -> Any:
            return batch

    assert inspect.getfullargspec(Steps().step).args == ["self", "batch"]
    assert str(inspect.signature(Steps().step)) == "(batch: Any, *, index: int = 0) -> Any".replace(
        "Any", "'Any'"
    ).replace("int =", "'int' =")
    assert Steps.step.__code__.co_varnames == ("self", "batch", "index")
    assert not hasattr(Steps.step, "no_such_attribute")
