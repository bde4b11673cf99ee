"""What programs set of tensors of their classes that autograd knows: `grad`, `data`, `requires_grad`; the class is asked as often as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from overriding import MorePlain, Parameter, Plain, Unit, alike, count

import capture

#: What classes here were asked.
ASKED: list[Any] = []


class Listening(torch.Tensor):
    """Takes notes of what it is asked, and compares it with what torch has."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        named = getattr(func, "__name__", ""), getattr(getattr(func, "__self__", None), "__name__", "")
        ASKED.append((named, func == torch.Tensor.grad.__set__, func == torch.Tensor.grad.__get__))
        return super().__torch_function__(func, types, args, kwargs or {})


class Refusing(torch.Tensor):
    """Lets nobody set anything that is torch's."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") == "__set__":
            return None
        return super().__torch_function__(func, types, args, kwargs or {})


class Setting(torch.Tensor):
    """Has its own `__setattr__`."""

    def __setattr__(self, name, value):
        ASKED.append(name)
        super().__setattr__(name, value)


class Owning(torch.Tensor):
    """Has a `grad` of its own, over torch's."""

    @property
    def grad(self):
        ASKED.append("get")
        return torch.Tensor.grad.__get__(self)

    @grad.setter
    def grad(self, value):
        ASKED.append("set")
        torch.Tensor.grad.__set__(self, value)


class Unasked(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


CLASSES = [Plain, Unit, Listening, Refusing, Setting, Owning, Unasked, Parameter]


def leaf(cls: type, size: int, differentiates: bool = True) -> Any:
    made = torch.Tensor._make_subclass(cls, count(size, size))
    with torch._C.DisableTorchFunction():
        torch.Tensor.requires_grad.__set__(made, differentiates)
    return made


def told(x: Any) -> list[Any]:
    """What autograd has of it."""
    with torch._C.DisableTorchFunction():
        return [torch.Tensor.requires_grad.__get__(x), torch.Tensor.is_leaf.__get__(x), torch.Tensor.grad.__get__(x)]


def outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    ASKED.clear()
    try:
        result = fn(*args)
    except Exception as error:
        result = (type(error), str(error))
    return [result, list(ASKED), list(args), *map(told, args)]


def sets_grad(x):
    x.grad = torch.ones(x.shape)
    return x.grad * 2, type(x.grad)


def sets_grad_to_none(x):
    x.grad = None
    return x.detach() + 1


def accumulates(x):
    (x * x).sum().backward()
    x.grad = x.grad * 2
    (x * x).sum().backward()
    found = x.grad
    x.grad = None
    return found


def steps(x):
    (x * x).sum().backward()
    x.data = x.data - 0.1 * x.grad
    return x.grad


def steps_in_place(x):
    (x * x).sum().backward()
    with torch.no_grad():
        x -= 0.1 * x.grad
    x.grad.zero_()
    return x.detach() * 1


def sets_data(x):
    x.data = torch.ones(x.shape)
    return x.detach() + 1


def requires_none(x):
    x.requires_grad_(False)
    return x * 2, x.requires_grad


def made_leaf(x):
    y = x.detach().requires_grad_()
    (y * y).sum().backward()
    return y.grad, type(y.grad)


def made_gradient(x):
    y = (x * 2).detach()
    y.grad = torch.ones(y.shape)
    return y.grad


PROGRAMS = [
    sets_grad, sets_grad_to_none, accumulates, steps, steps_in_place, sets_data, requires_none, made_leaf, made_gradient,
]  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("cls", CLASSES)
def test_what_autograd_knows_is_set_and_the_class_is_asked_as_in_eager(cls: type, fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    for size in (3, 3, 4, 5):
        wanted, found = outcome(fn, (leaf(cls, size),)), outcome(compiled, (leaf(cls, size),))
        assert alike(wanted, found), (wanted, found)
    raises = isinstance(wanted[0], tuple) and wanted[0][0] in (RuntimeError, TypeError)
    assert compiled.session.report.break_count == 0 or raises


@pytest.mark.parametrize("cls", [Plain, Listening, Setting, Owning])
def test_what_becomes_a_leaf_with_gradients_within(cls: type) -> None:
    def fn(x):
        x.requires_grad = True
        (x * x).sum().backward()
        return x.grad, x.requires_grad

    compiled = capture.compile(fn, fullgraph=True)
    for size in (3, 3, 4):
        wanted, found = outcome(fn, (leaf(cls, size, False),)), outcome(compiled, (leaf(cls, size, False),))
        assert alike(wanted, found), (wanted, found)


def test_a_tensor_of_torchs_own_gets_what_is_one_of_a_class() -> None:
    def fn(x, y, z):
        x.grad = y
        z.data = y
        return x.grad is y, z + 1

    compiled = capture.compile(fn, fullgraph=True)
    for cls in (Plain, MorePlain, Plain):
        args = [(torch.ones(3, 3, requires_grad=True), count(3, 3).as_subclass(cls), torch.ones(3, 3)) for _ in "ab"]
        wanted, found = outcome(fn, args[0]), outcome(compiled, args[1])
        assert alike(wanted, found), (wanted, found)


def test_hooks_of_a_leaf_are_looked_for_without_asking_its_class() -> None:
    compiled = capture.compile(lambda x: torch.autograd.grad((x * x).sum(), x), fullgraph=True)
    for _ in range(2):
        ASKED.clear()
        compiled(leaf(Listening, 3))
        assert [name for (name, _), *_ in ASKED] == ["mul", "sum", "grad"], ASKED


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_data_that_is_of_inference_mode(around: Any) -> None:
    def fn(x, y):
        x.data = y
        x.add_(1)
        return x + 1, x.is_inference(), y.is_inference()

    def makes(x, y):
        x.data = torch.ones(x.shape)
        return x + y, 1

    def args(first: bool, second: bool) -> tuple[Any, Any]:
        with torch.inference_mode(first):
            x = count(3)
        with torch.inference_mode(second):
            return x, count(3)

    def tried(each: Any, given: tuple[Any, Any]) -> Any:
        with around():
            try:
                found = each(*given)
            except RuntimeError as error:
                return str(error)
            numbers = [one.tolist() if isinstance(one, torch.Tensor) else one for one in (*found, *given)]
            return numbers, [one.is_inference() for one in given]

    for program in (fn, makes):
        compiled = capture.compile(program)
        for kinds in ((False, False), (False, True), (True, False), (True, True)):
            assert tried(compiled, args(*kinds)) == tried(program, args(*kinds))


def test_data_of_what_was_made_in_inference_mode_is_written_to() -> None:
    def fn(x):
        y = x * 2
        y.data.add_(1)
        return y

    compiled = capture.compile(fn, fullgraph=True)
    with torch.inference_mode():
        assert torch.equal(compiled(count(3)), fn(count(3)))


def test_the_first_of_all_operations_on_such_a_tensor_breaks_no_graph() -> None:
    # What torch never wraps is a table that a function remembers, which reads descriptors of the class to make it.
    torch.overrides.get_default_nowrap_functions.cache_clear()
    compiled = capture.compile(lambda x: x * 2, fullgraph=True)
    assert type(compiled(count(3).as_subclass(Plain))) is Plain


def test_what_reads_an_attribute_is_itself_where_the_class_is_asked() -> None:
    def fn(x):
        reads = torch.Tensor.grad
        return reads.__get__(x), reads is torch.Tensor.grad, torch.Tensor.shape.__get__(x), torch.Tensor.data

    compiled = capture.compile(fn, fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    assert compiled(x) == fn(x) == (None, True, (3,), torch.Tensor.data)


def test_a_method_has_no_self_before_it_is_bound() -> None:
    def fn(x):
        return getattr(torch.Tensor.add, "__self__", 5) + x

    assert torch.equal(capture.compile(fn, fullgraph=True)(torch.ones(3)), torch.full((3,), 6.0))


class Doubling(torch.autograd.Function):
    """Its backward runs outside of graphs of such tensors."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ASKED.append("backward")
        return gradient * 2


def leaf_before_a_break(x):
    y = x.detach().requires_grad_()
    found = Doubling.apply(y)
    found.sum().backward()
    return y.grad, y.is_leaf, y.requires_grad


def leaf_that_leaves(x):
    y = x.detach().clone().requires_grad_()
    (y * y).sum().backward()
    return y


@pytest.mark.parametrize("fn", [leaf_before_a_break, leaf_that_leaves])
@pytest.mark.parametrize("cls", [Plain, Unit, Listening, torch.Tensor])
def test_a_leaf_that_was_made_leaves_as_one(cls: type, fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    for size in (3, 3, 4):
        args = count(size).as_subclass(cls), count(size).as_subclass(cls)
        wanted, found = outcome(fn, args[:1]), outcome(compiled, args[1:])
        assert alike(wanted, found), (wanted, found)
        if fn is leaf_that_leaves:
            assert alike(told(wanted[0]), told(found[0]))


@pytest.mark.parametrize("cls", [torch.Tensor, Plain])
def test_a_leaf_that_was_another_as_it_was_computed_with(cls: type) -> None:
    def fn(x):
        y = x * 2
        x.data = x.data * 2
        (x * y).sum().backward()
        return x.grad

    compiled = capture.compile(fn)
    for size in (3, 3, 4):
        wanted, found = outcome(fn, (leaf(cls, size),)), outcome(compiled, (leaf(cls, size),))
        assert alike(wanted, found), (wanted, found)


def test_forward_mode_asks_the_class_of_what_is_computed_in_it() -> None:
    class Adding(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            func = torch.Tensor.add if func is torch.Tensor.mul else func
            return super().__torch_function__(func, types, args, kwargs or {})

    def fn(x, y):
        return torch.func.jvp(lambda t: t * 3, (x,), (y,))

    compiled = capture.compile(fn)
    for size in (3, 3, 4):
        for first, second in ((Adding, Adding), (torch.Tensor, Adding), (torch.Tensor, torch.Tensor)):
            args = count(size).as_subclass(first), count(size).as_subclass(second)
            assert alike(compiled(*args), fn(*args))


class Slotted(torch.Tensor):
    """Has slots, one of which goes over to what is computed."""

    __slots__ = ("other", "unit")

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(found, Slotted) and isinstance(args[0], Slotted) and hasattr(args[0], "unit"):
            found.unit = args[0].unit
        return found


def reads_slot(x):
    return getattr(x, "unit", "none"), x * 2


def must_have(x):
    try:
        return x.unit, x + 1
    except AttributeError as error:
        return str(error), x + 2


def fills_slots(x):
    x.other = x * 3
    y = x * 2
    y.other = "made"
    x.unit = "k"
    return y, x.other, (x + 1).unit


def computes_with(x):
    return x * x.unit if isinstance(getattr(x, "unit", None), float | torch.Tensor) else x + 0


def slots(x: Any) -> Any:
    return [getattr(x, name, "empty") for name in Slotted.__slots__]


@pytest.mark.parametrize("fn", [reads_slot, must_have, fills_slots, computes_with])
def test_slots_of_a_class(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn, fullgraph=True)
    for held in ("a", "b", None, 2.5, torch.full((3,), 4.0), "a", None):
        found = []
        for each in (fn, compiled):
            x = count(3).as_subclass(Slotted)
            if held is not None:
                x.unit = held
            result = each(x)
            results = result if isinstance(result, tuple) else (result,)
            found.append([result, slots(x), [slots(one) for one in results if isinstance(one, Slotted)]])
        assert alike(*found), found


def test_a_class_that_answers_for_what_it_lacks_is_not_asked_at_capture() -> None:
    class Answering(torch.Tensor):
        def __getattr__(self, name):
            ASKED.append(name)
            return 5

    compiled = capture.compile(lambda x: x * 2, fullgraph=True)
    for size in (3, 4):
        x = count(size).as_subclass(Answering)
        ASKED.clear()
        compiled(x)
        assert ASKED == []
