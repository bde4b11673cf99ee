"""An `if` on what a tensor holds whose arms only compute is one graph; what does more, or could be seen to, breaks; all as in eager mode."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import capture

W = torch.tensor([0.5, -1.5, 2.0])
KEPT: list[Any] = []


class Held:
    """Holds something."""

    numbers: Iterator[int]


def program(into: dict[str, Any]) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        into[function.__name__] = function
        return function

    return add


#: Captured whole; and those that break.
WHOLE: dict[str, Any] = {}
BROKEN: dict[str, Any] = {}
#: Captured whole without gradients; with them the argument is a leaf, which is another thing than what is computed from it.
WHOLE_WITHOUT_GRADIENTS: dict[str, Any] = {}

whole, broken, whole_without_gradients = map(program, (WHOLE, BROKEN, WHOLE_WITHOUT_GRADIENTS))


# One graph


@whole
def clamped(x: Tensor) -> Any:
    h = x * 2
    if torch.isinf(h).any() or torch.isnan(h).any():
        value = torch.finfo(h.dtype).max - 1000
        h = torch.clamp(h, min=-value, max=value)
    return h + 1


@whole
def with_an_else(x: Tensor) -> Any:
    h = x.sin()
    if h.sum() > 0:
        h = h * W
    else:
        h = h - 1
    return h


@whole
def what_is_known_of_other_tensors_stays(x: Tensor) -> Any:
    layers, h = torch.tensor(2), x * 2
    for _ in range(2):
        if not torch.isfinite(h).all():
            h = torch.clamp(h, min=-1.0, max=1.0)
        if torch.rand([]) < 0.0:
            h.mul_(100.0)
        if layers > 1:
            h = h + 1
    return h


@whole
def an_expression(x: Tensor) -> Any:
    return (x.cos() if x.sum() > 0 else x.sin()) * 2


@whole
def an_early_return(x: Tensor) -> Any:
    if x.sum() > 0:
        return x * 2
    y = x - 1
    return y.exp()


@whole_without_gradients
def what_it_was_given(x: Tensor) -> Any:
    if x.sum() > 0:
        x = x * 2
    return x


@whole
def in_a_loop(x: Tensor) -> Any:
    for i in range(3):
        x = x + i
        if x.sum() > i and x.max() > 1:
            x = x * 0.5
    return x


@whole
def else_ifs(x: Tensor) -> Any:
    if x.sum() > 3:
        y = x * 2
    elif x.sum() > 0:
        y = x * 3
    elif x.sum() > -3:
        y = x * 4
    else:
        y = x * 5
    return y, x


@whole
def nested(x: Tensor) -> Any:
    y = x * 1.5
    if x.sum() > 0:
        if x.max() > 1:
            y = y.sin()
        y = y + 1
    return y


@whole
def a_value_of_or(x: Tensor) -> Any:
    return ((x.sum() > 0) or (x.max() > 2)) & True


@whole
def mixed_conditions(x: Tensor) -> Any:
    if (x.sum() > 0 and x.max() > 1) or x.min() < -2:
        return x * 2
    return x * 3


@whole
def many_conditions(x: Tensor) -> Any:
    y = x * 3
    if not (x.sum() > 0) or x.max() > 1 or not x.min() < -2:
        y = x * 2
    return y


@whole
def numbers_as_conditions(x: Tensor) -> Any:
    y = x * 3
    if (x > 0).sum() and x[0]:
        y = x * 2
    return y


@whole
def swapped(x: Tensor) -> Any:
    a, b = x * 2, x * 3
    if x.sum() > 0:
        a, b = b, a
    return a - b, a


@whole
def both_names_handed_out(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    return y, h


@whole
def a_view(x: Tensor) -> Any:
    y = h = x.repeat(3).reshape(3, 3)
    h = h.t() if x.sum() > 0 else h.flip(0).t()
    return y, h


@whole
def a_tuple(x: Tensor) -> Any:
    pair = (x + 1, x * 2) if x.sum() > 0 else (x.sin(), x.cos())
    a, b = pair
    return a * b, pair


@whole
def one_for_two(x: Tensor) -> Any:
    a, b = x.sin(), x.cos()
    if x.sum() > 0:
        a = b = x + 1
    return a, b


@whole
def a_dead_variable(x: Tensor) -> Any:
    y = x * 2
    if x.sum() > 0:
        factor, words = 3, "three"
        y = y * factor if words else y
    return y


@whole
def in_functions(x: Tensor) -> Any:
    def inner(y: Tensor) -> Tensor:
        if y.sum() > 0:
            return y * 2
        return y / 2

    return inner(x) + inner(x - 1)


@whole
def writes_its_own(x: Tensor) -> Any:
    y = x * 2
    if x.sum() > 0:
        y = y + 1
        y.mul_(2)
    else:
        y = torch.empty_like(y).fill_(1) * y
    return y


@whole
def without_gradients(x: Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
        if x.sum() > 0:
            y = y + 1
    return y * x


@whole
def within_try(x: Tensor) -> Any:
    y = x * 2
    try:
        if x.sum() > 0:
            y = y + 1
    finally:
        y = y * 2
    return y


@whole
def deleted(x: Tensor) -> Any:
    y, z = x * 2, x * 3
    if x.sum() > 0:
        y = y + z
        del z
    return y


@whole
def what_only_one_uses(x: Tensor) -> Any:
    y, z = x[:1] * 2, x[1:2] * 3
    h = y * 2 if x.sum() > 0 else z * 3
    return h + 1


@whole
def by_a_number(x: Tensor) -> Any:
    y = x * 2
    if torch.isinf(y).any().item():
        y = y + 1
    if x.sum().item() > 1:
        y = torch.clamp(y, -5, 5)
    return y.sin() if bool(x.max() > 1) else y


@whole
def in_comprehensions_and_generators(x: Tensor) -> Any:
    parts = [t * 2 if t > 0 else t * 3 for t in x * 1]
    total = sum(t * 2 if t > 0 else t * 3 for t in x * 1)
    return parts, total, list(map(with_an_else, x.expand(2, 3)))


# Breaks


@broken
def which_tuple_it_is(x: Tensor) -> Any:
    pair = (x * 2, x * 3)
    if x.sum() > 0:
        taken = pair
    else:
        taken = (x * 2, x * 3)
    return taken[0] * (2 if taken is pair else 3)


@broken
def which_integer_it_is(x: Tensor) -> Any:
    many = int("1" + "000")
    if x.sum() > 0:
        taken = many
    else:
        taken = 1000
    return x * (2 if taken is many else 3)


@broken
def detached_by_a_function(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    torch.detach_(h)
    return x * (2 if y.requires_grad else 3)


@broken
def detached_by_an_overload(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    torch.ops.aten.detach_.default(h)
    return x * (2 if y.requires_grad else 3)


@whole
def one_tuple_by_two_names(x: Tensor) -> Any:
    if x.sum() > 0:
        one = other = (x * 2, x * 3)
    else:
        one = other = (x * 4, x * 5)
    return one[0] * (2 if one is other else 3) + other[1]


@broken
def an_inverse_that_there_may_not_be(x: Tensor) -> Any:
    m = x.diag() * (x.isfinite() & (x > 0))
    if torch.det(m) != 0 and torch.linalg.inv(m).sum() > 0:
        x = x * 2
    return x + 1


@broken
def places_that_may_not_be(x: Tensor) -> Any:
    places = (x.nan_to_num(0, 1, 1) * 2).long()
    if places.abs().max() < 3 and torch.arange(3.0)[places].sum() > 0:
        x = x * 2
    return x + 1


@broken
def while_it_lasts(x: Tensor) -> Any:
    while x.sum() < 10:
        x = x + x.abs() + 1
    return x


@broken
def another_shape(x: Tensor) -> Any:
    return x + 1 if x.sum() > 0 else x[:1] + 1


@broken
def another_dtype(x: Tensor) -> Any:
    return x + 1 if x.sum() > 0 else (x + 1).double()


@broken
def other_strides(x: Tensor) -> Any:
    y = x.repeat(3).reshape(3, 3)
    return y * 2 if x.sum() > 0 else y.t() * 2


@broken
def with_and_without_gradients(x: Tensor) -> Any:
    return x * 2 if x.sum() > 0 else x.detach()[:2].repeat(2)[:3].half()


@broken
def another_number(x: Tensor) -> Any:
    factor = 2.0
    if x.sum() > 0:
        factor = 3.0
    return x * factor


@broken
def appends(x: Tensor) -> Any:
    found = [x]
    if x.sum() > 0:
        found.append(x + 1)
    return found


@broken
def writes_to_what_was_there(x: Tensor) -> Any:
    y = x * 2
    if x.sum() > 0:
        y.add_(1)
    return y


@broken
def sets_a_global(x: Tensor) -> Any:
    if x.sum() > 0:
        KEPT.append(1)
    return x + len(KEPT[:0])


@broken
def draws(x: Tensor) -> Any:
    y = x * 2
    if x.sum() > 0:
        y = y + torch.rand(3)
    return y


@broken
def sets_a_closure(x: Tensor) -> Any:
    y = x * 2

    def read() -> Tensor:
        return y + 1

    if x.sum() > 0:
        y = y * 3
    return read()


@broken
def a_variable_without_a_value(x: Tensor) -> Any:
    if x.sum() > 0:
        y = x + 1
    try:
        return y * 2
    except UnboundLocalError:
        return x * 3


@broken
def raises(x: Tensor) -> Any:
    y = x * 2
    try:
        y = y + 1 if x.sum() > 0 else y.nothing
    except AttributeError:
        y = y - 1
    return y


# What is handed on is the same object, or in the same memory


@broken
def written_afterwards(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    h.mul_(3)
    return y + h


@broken
def the_other_name_is_written(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    y.mul_(3)
    return y + h


@broken
def a_view_is_written(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    h[0] = 7
    return y + h


@broken
def a_view_is_given_and_written(x: Tensor) -> Any:
    y = x.repeat(3).reshape(3, 3)
    h = y.t() if x.sum() > 0 else y.flip(0).t()
    h[0] = 7
    return y + h


@broken
def two_in_one_memory(x: Tensor) -> Any:
    y = x.repeat(2) * 2
    a, b = (y[:3], y[1:4]) if x.sum() > 0 else (y[:3] * 2, y[3:] * 3)
    a.add_(1)
    return a, b


@broken
def is_asked(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    return h + 1 if h is y else h + 2


@broken
def in_a_dictionary(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    return x * len({y: 1, h: 2})


@broken
def an_attribute(x: Tensor) -> Any:
    y = h = x * 2
    y.named = 3
    if x.sum() > 0:
        h = h + 1
    return h * getattr(h, "named", 4)


@broken
def an_attribute_set(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    h.named = 3
    return h * getattr(y, "named", 4)


@broken
def its_id(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    return h * len({id(y), id(h)})


@broken
def its_version(x: Tensor) -> Any:
    y = h = x * 2
    y.add_(1)
    if x.sum() > 0:
        h = h + 1
    return h * h._version


@broken
def its_offset(x: Tensor) -> Any:
    y = x.repeat(4)
    h = y[3:6]
    if x.sum() > 0:
        h = h * 2
    return h * h.storage_offset()


@broken
def what_lies_before_it(x: Tensor) -> Any:
    y = x.repeat(4)
    h = y[3:6]
    if x.sum() > 0:
        h = h * 2
    return h.as_strided((2,), (1,), 0)


@broken
def written_by_an_argument(x: Tensor) -> Any:
    y = h = x.detach() * 2
    if x.sum() > 0:
        h = h + 1
    torch.add(x.detach(), 1, out=h)
    return y, h


@broken
def its_data_is_written(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    h.data.mul_(2)
    return y * 1, h * 1


@broken
def running_statistics(x: Tensor) -> Any:
    mean = h = torch.zeros(3)
    if x.sum() > 0:
        h = h + 1
    y = nn.functional.batch_norm(x.expand(4, 3), h, torch.ones(3), training=True)
    return y, mean, h


@broken
def detached_in_place(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    h.detach_()
    return h * x + y


@broken
def made_a_leaf(x: Tensor) -> Any:
    y = h = (x * 2).detach()
    if x.sum() > 0:
        h = h + 1
    h.requires_grad_()
    return h * 2, y


@broken
def turned_in_place(x: Tensor) -> Any:
    y = h = x.repeat(3).reshape(3, 3) * 2
    if x.sum() > 0:
        h = h + 1
    h.t_()
    return y + h


@broken
def of_a_generator(x: Tensor) -> Any:
    def parts() -> Iterator[Tensor]:
        y = x * 2
        if x.sum() > 0:
            y = y + 1
        yield y
        yield y * 2

    found = x
    for part in parts():
        found = found + part
    return found


@broken
def the_offset_of_a_new_view(x: Tensor) -> Any:
    h = (x * 2)[1:] if x.sum() > 0 else (x * 3)[1:]
    return h * h.storage_offset()


@broken
def the_version_of_what_an_arm_wrote(x: Tensor) -> Any:
    y = x * 2
    if x.sum() > 0:
        y = y + 1
        y.mul_(2)
    return y * y[:]._version


@broken
def begins_to_require_grad(x: Tensor) -> Any:
    y = x.detach() * 2
    if x.sum() > 0:
        y.requires_grad_()
    return y


@broken
def an_iterator_of_an_object(x: Tensor) -> Any:
    held = Held()
    held.numbers = iter([1, 2, 3])
    y = x * 2
    if x.sum() > 0:
        y = y * next(held.numbers)
    return y * next(held.numbers)


@broken
def an_iterator_that_is_a_default(x: Tensor) -> Any:
    def factor(numbers: Iterator[int] = iter([1, 2, 3])) -> int:
        return next(numbers)

    y = x * 2
    if x.sum() > 0:
        y = y * factor()
    return y * factor()


@broken
def rows_of_a_product(x: Tensor) -> Any:
    rows = itertools.product([1, 2, 3], [4, 5])
    y = x * 2
    if x.sum() > 0:
        y = y * next(rows)[1]
    return y * next(rows)[1]


@broken
def the_method_of_an_iterator(x: Tensor) -> Any:
    number = iter([1, 2, 3]).__next__
    y = x * 2
    if x.sum() > 0:
        y = y * number()
    return y * number()


@broken
def a_generator_of_an_object(x: Tensor) -> Any:
    held = Held()
    held.numbers = (each for each in range(1, 5))
    y = x * 2
    if x.sum() > 0:
        y = y * next(held.numbers)
    return y * next(held.numbers)


def its_address(x: Tensor) -> Any:
    y = h = x * 2
    if x.sum() > 0:
        h = h + 1
    return h + (1 if h.data_ptr() == y.data_ptr() else 2)


def inputs() -> Iterator[Tensor]:
    for factor in (1.0, -1.0, 10.0, -10.0):
        yield torch.tensor([0.3, 0.4, -0.1]) * factor
    yield torch.tensor([float("inf"), 1, 2])
    yield torch.tensor([float("nan"), 1, 2])
    yield torch.tensor([-3.0, 5, 1])


def flat(found: Any) -> list[Tensor]:
    return [each for part in found for each in flat(part)] if isinstance(found, (tuple, list)) else [found]


def run(function: Any, x: Tensor, differentiates: bool) -> tuple[Any, ...]:
    x = x.clone().requires_grad_(differentiates)
    torch.manual_seed(0)
    found = function(x)
    tensors = flat(found)
    shared = [[a is b for b in tensors] for a in tensors]
    needing = [each for each in tensors if each.requires_grad]
    if needing:
        sum((each * each).sum() for each in needing).backward()
    facts = [(each.requires_grad, each.is_leaf, each.stride()) for each in tensors]
    return found, shared, facts, x.grad


def compared(function: Any, compiled: Any, differentiates: bool) -> None:
    for x in inputs():
        if function is while_it_lasts and not x.isfinite().all():
            continue
        wanted, found = run(function, x, differentiates), run(compiled, x, differentiates)
        assert found[1:3] == wanted[1:3]
        torch.testing.assert_close((found[0], found[3]), (wanted[0], wanted[3]), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("differentiates", [False, True])
@pytest.mark.parametrize("name", [*WHOLE, *WHOLE_WITHOUT_GRADIENTS])
def test_arms_that_compute_are_one_graph(name: str, differentiates: bool) -> None:
    function = (WHOLE | WHOLE_WITHOUT_GRADIENTS)[name]
    compiled = capture.compile(function)
    compared(function, compiled, differentiates)
    report = capture.report(compiled)
    breaks = differentiates and name in WHOLE_WITHOUT_GRADIENTS
    assert (bool(report.breaks), report.frames == 1) == (breaks, not breaks)


@pytest.mark.parametrize("differentiates", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_arms_that_do_more_break(name: str, differentiates: bool) -> None:
    compiled = capture.compile(BROKEN[name])
    compared(BROKEN[name], compiled, differentiates)
    assert "branch on a tensor's value" in {each.reason for each in capture.report(compiled).breaks}


@pytest.mark.parametrize("differentiates", [False, True])
def test_a_break_afterwards_finds_what_was_handed_on(differentiates: bool) -> None:
    compiled = capture.compile(its_address)
    compared(its_address, compiled, differentiates)
    assert {each.reason for each in capture.report(compiled).breaks} == {"Tensor.data_ptr()"}


@pytest.mark.parametrize("name", BROKEN)
def test_arms_that_do_more_are_no_whole(name: str) -> None:
    with pytest.raises(capture.GraphBreakError):
        capture.compile(BROKEN[name], fullgraph=True)(torch.ones(3))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(x)
        h = self.first(h) if h.sum() > 0 else self.second(h)
        return h * 2


def test_an_arm_that_is_not_gone_gives_no_gradient() -> None:
    module = Gated()
    compiled = capture.compile(module, fullgraph=True)
    for sign in (1, -1):
        x = torch.full((2, 3), float(sign))
        gradients = []
        for each in (module, compiled):
            module.zero_grad()
            each(x).sum().backward()
            gradients.append([parameter.grad for parameter in module.parameters()])
        assert [each is None for each in gradients[0]] == [each is None for each in gradients[1]]
        assert sum(each is None for each in gradients[1]) == 2
        torch.testing.assert_close(gradients[1], gradients[0])


def test_an_arm_that_detaches_in_place_breaks() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2
        if x.sum() > 0:
            y.detach_()
        return y * x

    compiled = capture.compile(program)
    compared(program, compiled, True)
    assert "branch on a tensor's value" in {each.reason for each in capture.report(compiled).breaks}


@pytest.mark.parametrize("after", [False, True])
def test_hooks_on_what_is_handed_on(after: bool) -> None:
    def program(x: Tensor) -> Tensor:
        y = h = x * 2
        if not after:
            y.register_hook(lambda gradient: gradient * 3)
        if x.sum() > 0:
            h = h + 1
        if after:
            h.register_hook(lambda gradient: gradient * 3)
        return h * y

    compiled = capture.compile(program)
    compared(program, compiled, True)
    assert "branch on a tensor's value" in {each.reason for each in capture.report(compiled).breaks}


def test_ways_that_part_again_and_again_are_not_all_gone() -> None:
    text = "def program(x):\n    y = x * 2\n"
    for i in range(14):
        text += f"    if y.sum() > {i}:\n        if y.max() > {50 + i}: return y\n        y = y + 1\n"
    space: dict[str, Any] = {}
    exec(text + "    return y.sin()\n", space)
    compiled = capture.compile(space["program"])
    compared(space["program"], compiled, False)
    assert sum(graph.op_count for graph in capture.report(compiled).graphs) < 1000


@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
def test_in_inference_mode(name: str) -> None:
    function = (WHOLE | BROKEN)[name]
    if name in (
        "its_version",
        "detached_in_place",
        "made_a_leaf",
        "the_version_of_what_an_arm_wrote",
        "begins_to_require_grad",
    ):
        pytest.skip("eager refuses it")
    compiled = capture.compile(function)
    with torch.inference_mode():
        compared(function, compiled, False)
        report = capture.report(compiled)
    if name in BROKEN:
        assert report.breaks or report.skipped
    elif name not in ("without_gradients",):
        assert (report.breaks, report.frames) == ([], 1)


def test_arms_do_not_keep_parameters_from_being_frozen() -> None:
    class Guarded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = self.layer(x)
            if h.isinf().any():
                h = h.clamp(-5, 5)
            return h * 2

    compiled = capture.compile(Guarded(), freeze=True)
    with torch.no_grad():
        compiled(torch.ones(3))
    graphs = capture.report(compiled).graphs
    assert graphs[0].frozen and not graphs[0].unfrozen


def test_an_operator_of_the_programs_own_is_called_where_it_would_be() -> None:
    called: list[int] = []

    @torch.library.custom_op("arms::told", mutates_args=())
    def told(x: Tensor) -> Tensor:
        called.append(1)
        return x > 0

    @told.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x, dtype=torch.bool)

    def program(x: Tensor) -> Tensor:
        y = x * 2
        if x.sum() > 0 and told(x).any():
            y = y + 1
        return y

    compiled = capture.compile(program)
    for sign in (1, -1, 1):
        x = torch.full((3,), float(sign))
        called.clear()
        assert torch.equal(compiled(x), program(x))
        assert len(called) == (2 if sign > 0 else 0)


def test_a_parameter_is_not_handed_on() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(3)), nn.Parameter(-torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return self.a if x.sum() > 0 else self.b

    module = Chosen()
    compiled = capture.compile(module)
    for x in (torch.ones(3), -torch.ones(3)):
        assert compiled(x) is module(x)


def test_what_remembers_is_not_asked_in_an_arm_that_is_not_gone() -> None:
    import functools

    asked: list[int] = []

    @functools.lru_cache
    def factor(k: int) -> int:
        asked.append(k)
        return k + 1

    def remembering(x: Tensor) -> Tensor:
        y = x * 2
        if x.sum() > 0:
            y = y * factor(3)
        return y

    compiled = capture.compile(remembering)
    assert torch.equal(compiled(-torch.ones(3)), -2 * torch.ones(3))
    assert asked == []
    assert torch.equal(compiled(torch.ones(3)), 8 * torch.ones(3))
    assert asked == [3]


def test_a_lazy_module_is_not_made_in_an_arm_that_is_not_gone() -> None:
    lazy = nn.LazyLinear(3)

    def program(x: Tensor) -> Tensor:
        y = x * 2
        if x.sum() > 0:
            y = lazy(y)
        return y

    compiled = capture.compile(program)
    compiled(-torch.ones(3))
    assert lazy.has_uninitialized_params()
    assert compiled(torch.ones(3)).shape == (3,)


def test_what_lets_go_of_an_object_lets_go_when_it_would() -> None:
    def letting_go(x: Tensor, seen: list[bool]) -> Tensor:
        y = x * 2
        told = weakref.ref(y)
        if x.sum() > 0:
            y = y + 1
        seen.append(told() is None)
        return y

    compiled = capture.compile(letting_go)
    for x in (torch.ones(3), -torch.ones(3)):
        wanted: list[bool] = []
        found: list[bool] = []
        assert torch.equal(compiled(x, found), letting_go(x, wanted))
        assert found == wanted


def test_a_context_around_sees_each_arm() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2
        with contextlib.nullcontext(), torch.no_grad():
            if x.sum() > 0:
                y = y.detach() + 1
            else:
                y = y.detach() - 1
        return y * x

    compiled = capture.compile(program, fullgraph=True)
    compared(program, compiled, True)


def test_the_graph_says_what_it_chooses_from() -> None:
    compiled = capture.compile(clamped, fullgraph=True)
    compiled(torch.ones(3))
    (graph,) = capture.report(compiled).graphs
    names = [node.name for node in graph.module.graph.nodes if node.op.startswith("call")]
    assert names == ["mul", "isinf", "any_1", "isnan", "any_2", "logical_or", "branch", "getitem", "add"]


def test_a_call_of_an_equal_layer_asks_anew_what_is_handed_on() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.inner(x) * (2 if x is y else 3)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.ModuleList(Layer() for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers[:3]:
                x = layer(x * 1, x * 1)
            y = h = x * 2
            if x.sum() > 0:
                h = h * 1
            return self.layers[3](y, h)

    model = Model()
    compiled = capture.compile(model)
    for sign in (1, -1):
        x = torch.full((2, 3), float(sign))
        torch.testing.assert_close(compiled(x), model(x))
