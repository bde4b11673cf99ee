"""What a backward or a hook of the program's own reads is what is there when it runs, not what was there in the forward."""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

import capture

SCALE = 2.0
FIXED = 3.0
FACTORS = [2.0]


def helper(g):
    return g * 2


def other_helper(g):
    return g * 5


def fixed_helper(g):
    return g * FIXED


class Settings:
    scale = 2.0

    def __init__(self):
        self.own = 2.0

    def scaled(self):
        return self.own


settings = Settings()


def reading(read: Callable[[Any], Any]) -> type[Function]:
    """A function whose backward multiplies by what `read` gives of what the forward was given besides."""

    class Reading(Function):
        @staticmethod
        def forward(ctx, x, more):
            ctx.more = more
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * read(ctx.more), None

    return Reading


def _set_global(value):
    global SCALE
    SCALE = value


def _set_helper(value):
    global helper
    helper = other_helper if value != 2.0 else _first_helper


_first_helper = helper


def closed_over():
    scale = 2.0

    def read(more):
        return scale

    def write(value):
        nonlocal scale
        scale = value

    return read, write


_closure = closed_over()
_linear = nn.Linear(3, 3)


def _set_parameter(value):
    _linear.bias = nn.Parameter(torch.full((3,), value))


class Table(dict):
    def __getitem__(self, key):
        return super().__getitem__(key) + 1


class Slotted:
    __slots__ = ("own",)


class Holding(nn.Module):
    """A function of autograd that is given a dictionary, as transformers' Yoso has it."""

    def __init__(self):
        super().__init__()
        self.settings = {"by": 2.0, "more": (1, [2.0])}
        self.linear = nn.Linear(3, 3)


_holding, _other_holding, _slotted, _table, _deque = (
    Holding(),
    Holding(),
    Slotted(),
    Table(by=2.0),
    collections.deque([1.0, 2.0]),
)
_slotted.own = 2.0


def _set_or_delete(value):
    if value == 2.0:
        vars(settings).pop("bonus", None)
    else:
        settings.bonus = value


def _set_method(value):
    if value == 2.0:
        vars(settings).pop("scaled", None)
    else:
        settings.scaled = lambda: value


CASES = {
    "attribute that is not there": (reading(lambda more: getattr(more, "bonus", 2.0)), settings, _set_or_delete),
    "method that is hidden": (reading(lambda more: more.scaled()), settings, _set_method),
    "function of an object": (
        reading(lambda more: more.function(2.0)),
        settings,
        lambda v: setattr(settings, "function", helper if v == 2.0 else other_helper),
    ),
    "dictionary": (reading(lambda more: more["by"]), _holding.settings, lambda v: _holding.settings.update(by=v)),
    "dictionary of a module": (
        reading(lambda more: more.settings["by"]),
        _holding,
        lambda v: _holding.settings.update(by=v),
    ),
    "another dictionary of a module": (
        reading(lambda more: more.settings["by"]),
        _other_holding,
        lambda v: setattr(_other_holding, "settings", {"by": v}),
    ),
    "within a dictionary": (
        reading(lambda more: more["more"][1][0]),
        _holding.settings,
        lambda v: _holding.settings["more"][1].insert(0, v),
    ),
    "dictionary of another class": (reading(lambda more: more["by"]), _table, lambda v: _table.update(by=v)),
    "length": (
        reading(len),
        FACTORS,
        lambda v: FACTORS.extend([v] * int(v)) if v > 2 else FACTORS.__delitem__(slice(1, None)),
    ),
    "slot": (reading(lambda more: more.own), _slotted, lambda value: setattr(_slotted, "own", value)),
    "deque": (reading(lambda more: more[-1]), _deque, lambda value: _deque.__setitem__(-1, value)),
    "global": (reading(lambda more: SCALE), None, _set_global),
    "function": (reading(lambda more: helper(1.0)), None, _set_helper),
    "list": (reading(lambda more: FACTORS[0]), None, lambda value: FACTORS.__setitem__(0, value)),
    "list that is given": (reading(lambda more: more[0]), FACTORS, lambda value: FACTORS.__setitem__(0, value)),
    "attribute": (reading(lambda more: more.own), settings, lambda value: setattr(settings, "own", value)),
    "attribute of a class": (reading(lambda more: Settings.scale), None, lambda v: setattr(Settings, "scale", v)),
    "variable around": (reading(_closure[0]), None, _closure[1]),
    "parameter": (reading(lambda more: more.bias), _linear, _set_parameter),
}


def differentiated(run: Callable[[torch.Tensor], torch.Tensor], between: Callable[[], None]) -> torch.Tensor:
    x = torch.ones(3, requires_grad=True)
    y = run(x)
    between()
    y.sum().backward()
    assert x.grad is not None
    return x.grad


@pytest.mark.parametrize("name", CASES)
def test_what_changes_after_the_forward(name: str) -> None:
    function, more, change = CASES[name]

    def run(x: torch.Tensor) -> torch.Tensor:
        return function.apply(x.sin(), more) * 2

    _check_with_changes(run, change)


def _check_with_changes(run: Callable[[torch.Tensor], torch.Tensor], change: Callable[[float], None]) -> None:
    """Gradients as in eager, whatever it is changed to between forward and backward."""
    compiled = capture.compile(run)
    try:
        for value in (2.0, 5.0, 7.0):
            change(2.0)
            expected = differentiated(run, lambda value=value: change(value))
            change(2.0)
            found = differentiated(compiled, lambda value=value: change(value))
            torch.testing.assert_close(found, expected)
    finally:
        change(2.0)


def test_a_hook_that_reads_what_changes() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        h = x.sin()
        h.register_hook(lambda g: g * SCALE)
        return h * 2

    _check_with_changes(run, _set_global)


HOOKED = ["attribute that is not there", "function of an object", "dictionary", "attribute"]


@pytest.mark.parametrize("name", HOOKED)
def test_a_hook_that_reads_what_changes_in_an_object(name: str) -> None:
    function, more, change = CASES[name]

    def run(x: torch.Tensor) -> torch.Tensor:
        h = x.sin()
        h.register_hook(lambda g: function.backward(HOOKS, g)[0])
        return h * 2

    HOOKS.more = more
    _check_with_changes(run, change)


HOOKS = types.SimpleNamespace()


def test_what_the_frame_changes_afterwards() -> None:
    first = reading(lambda more: more[0])

    def run(x: torch.Tensor) -> torch.Tensor:
        factors = [2.0]
        y = first.apply(x.sin(), factors)
        factors[0] = 7.0
        return y

    compiled = capture.compile(run)
    for _ in range(2):
        torch.testing.assert_close(differentiated(compiled, lambda: None), differentiated(run, lambda: None))


def test_what_the_frame_hands_out() -> None:
    first = reading(lambda more: more["by"])

    def run(x: torch.Tensor) -> tuple[torch.Tensor, dict[str, float]]:
        factors = {"by": 2.0}
        return first.apply(x.sin(), factors), factors

    def once(run: Any) -> torch.Tensor:
        x = torch.ones(3, requires_grad=True)
        y, factors = run(x)
        factors["by"] = 9.0
        y.sum().backward()
        return x.grad

    compiled = capture.compile(run)
    for _ in range(2):
        torch.testing.assert_close(once(compiled), once(run))


def test_within_the_frame() -> None:
    function = reading(lambda more: SCALE)

    def run(x: torch.Tensor) -> None:
        _set_global(2.0)
        y = function.apply(x.sin(), None)
        _set_global(5.0)
        y.sum().backward()
        _set_global(2.0)

    torch.testing.assert_close(*(differentiated_within(each) for each in (capture.compile(run), run)))


def differentiated_within(run: Callable[[torch.Tensor], None]) -> torch.Tensor:
    x = torch.ones(3, requires_grad=True)
    run(x)
    return x.grad


LOOKS = [
    "dictionary",
    "dictionary of a module",
    "within a dictionary",
    "list",
    "attribute",
    "variable around",
    "parameter",
]


@pytest.mark.parametrize("name", LOOKS)
def test_what_may_change_is_one_graph_that_looks_again(name: str) -> None:
    function, more, change = CASES[name]

    def run(x: torch.Tensor) -> torch.Tensor:
        return function.apply(x.sin(), more) * 2

    compiled = capture.compile(run, fullgraph=True)
    try:
        for value in (2.0, 5.0):
            change(2.0)
            expected = differentiated(run, lambda value=value: change(value))
            change(2.0)
            torch.testing.assert_close(differentiated(compiled, lambda value=value: change(value)), expected)
    finally:
        change(2.0)


class Contextual(Function):
    """Its backward asks for much of its context."""

    @staticmethod
    def forward(ctx, x, y, settings, name):
        ctx.save_for_backward(x, None, y)
        ctx.settings, ctx.own, ctx.both = settings, {"x": x, "n": [x.shape[0]]}, (name, y.detach())
        return x * y * settings["by"], y.cos(), name

    @staticmethod
    def backward(ctx, g, h, none):
        _, nothing, y = ctx.saved_tensors
        assert nothing is None and none is None and ctx.both[0] == "name"
        made = g * y * ctx.settings["by"] + ctx.own["x"] * ctx.own["n"][0]
        if ctx.settings["by"] > 4:
            assert ctx.needs_input_grad == (True, True, False, False)
            return made, h * ctx.both[1], None, None, None
        return made, None, None, None


def test_a_backward_that_runs_as_it_is_has_its_context() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        first, second, _ = Contextual.apply(x.sin(), x.cos(), _holding.settings, "name")
        return first * second

    capture.compile(run, fullgraph=True)(torch.ones(3, requires_grad=True))
    _check_with_changes(run, lambda value: _holding.settings.update(by=value))


def test_what_each_call_brings_anew_breaks() -> None:
    function = reading(lambda more: more["by"])

    def run(x: torch.Tensor, settings: dict[str, float]) -> torch.Tensor:
        return function.apply(x.sin(), settings) * 2

    compiled = capture.compile(run)
    for by in (2.0, 3.0, 2.0):
        found = [differentiated(lambda x, each=each: each(x, {"by": by}), lambda: None) for each in (run, compiled)]
        torch.testing.assert_close(*found)
    assert len(capture.report(compiled).breaks) == 1


def test_what_a_backward_is_given_anew_breaks_beside_what_is_looked_at() -> None:
    function = reading(lambda more: _holding.settings["by"])

    def run(x: torch.Tensor, given: dict[str, float]) -> torch.Tensor:
        return function.apply(x.sin(), given) * 2

    compiled = capture.compile(run)
    for _ in range(3):
        found = [differentiated(lambda x, each=each: each(x, {"by": 2.0}), lambda: None) for each in (run, compiled)]
        torch.testing.assert_close(*found)
    assert len(capture.report(compiled).breaks) == 1


def test_a_backward_that_looks_again_is_differentiated() -> None:
    function = reading(lambda more: more["by"])

    def run(x: torch.Tensor) -> torch.Tensor:
        return function.apply(x.sin(), _holding.settings) * x

    def twice(run: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        x = torch.ones(3, requires_grad=True)
        (first,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    torch.testing.assert_close(twice(capture.compile(run, fullgraph=True)), twice(run))


def test_errors_of_a_backward_that_runs_as_it_is() -> None:
    class Failing(Function):
        @staticmethod
        def forward(ctx, x, more):
            ctx.more = more
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return (g, None) if ctx.more["by"] == 2.0 else g

    def run(x: torch.Tensor) -> torch.Tensor:
        return Failing.apply(x.sin(), _holding.settings)

    for each in (run, capture.compile(run)):
        _holding.settings["by"] = 2.0
        with pytest.raises(
            RuntimeError, match=r"FailingBackward returned an incorrect number of gradients \(expected 2, got 1\)"
        ):
            differentiated(each, lambda: _holding.settings.update(by=5.0))
    _holding.settings["by"] = 2.0


def test_what_the_frame_changes_of_what_is_looked_at() -> None:
    function = reading(lambda more: more["by"])

    def run(x: torch.Tensor, *, first: bool) -> torch.Tensor:
        if first:
            _holding.settings["by"] = 3.0
        y = function.apply(x.sin(), _holding.settings)
        if not first:
            _holding.settings["by"] = 3.0
        return y

    for first in (True, False):
        compiled = capture.compile(run)
        for value in (2.0, 3.0, 5.0):
            found = []
            for each in (run, compiled):
                _holding.settings["by"] = 2.0
                call = lambda x, each=each: each(x, first=first)  # noqa: E731
                found.append(differentiated(call, lambda value=value: _holding.settings.update(by=value)))
            torch.testing.assert_close(*found)
    _holding.settings["by"] = 2.0


class Plain(Function):
    """It reads what does not change: functions, modules, names that are stored once, what the forward made of its own."""

    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        ctx.sizes = [x.shape[0], {"again": FIXED}]
        return x * by

    @staticmethod
    def backward(ctx, g):
        size, more = ctx.sizes
        return fixed_helper(g.view(size)) * ctx.by * more["again"] * torch.pi, None


@pytest.mark.parametrize("by", [2, 2.5, (3, 4)[0]])
def test_what_does_not_change_is_one_graph(by: float) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return Plain.apply(x.sin(), by)

    compiled = capture.compile(run, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(differentiated(compiled, lambda: None), differentiated(run, lambda: None))


@pytest.mark.parametrize(
    "body", ["", "def change():\n  global NAME\n  NAME = 2", "class A:\n  def change(self):\n    del NAME"]
)
def test_settled_names(body: str) -> None:
    from capture.rebinding import is_settled

    module = types.ModuleType("settled_names")
    body = body.replace("    del", "    global NAME\n    del")
    exec(compile(f"NAME = 1\n{body}", "settled_names.py", "exec"), vars(module))
    module.__file__ = "settled_names.py"
    assert is_settled(vars(module), "NAME") is (not body)


def test_names_of_a_module_that_is_still_run() -> None:
    from capture.rebinding import is_settled

    namespace: dict[str, Any] = {"__name__": "half_way", "__file__": "half_way.py", "is_settled": is_settled}
    source = "ONCE = 1\nTWICE = 1\nfound = [is_settled(globals(), name) for name in ('ONCE', 'TWICE')]\nTWICE = 2"
    exec(compile(source, "half_way.py", "exec"), namespace)
    assert namespace["found"] == [True, False]


def test_names_of_libraries() -> None:
    import math

    from capture.rebinding import is_settled

    assert is_settled(vars(math), "pi") and is_settled(vars(torch), "pi")
    assert "math" in sys.modules


def _checkpointed(function: Callable[..., torch.Tensor], reentrant: bool = False) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(function, x.sin(), use_reentrant=reentrant) * 2

    return run


class Scaling(nn.Module):
    by = 2.0

    def __init__(self):
        super().__init__()
        self.own = 2.0

    def forward(self, x):
        return (x * self.own * self.by).sin()


class Configured:
    """A setting behind a property, as configurations of models have it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._speed = 2.0

    @property
    def kind(self) -> str:
        return self._kind

    @kind.setter
    def kind(self, value: str) -> None:
        self._kind = value

    @property
    def speed(self) -> float:
        return self._speed

    @speed.setter
    def speed(self, value: float) -> None:
        self._speed = value


_configured = Configured("sin")


def _set_speed(value: float) -> None:
    _configured.speed = value


_scaling = Scaling()


def _set_entry(value):
    _scaling.table["by"] = value


_scaling.table = {"by": 2.0}
CHECKPOINTED = {
    "list": (lambda x: (x * FACTORS[0]).sin(), lambda value: FACTORS.__setitem__(0, value)),
    "dictionary": (lambda x: (x * _holding.settings["by"]).sin(), lambda v: _holding.settings.update(by=v)),
    "dictionary that is stored in": (lambda x: (x * _scaling.table["by"]).sin(), _set_entry),
    "variable around": (lambda x: (x * _closure[0](None)).sin(), _closure[1]),
    "global": (lambda x: (x * SCALE).sin(), _set_global),
    "function": (lambda x: helper(x).sin(), _set_helper),
    "attribute": (lambda x: (x * settings.own).sin(), lambda value: setattr(settings, "own", value)),
    "property": (lambda x: (x * _configured.speed).sin(), _set_speed),
    "attribute of a module": (_scaling, lambda value: setattr(_scaling, "own", value)),
    "attribute of a class": (_scaling, lambda value: setattr(Scaling, "by", value)),
}


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", CHECKPOINTED)
def test_what_changes_before_a_checkpoint_computes_again(name: str, reentrant: bool) -> None:
    function, change = CHECKPOINTED[name]
    _check_with_changes(_checkpointed(function, reentrant), change)


def test_what_the_frame_changes_before_a_checkpoint_computes_again() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        for k in range(2, 5):
            x = checkpoint(lambda x: (x * k).sin(), x.sin(), use_reentrant=False)
        return x

    compiled = capture.compile(run)
    for _ in range(2):
        torch.testing.assert_close(differentiated(compiled, lambda: None), differentiated(run, lambda: None))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.rate, self.kind = nn.Linear(3, 3), 2.0, "sin"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(torch, self.kind)(self.linear(x) * self.rate * FIXED)


def test_a_setting_that_nobody_sets_is_one_graph() -> None:
    run = _checkpointed(lambda x: getattr(torch, _configured.kind)(x * 2))
    compiled = capture.compile(run, fullgraph=True)
    torch.testing.assert_close(differentiated(compiled, lambda: None), differentiated(run, lambda: None))


@pytest.mark.parametrize(
    ("body", "settled"),
    [
        ("", True),
        ("def change(a):\n  a.NAME = 2", False),
        ("class B:\n  def __init__(self, a):\n    self.NAME = 2", True),
        ("class B:\n  def fset(self, value):\n    self.NAME = value\n  other = property(None, fset)", True),
        ("class B:\n  other = property(None, lambda self, value: setattr(self, 'NAME', value))", True),
        (
            "class B:\n  def fset(self, value):\n    self.NAME = value\n  other = property(None, fset)\n"
            "def change(b):\n  b.other = 2",
            False,
        ),
        (
            "class B:\n  @property\n  def other(self): ...\n  @other.setter\n  def other(self, value):\n"
            "    return lambda: setattr(self, 'NAME', value)",
            False,
        ),
    ],
)
def test_settled_attributes(body: str, settled: bool) -> None:
    from capture.rebinding import is_settled_attribute

    module = types.ModuleType("settled_attributes")
    source = f"class A:\n  @property\n  def NAME(self): ...\n  @NAME.setter\n  def NAME(self, value): self._NAME = value\n{body}"
    exec(compile(source, "settled_attributes.py", "exec"), vars(module))
    assert is_settled_attribute([vars(module)], "_NAME") is settled


def test_a_checkpoint_of_what_does_not_change_is_one_graph() -> None:
    run = _checkpointed(Layer())
    compiled = capture.compile(run, fullgraph=True)
    torch.testing.assert_close(differentiated(compiled, lambda: None), differentiated(run, lambda: None))
