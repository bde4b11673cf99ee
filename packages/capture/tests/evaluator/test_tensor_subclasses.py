"""Tensors of the program's classes: what their `__torch_function__` makes of operations is in the graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from overriding import (
    Accepting,
    Image,
    Masked,
    MorePlain,
    Multiplying,
    Noting,
    NotingMore,
    Operators,
    Parameter,
    Plain,
    Refusing,
    Tagged,
    Unit,
    alike,
    check,
    count,
    noting,
    plain,
)

import capture

LAYERS = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3), torch.nn.GELU())


def unit_goes_over(x):
    y = x * 2
    return y, y.unit, type(y)


def attribute_is_set(x):
    x.unit = x.unit + "2"
    return x * x


def indexed(x):
    return x[0] + x[1:].sum()


def written_to(x):
    x[0] = 5
    x += 1
    x.mul_(2)
    return x


def switched_off(x):
    with torch._C.DisableTorchFunctionSubclass():
        return x + 1


def unpacked(x):
    a, b = x
    return a * b


def iterated(x):
    total = 0
    for row in x:
        total = total + row.sum()
    return total


def attributes_are_given(x):
    y = (x * 2).as_subclass(Plain)
    y.meta = {"a": [1, 2]}
    y.t = (1, "b")  # in the place of a method
    return y, y.t


def attribute_goes_over(x):
    y = x * 2
    y.other = x.tag
    return y


def attribute_is_missing(x):
    try:
        return x.nowhere
    except AttributeError:
        return x + 1


def property_is_set(x):
    x.double = 3
    return x


def assigned_in_place(x):
    y = x
    y += 1
    return x, y


def without_gradients(x):
    with torch.no_grad():
        return x * 2


def memory_is_shared(x, y):
    x.add_(1)
    return y * 2


def two_over_one_memory() -> tuple[Any, ...]:
    base = count(4)
    return base.as_subclass(Plain), base


def units_meet(a, b):
    if a.unit != b.unit:
        b = Unit(torch.Tensor.div(b, 1000), a.unit)
    return a + b


class OwnParameter(torch.nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Disabled(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class ByName(torch.Tensor):
    @staticmethod
    def __new__(cls, data, names):
        made = torch.Tensor._make_subclass(cls, data)
        made.axes = tuple(names)
        return made

    def total(self, name):
        return torch.sum(self, dim=self.axes.index(name))


class KeywordsByDefault(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs={}):
        return super().__torch_function__(func, types, args, {**kwargs})


def in_inference_mode(x):
    with torch.inference_mode():
        return x * 2


def attribute_is_deleted(x):
    x.mark = 3
    y = x * x.mark
    del x.mark
    return y, hasattr(x, "mark")


class ByAnswer(type(torch.Tensor)):
    def __instancecheck__(cls, value):
        return hasattr(value, "answer")


class Answering(torch.Tensor, metaclass=ByAnswer):
    pass


class Claiming(torch.Tensor):
    @property
    def __class__(self):
        return Unit


def answering() -> Any:
    made = plain(3)
    made.answer = made._is_param = True
    return made


ASKED = (
    Plain,
    MorePlain,
    Answering,
    Unit,
    Parameter,
    torch.nn.Parameter,
    torch.nn.Buffer,
    torch.Tensor,
)


def kinds(x, *more):
    return [isinstance(each, cls) for each in (x, *more) for cls in ASKED]


def kinds_in_graph(x):
    return kinds(x, x * 2, x.as_subclass(MorePlain), 3), x + 1


def steps(x):
    yield x * 2
    yield x * 3


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "addition": (lambda x: x + 1, lambda: (plain(3),)),
    "with a plain tensor": (lambda x, y: torch.cat([x, y]).sum(), lambda: (plain(3), count(3))),
    "methods": (lambda x: x.relu().view(3, 1).t().contiguous(), lambda: (plain(3),)),
    "a unit goes over": (unit_goes_over, lambda: (Unit(count(3), "kg"),)),
    "made in the frame": (lambda x: Unit(x, "s") + 1, lambda: (count(3),)),
    "an attribute is set": (attribute_is_set, lambda: (Unit(count(3), "kg"),)),
    "notes": (lambda x: (x.sin() + 1).sum(), lambda: (noting(3),)),
    "notes of functions in Python": (lambda x: F.relu(torch.sin(x)), lambda: (noting(3),)),
    "indexed": (indexed, lambda: (noting(3),)),
    "written to": (written_to, lambda: (noting(3),)),
    "on the right": (lambda x, y: y + x, lambda: (noting(3), count(3))),
    "numbers on the left": (lambda x: (1 - x, 2**x, 3 / x, x > 2, x == 2), lambda: (noting(3),)),
    "operators": (lambda x: (-x, abs(x), ~(x > 1), x**2, x // 2, x @ x, x % 2), lambda: (noting(3),)),
    "switched off": (switched_off, lambda: (noting(3),)),
    "unpacked": (unpacked, lambda: (noting(2, 3),)),
    "iterated": (iterated, lambda: (plain(3, 2),)),
    "several results": (lambda x: (x.max(0), x.split(1), x.unbind(0), torch.topk(x, 2)), lambda: (plain(3, 3),)),
    "in a list": (lambda x, y: torch.stack([y, x, y]), lambda: (noting(3), count(3))),
    "by keyword": (lambda x: torch.cat(tensors=[x, x], dim=0), lambda: (noting(3),)),
    "where": (lambda x: torch.where(x > 1, x, -x), lambda: (noting(3),)),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ik", x, y), lambda: (noting(2, 3), count(3, 2))),
    "as an index": (lambda i, y: y[i], lambda: (torch.tensor([0, 2]).as_subclass(Noting), count(3))),
    "layers of functions": (lambda x: F.layer_norm(F.pad(x, (1, 1)), (5,)), lambda: (noting(2, 3),)),
    "a module": (lambda x: LAYERS(x), lambda: (plain(2, 3),)),
    "two classes": (lambda x, y: torch.add(x, y), lambda: (noting(3), count(3).as_subclass(NotingMore))),
    "one that refuses": (
        lambda x, y: torch.add(x, y),
        lambda: (count(3).as_subclass(Refusing), count(3).as_subclass(Accepting)),
    ),
    "unwrapped": (lambda x: x + 1, lambda: (Image(count(4, 4)),)),
    "wrapped again": (lambda x: (x.clone(), x.to(torch.float64)), lambda: (Image(count(4, 4)),)),
    "a class method": (lambda x: Image.wrap(x.flip(-1)), lambda: (Image(count(4, 4)),)),
    "made by the class": (lambda x: Image(x * 2), lambda: (count(4, 4),)),
    "a property": (lambda x: x[: x.half] * 2, lambda: (Image(count(4, 4)),)),
    "by class": (
        lambda xs: [x * 2 if isinstance(x, Image) else x for x in xs],
        lambda: ([Image(count(2)), count(2)],),
    ),
    "tags go over": (lambda x: (x * 2).relu(), lambda: (Tagged(count(3), tag="t"),)),
    "made with tags": (lambda x: Tagged(x.relu(), tag=3) * 2, lambda: (count(3),)),
    "another function": (lambda x: torch.add(x, x), lambda: (count(3).as_subclass(Multiplying),)),
    "a handled function": (lambda x: torch.sum(x), lambda: (Masked(count(4), torch.tensor([1.0, 0, 1, 0])),)),
    "handled and not": (lambda x: torch.mean(x) + x[0], lambda: (Masked(count(4), torch.tensor([1.0, 0, 1, 0])),)),
    "a tensor as attribute": (lambda x: x * x.mask, lambda: (Masked(count(3), torch.tensor([0.0, 1, 1])),)),
    "a made tensor as attribute": (lambda x: Masked(x * 2, x > 1), lambda: (count(3),)),
    "attributes are given": (attributes_are_given, lambda: (count(3),)),
    "an attribute goes over": (attribute_goes_over, lambda: (Tagged(count(3), tag={"k": [1]}),)),
    "an attribute is missing": (attribute_is_missing, lambda: (plain(3),)),
    "itself": (lambda x, y: (x, y + 1), lambda: (plain(3), count(3))),
    "memory is shared": (memory_is_shared, two_over_one_memory),
    "a view is written to": (lambda x: x.view(2, 2).mul_(2), lambda: (plain(4),)),
    "without gradients": (without_gradients, lambda: (noting(3),)),
    "no history": (lambda x: x.detach().clone().requires_grad_(False), lambda: (plain(3),)),
    "metadata": (lambda x: (x.dtype, x.device, x.T, x.real, x.requires_grad, x.data), lambda: (plain(2, 3),)),
    "made like it": (lambda x: (x.new_ones(3), torch.ones_like(x), x.new_tensor([1.0])), lambda: (noting(3),)),
    "sizes": (lambda x: x.reshape(-1, x.shape[-1]).sum(0), lambda: (noting(2, 2, 3),)),
    "its type called": (lambda x: type(x)(x * 2), lambda: (plain(3),)),
    "units meet": (units_meet, lambda: (Unit(count(3), "km"), Unit(count(3), "m"))),
    "a parameter's class": (lambda p, x: p * x, lambda: (Parameter(count(3)), count(3))),
    "a parameter that is asked": (lambda p, x: torch.matmul(x, p), lambda: (OwnParameter(count(3, 3)), count(3, 3))),
    "in inference mode": (in_inference_mode, lambda: (plain(3),)),
    "an attribute is deleted": (attribute_is_deleted, lambda: (plain(3),)),
    "summed as it is made": (lambda x: sum(steps(x)), lambda: (noting(3),)),
    "overrides nothing": (lambda x: x + 1, lambda: (count(3).as_subclass(Disabled),)),
    "named axes": (lambda x: x.total("h") * 2, lambda: (ByName(count(2, 3), "hw"),)),
    "keywords by default": (lambda x: torch.sin(x), lambda: (count(3).as_subclass(KeywordsByDefault),)),
    "own methods": (lambda x: (x.scaled(), x.double, x.scale), lambda: (count(3).as_subclass(Operators),)),
    "own class method": (lambda x: Operators.twice(x), lambda: (count(3),)),
    "own operators": (
        lambda x, y: (x + y, y + x, x + 1, 1 + x),
        lambda: (count(3).as_subclass(Operators), count(3)),
    ),
    "own item": (lambda x: x[0], lambda: (count(3).as_subclass(Operators),)),
    "own attributes": (lambda x: x * x.magic, lambda: (count(3).as_subclass(Operators),)),
    "own property": (property_is_set, lambda: (count(3).as_subclass(Operators),)),
    "in place, where only the other is its own": (assigned_in_place, lambda: (count(3).as_subclass(Operators),)),
}


@pytest.mark.parametrize(
    "make",
    [
        lambda: count(3),
        lambda: plain(3),
        lambda: count(3).as_subclass(MorePlain),
        lambda: Parameter(count(3)),
        lambda: torch.nn.Parameter(count(3)),
        lambda: torch.nn.Buffer(count(3)),
        answering,
    ],
)
def test_what_is_an_instance_of_what(make: Callable[[], Any]) -> None:
    check(kinds_in_graph, lambda: (make(),))
    check(kinds, lambda: (make(), 3), graphs=0)


def test_a_class_that_is_claimed() -> None:
    check(kinds_in_graph, lambda: (count(3).as_subclass(Claiming),), graphs=None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name: str) -> None:
    check(*PROGRAMS[name])


NO_GRAPH: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "an attribute of what was made": (lambda x: Unit(x, "s").unit, lambda: (count(3),)),
    "questions": (lambda x: (len(x), x.dim(), x.shape, torch.numel(x), x.is_floating_point()), lambda: (noting(3),)),
    "own length": (lambda x: len(x), lambda: (count(3).as_subclass(Operators),)),
    "attributes": (
        lambda x: (hasattr(x, "unit"), hasattr(x, "no"), getattr(x, "no", 3), isinstance(x, Unit)),
        lambda: (Unit(count(3)),),
    ),
}


@pytest.mark.parametrize("name", NO_GRAPH)
def test_no_graph(name: str) -> None:
    check(*NO_GRAPH[name], graphs=0)


class Breaking(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print(end="")
        return super().__torch_function__(func, types, args, kwargs or {})


def breaks_between(x):
    y = x * 2
    print(end="")
    return y + 1


def breaks_where_switched_off(x):
    with torch._C.DisableTorchFunctionSubclass():
        y = x + 1
        print(end="")
        return y * 2


BREAKING: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "between": (breaks_between, lambda: (Tagged(count(3), tag="q"),)),
    "inside": (lambda x, y: torch.sin(y) + torch.cos(x), lambda: (count(3).as_subclass(Breaking), count(3))),
    "where switched off": (breaks_where_switched_off, lambda: (noting(3),)),
    "data as numbers": (lambda x: (x * 2).tolist(), lambda: (plain(3),)),
    "nobody takes it": (lambda x, y: x + y, lambda: (Unit(count(3)), plain(3))),
}


@pytest.mark.parametrize("name", BREAKING)
def test_graph_breaks(name: str) -> None:
    check(*BREAKING[name], graphs=None)


def test_control_flow_is_not_followed_over_them() -> None:
    """Not run as it is: torch would have another compiler's hook in this process from then on."""

    def program(x: Any) -> Any:
        return torch.cond(x.sum() > 2, lambda y: y + 1, lambda y: y - 1, (x,))

    with pytest.raises(capture.GraphBreakError, match="control flow over a tensor subclass"):
        capture.compile(program, fullgraph=True)(plain(3))


class Changing(torch.Tensor):
    factor = 5


@pytest.fixture(autouse=True)
def _as_before():
    yield
    Changing.factor = 5
    if "__torch_function__" in vars(Changing):
        del Changing.__torch_function__


def changing(**attributes: Any) -> Any:
    made = count(3).as_subclass(Changing)
    vars(made).update(attributes)
    return made


def test_changes_are_noticed() -> None:
    scaled = capture.compile(lambda x: x * x.factor)
    for x in (changing(), changing(factor=2), changing(factor=3), changing(factor=4.5), changing(), plain(3)):
        if type(x) is Plain:
            x.factor = 7
        assert alike(scaled(x), x * x.factor)
    Changing.factor = 11
    assert alike(scaled(changing()), changing() * 11)


def test_another_torch_function_is_noticed() -> None:
    f = capture.compile(lambda x: x + 1)
    assert alike(f(changing()), changing() + 1)
    Changing.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: 42)
    assert f(changing()) == 42
    Changing.__torch_function__ = torch._C._disabled_torch_function_impl
    assert type(f(changing())) is torch.Tensor


def test_switching_off_is_noticed() -> None:
    f = capture.compile(lambda x: torch.add(x, x))
    x = count(3).as_subclass(Multiplying)
    for switch in (torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction):
        assert alike(f(x), torch.add(x, x))
        with switch():
            wanted, found = torch.add(x, x), f(x)
        assert alike(wanted, found)


def test_sizes_vary() -> None:
    f = capture.compile(lambda x: x * x.shape[0])
    for n in (3, 4, 5, 6):
        assert alike(f(plain(n)), plain(n) * n)
    assert f.session.report.graph_count == 2


def test_a_method_of_tensors_called_as_a_function() -> None:
    def program(x):
        torch.Tensor.backward((x * x).sum())
        return x.grad * 2

    x, y = count(3).requires_grad_(), count(3).requires_grad_()
    assert alike(program(x), capture.compile(program)(y))
    assert alike(x.grad, y.grad)


class Logged(torch.Tensor):
    """What is set on one is told, and kept under another name."""

    told: ClassVar[list[str]] = []

    def __setattr__(self, name: str, value: Any) -> None:
        self.told.append(name)
        super().__setattr__(f"own_{name}", value)

    def __delattr__(self, name: str) -> None:
        self.told.append(f"no {name}")
        object.__delattr__(self, f"own_{name}")


def attributes_by_own_methods(x: Any) -> Any:
    x.scale = 3
    y = x + 1
    y.scale, y.more = x.own_scale + 1, "kept"
    found = y.own_scale
    del y.scale
    return y * x.own_scale, found, hasattr(y, "own_scale"), y


@pytest.mark.parametrize("needs_gradients", [False, True])
def test_attributes_are_set_as_the_class_has_it(needs_gradients: bool) -> None:
    compiled = capture.compile(attributes_by_own_methods, fullgraph=True)
    outcomes = []
    for fn in (attributes_by_own_methods, compiled, compiled):
        Logged.told.clear()
        x = torch.arange(3.0).requires_grad_(needs_gradients).as_subclass(Logged)
        *found, y = fn(x)
        outcomes.append((str(found), vars(x), vars(y), list(Logged.told)))
    assert outcomes[0] == outcomes[1] == outcomes[2]


class Packed(torch.Tensor):
    """It says the sizes of what it holds packed, as quantized weights do."""

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return torch.Size([2 * self.numel(), 1])

    def size(self, dim: int | None = None) -> Any:  # type: ignore[override]
        return self.shape if dim is None else self.shape[dim]


class Halved(torch.Tensor):
    def __len__(self) -> int:
        return super().__len__() // 2

    def __iter__(self) -> Any:
        return (each * 10 for each in super().__iter__())


def test_sizes_that_a_class_says_in_its_own_way() -> None:
    """They were taken for the sizes of its memory: `InternalError`."""

    def fn(x: Any, y: torch.Tensor) -> Any:
        return y + x.shape[0], tuple(x.shape), x.size(1), x.numel()

    compiled = capture.compile(fn, fullgraph=True)
    for n in (3, 4, 5, 3):
        given = torch.arange(float(n)).as_subclass(Packed), torch.ones(2)
        expected, found = fn(*given), compiled(*given)
        assert torch.equal(found[0], expected[0])
        assert found[1:] == expected[1:]


def test_lengths_and_elements_that_ask_torchs_own() -> None:
    """`super().__len__()` was the class's own again, which called itself."""

    def fn(x: Any) -> Any:
        return (
            len(x),
            [float(each) for each in x],
            torch.Tensor.__len__(x),
            [float(i) for i in torch.Tensor.__iter__(x)],
        )

    given = torch.arange(4.0).as_subclass(Halved)
    expected = fn(given)  # which has torch know once and for all what it wraps
    assert (
        capture.compile(fn, fullgraph=True)(given) == expected == (2, [0.0, 10.0, 20.0, 30.0], 4, [0.0, 1.0, 2.0, 3.0])
    )


REPLACED: dict[str, tuple[Any, Any]] = {
    "__len__": (lambda self: 2, len),
    "__iter__": (lambda self: iter((1, 2)), list),
    "__int__": (lambda self: 8, lambda x: int(x[3])),
    "__float__": (lambda self: 8.5, lambda x: float(x[3])),
    "__deepcopy__": (lambda self, memo: 7, copy.deepcopy),
    "size": (lambda self, *dims: 4, lambda x: tuple(x.shape)),
}


@pytest.mark.parametrize("name", REPLACED)
def test_special_methods_of_torchs_that_a_program_replaces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some were torch's own still."""
    other, asks = REPLACED[name]

    def fn(x: torch.Tensor) -> Any:
        return x + 1, asks(x)

    compiled, x = capture.compile(fn), torch.arange(4.0)
    for _ in range(2):
        assert repr(compiled(x)) == repr(fn(x))
    with monkeypatch.context() as replaced:
        replaced.setattr(torch.Tensor, name, other)
        found, expected = compiled(x)[1], fn(x)[1]
    assert repr(found) == repr(expected)
    assert repr(compiled(x)) == repr(fn(x))
