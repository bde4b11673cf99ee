"""What lives on and is changed between two calls: classes, functions and globals of any package."""

from __future__ import annotations

import abc
import enum
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import capture

#: A change: made by the function, undone by calling what it returns.
Change = Callable[[Any], Callable[[], None]]


@pytest.fixture(autouse=True)
def failures_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")


def setting(owner: Callable[[Any], Any], name: str, value: Any) -> Change:
    """Set an attribute; undone by giving it back what it had itself, or nothing."""

    def change(state: Any) -> Callable[[], None]:
        target = owner(state)
        had = vars(target).get(name, ...) if name in getattr(target, "__dict__", {}) else ...
        inherits = isinstance(target, type | types.ModuleType) and name != "__name__"
        if had is ... and not inherits and hasattr(target, name):
            had = getattr(target, name)
        setattr(target, name, value)
        return lambda: delattr(target, name) if had is ... else setattr(target, name, had)

    return change


class Base:
    k = 2.0

    def go(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.k

    @property
    def scale(self) -> float:
        return 3.0


class Below(Base):
    pass


class Beside:
    k = 11.0


class Meta(type):
    def shared(cls) -> float:
        return 2.0


class WithMeta(metaclass=Meta):
    pass


class Sub(Below):
    def go(self, x: torch.Tensor) -> torch.Tensor:
        return super().go(x) + 1


class OtherBelow(Base):
    k = 7.0


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu() + 1


class OtherInner(Inner):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sigmoid() * 3


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) - 2


class Descriptor:
    def __get__(self, obj: Any, cls: Any) -> float:
        return 4.0


class HasDescriptor:
    d = Descriptor()

    def __init__(self) -> None:
        self.own = 1.0


def plain(x: torch.Tensor, factor: float = 2.0, *, shift: float = 1.0) -> torch.Tensor:
    return x * factor + shift


plain.bonus = 5.0  # type: ignore[attr-defined]


def other(x: torch.Tensor, factor: float = 5.0, *, shift: float = 1.0) -> torch.Tensor:
    return x - factor


def calls_plain(x: torch.Tensor, state: Any) -> torch.Tensor:
    return plain(x)


def reads_bonus(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x * getattr(plain, "bonus", 1.0) + len(plain.__name__)


def calls_relu(x: torch.Tensor, state: Any) -> torch.Tensor:
    return F.relu(x) + torch.nn.functional.gelu(x)


def uses_builtins(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x * len([1, 2, 3]) + divmod(9, 4)[0]


def calls_gelu(x: torch.Tensor, state: Any) -> torch.Tensor:
    return torch.nn.functional.gelu(x)


def goes(x: torch.Tensor, state: Any) -> torch.Tensor:
    return state.go(x)


def scaled(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x * state.scale


def is_base(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x + 1 if isinstance(state, Base) else x - 1


def meta_method(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x * state.shared()


def described(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x * state.d + state.own


def calls_state(x: torch.Tensor, state: Any) -> torch.Tensor:
    return state(x)


def negates(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x + 1 if state else x - 1


def adds(x: torch.Tensor, state: Any) -> Any:
    try:
        return x * (state + 1)
    except TypeError:
        return x


class Kind(enum.Enum):
    ON = 2


def asks(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x + (isinstance(state, WithMeta) + 2 * issubclass(Sub, WithMeta))


def names(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x * (len(Below.__name__) + len(Below.__qualname__) + len(Below.__mro__) + len(type(state).__module__))


def parameters(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x + len(inspect.signature(plain).parameters)


def module_value(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x * state.value


def enum_value(x: torch.Tensor, state: Any) -> torch.Tensor:
    return x * Kind.ON.value


def adds_one(x: torch.Tensor, state: Any) -> torch.Tensor:
    return (x + 1).relu()


def catches(x: torch.Tensor, state: Any) -> torch.Tensor:
    try:
        raise Problem
    except OtherProblem:
        return x + 1
    except Exception:
        return x + 2


class FirstProblem(Exception):
    pass


class OtherProblem(Exception):
    pass


class Problem(FirstProblem):
    pass


class Lazy(types.ModuleType):
    @property
    def value(self) -> float:
        return 9.0


def a_module() -> types.ModuleType:
    made = types.ModuleType("made")
    made.value = 3.0  # type: ignore[attr-defined]
    return made


def problem_bases(state: Any) -> Callable[[], None]:
    Problem.__bases__ = (OtherProblem,)

    def undo() -> None:
        Problem.__bases__ = (FirstProblem,)

    return undo


def of_class(cls: type) -> Callable[[Any], Any]:
    return lambda state: cls


def globals_of_this(state: Any) -> Any:
    import sys

    return sys.modules[__name__]


def functional(state: Any) -> Any:
    return F


def new_bases(state: Any) -> Callable[[], None]:
    Below.__bases__ = (Beside, Base)

    def undo() -> None:
        Below.__bases__ = (Base,)

    return undo


def other_class(of: Callable[[Any], Any], cls: type) -> Change:
    def change(state: Any) -> Callable[[], None]:
        target = of(state)
        had = type(target)
        target.__class__ = cls

        def undo() -> None:
            target.__class__ = had

        return undo

    return change


CASES: dict[str, tuple[Callable[..., Any], Callable[[], Any], Change]] = {
    "value shadowed on a subclass": (goes, Below, setting(of_class(Below), "k", 5.0)),
    "value of the base": (goes, Below, setting(of_class(Base), "k", 6.0)),
    "method shadowed on a subclass": (goes, Below, setting(of_class(Below), "go", lambda self, x: x - 4)),
    "method of the base beneath super": (goes, Sub, setting(of_class(Base), "go", lambda self, x: x - 4)),
    "method between, beneath super": (goes, Sub, setting(of_class(Below), "go", lambda self, x: x * 9)),
    "property replaced": (scaled, Below, setting(of_class(Base), "scale", property(lambda self: 8.0))),
    "property hides on a subclass": (scaled, Below, setting(of_class(Below), "scale", 1.5)),
    "bases": (goes, Below, new_bases),
    "class of an object, asked by isinstance": (is_base, OtherBelow, other_class(lambda s: s, Beside)),
    "method of the metaclass": (meta_method, lambda: WithMeta, setting(of_class(Meta), "shared", lambda cls: 9.0)),
    "class hides its metaclass": (
        meta_method,
        lambda: WithMeta,
        setting(of_class(WithMeta), "shared", staticmethod(lambda: 7.0)),
    ),
    "descriptor's __get__": (described, HasDescriptor, setting(of_class(Descriptor), "__get__", lambda s, o, c: 6.0)),
    "becomes a data descriptor": (
        lambda x, state: x * state.own,
        HasDescriptor,
        setting(of_class(HasDescriptor), "own", property(lambda self: 21.0)),
    ),
    "__getattribute__": (
        described,
        HasDescriptor,
        setting(of_class(HasDescriptor), "__getattribute__", lambda s, n: 1.0),
    ),
    "__getattr__": (
        lambda x, state: x * getattr(state, "missing", 2.0),
        HasDescriptor,
        setting(of_class(HasDescriptor), "__getattr__", lambda s, n: 3.0),
    ),
    "__bool__": (negates, Below, setting(of_class(Below), "__bool__", lambda self: False)),
    "__len__ on the base": (negates, Below, setting(of_class(Base), "__len__", lambda self: 0)),
    "__add__": (adds, Below, setting(of_class(Base), "__add__", lambda self, other: 3.0)),
    "__class__ of an object": (goes, Below, other_class(lambda s: s, OtherBelow)),
    "__class__ of a module": (calls_state, Inner, other_class(lambda s: s, OtherInner)),
    "__class__ of a nested module": (calls_state, Outer, other_class(lambda s: s.inner, OtherInner)),
    "forward of a nested module's class": (calls_state, Outer, setting(of_class(Inner), "forward", lambda s, x: x * 3)),
    "code": (calls_plain, lambda: None, setting(lambda s: plain, "__code__", other.__code__)),
    "defaults": (calls_plain, lambda: None, setting(lambda s: plain, "__defaults__", (9.0,))),
    "keyword defaults": (calls_plain, lambda: None, setting(lambda s: plain, "__kwdefaults__", {"shift": 8.0})),
    "attribute of a function": (reads_bonus, lambda: None, setting(lambda s: plain, "bonus", 8.0)),
    "name of a function": (reads_bonus, lambda: None, setting(lambda s: plain, "__name__", "another")),
    "code of a method": (goes, Below, setting(lambda s: Base.go, "__code__", (lambda self, x: x - self.k).__code__)),
    "a global function": (calls_plain, lambda: None, setting(globals_of_this, "plain", other)),
    "a built-in hidden": (uses_builtins, lambda: None, setting(globals_of_this, "len", lambda x: 10)),
    "a built-in replaced": (
        uses_builtins,
        lambda: None,
        setting(lambda s: __import__("builtins"), "divmod", lambda a, b: (a, b)),
    ),
    "torch.nn.functional.relu": (calls_relu, lambda: None, setting(functional, "relu", lambda x: x * 7)),
    "code of torch.nn.functional.relu": (
        calls_relu,
        lambda: None,
        setting(lambda s: F.relu, "__code__", (lambda input, inplace=False: input - 5).__code__),
    ),
    "__instancecheck__": (asks, Below, setting(of_class(Meta), "__instancecheck__", lambda cls, value: True)),
    "__subclasscheck__": (asks, Below, setting(of_class(Meta), "__subclasscheck__", lambda cls, value: True)),
    "name of a class": (names, Below, setting(of_class(Below), "__name__", "B")),
    "module of a class": (names, Below, setting(of_class(Below), "__module__", "B")),
    "bases, asked for the order": (names, Below, new_bases),
    "bases of an exception": (catches, lambda: None, problem_bases),
    "signature given": (parameters, lambda: None, setting(lambda s: plain, "__signature__", inspect.Signature())),
    "signature by the code": (parameters, lambda: None, setting(lambda s: plain, "__code__", (lambda x: x).__code__)),
    "class of a Python module": (module_value, a_module, other_class(lambda s: s, Lazy)),
    "value of an enumeration's member": (enum_value, lambda: None, setting(lambda s: Kind.ON, "_value_", 6)),
    "operator of tensors": (adds_one, lambda: None, setting(of_class(torch.Tensor), "__add__", lambda x, y: x.mul(5))),
    "method of tensors": (adds_one, lambda: None, setting(of_class(torch.Tensor), "relu", lambda x: x.sub(5))),
    "_call_impl": (calls_state, Outer, setting(of_class(torch.nn.Module), "_call_impl", lambda s, x: x * 3)),
    "torch.nn.functional": (
        calls_gelu,
        lambda: None,
        setting(lambda s: torch.nn, "functional", types.SimpleNamespace(gelu=torch.sin)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_between_two_calls(name: str) -> None:
    function, make, change = CASES[name]
    state = make()
    torch.manual_seed(0)
    x = torch.randn(4)
    compiled = capture.compile(function, lambda module, inputs: module.forward)

    def same() -> torch.Tensor:
        # As code that never ran: what 3.14 has found out about a module's attribute it believes of the module with another class, too.
        expected = types.FunctionType(function.__code__.replace(), function.__globals__)(x, state)
        assert torch.equal(compiled(x, state), expected)
        return expected

    first = same()
    same()
    undo = change(state)
    try:
        second = same()
        assert not torch.equal(first, second)
    finally:
        undo()
    assert torch.equal(first, same())


@functools.wraps(F.relu)
def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * F.relu(x)


def functions() -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    yield from (F.relu, F.silu, doubled, torch.tanh, functools.partial(F.softmax, dim=0), Inner(), F.relu)


def reading(how: str) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    ways: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
        "argument": (lambda x, act: act(x), lambda act: act),
        "attribute": (lambda x, s: s.act(x), lambda act: types.SimpleNamespace(act=act)),
        "entry": (lambda x, s: s["act"](x), lambda act: {"act": act}),
        "item": (lambda x, s: s[0](x), lambda act: [act]),
        "partial": (lambda x, s: s(x), functools.partial),
    }
    return ways[how]


@pytest.mark.parametrize("how", ["argument", "attribute", "entry", "item", "partial"])
def test_another_function_in_the_same_place(how: str) -> None:
    function, place = reading(how)
    compiled = capture.compile(function, lambda module, inputs: module.forward)
    x = torch.randn(4)
    for act in functions():
        assert torch.equal(compiled(x, place(act)), act(x))


def test_functions_made_anew_share_a_capture() -> None:
    seen = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        seen.append(module)
        return module.forward

    compiled = capture.compile(lambda x, act: act(x), backend)
    x = torch.randn(4)

    def of(w: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: x * w

    for i in range(3):
        w = torch.full((4,), float(i))
        assert torch.equal(compiled(x, of(w)), x * w)
    assert len(seen) == 1


def test_a_class_registered_with_an_abstract_one() -> None:
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    def function(x: torch.Tensor, value: Any) -> torch.Tensor:
        return x + (isinstance(value, Shape) + 2 * issubclass(Square, Shape))

    compiled = capture.compile(function, lambda module, inputs: module.forward)
    x = torch.zeros(2)
    assert torch.equal(compiled(x, Square()), x)
    Shape.register(int)
    assert torch.equal(compiled(x, Square()), x)
    Shape.register(Square)
    assert torch.equal(compiled(x, Square()), x + 3)


def test_what_the_frame_sets_and_deletes_may_be_there_before_the_next_call() -> None:
    def function(x: torch.Tensor, value: Any) -> torch.Tensor:
        value.__dict__["extra"] = 1
        del value.extra
        return x + 1

    compiled = capture.compile(function, lambda module, inputs: module.forward)
    state = types.SimpleNamespace()
    for start in ({}, {"extra": 5}):
        state.__dict__.update(start)
        compiled(torch.zeros(2), state)
        assert not state.__dict__


def test_an_object_with_overrides_is_seen() -> None:
    class Like:
        def __torch_function__(self, *args: Any) -> Any: ...

    def function(x: torch.Tensor, value: Any) -> torch.Tensor:
        return x + (torch.overrides.is_tensor_like(value) + 2 * torch.overrides.is_tensor_like(x))

    compiled = capture.compile(function, lambda module, inputs: module.forward)
    for value in (Like(), object(), torch.ones(1)):
        assert torch.equal(compiled(torch.zeros(2), value), function(torch.zeros(2), value))
