"""Attributes that a frame sets in classes from outside: what is found there afterwards, within the frame and without."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture


class Plain:
    flag = False
    factor = 2.0
    given: Any

    def scaled(self, x: Any) -> Any:
        return x * self.factor if self.flag else x


class Below(Plain):
    pass


class Far(Below):
    factor = 5.0


class Setting:
    """As libraries have them: a class method sets what another asks for."""

    _state = False

    def __init__(self, state: bool = True) -> None:
        self.before, self.state = self.on(), state

    @classmethod
    def on(cls) -> bool:
        return cls._state

    @classmethod
    def _set(cls, state: bool) -> None:
        cls._state = state

    def __enter__(self) -> None:
        self._set(self.state)

    def __exit__(self, *error: object) -> None:
        self._set(self.before)


class Fast(Setting):
    pass


class Layer(torch.nn.Module):
    doubled = False

    def forward(self, x: Any) -> Any:
        return x * 2 if self.doubled else x


LAYER, PLAIN, BELOW = Layer(), Plain(), Below()
CLASSES = (Plain, Below, Far, Setting, Fast, Layer)


def state() -> list[dict[str, Any]]:
    return [
        {
            name: value
            for name, value in vars(cls).items()
            if not name.startswith("__") and not isinstance(value, classmethod | Callable)  # type: ignore[arg-type]
        }
        for cls in CLASSES
    ]


@pytest.fixture(autouse=True)
def as_they_were() -> Iterator[None]:
    before = [dict(vars(cls)) for cls in CLASSES]
    yield
    put_back(before)


def put_back(before: list[dict[str, Any]]) -> None:
    for cls, entries in zip(CLASSES, before, strict=True):
        for name in [*vars(cls)]:
            if name not in entries:
                delattr(cls, name)
        for name, value in entries.items():
            if vars(cls)[name] is not value:
                setattr(cls, name, value)


def set_and_put_back(x: Any) -> Any:
    Plain.flag = True
    try:
        return PLAIN.scaled(x) + BELOW.scaled(x) + Far().scaled(x)
    finally:
        Plain.flag = False


def left_set(x: Any) -> Any:
    made = x * 3 if Plain.flag else x
    Plain.flag = not Plain.flag
    return made + Plain().scaled(x)


def a_setting(x: Any) -> Any:
    with Setting():
        y = x * 2 if Fast.on() else x * 3
    return y + 5 if Fast.on() else y + 7


def settings_within_settings(x: Any) -> Any:
    with Fast(), Setting(), Fast(False):
        y = x * 2 if Fast.on() else x * 3
        y = y + 1 if Setting.on() else y
    return y, Fast.on(), Setting.on()


def hidden_by_a_class_between(x: Any) -> Any:
    Below.factor = 3.0
    seen = Plain.factor, Below.factor, Far.factor, BELOW.factor, Far().factor
    Far.factor = 7.0
    return x * Far.factor, seen, super(Far, Far()).factor  # type: ignore[misc]


def numbers_that_count(x: Any) -> Any:
    Plain.factor += 1
    Plain.factor *= 2
    return x * 2


def tensors(x: Any) -> Any:
    Plain.given = x + 1
    return Plain.given * 2


def what_was_put_there_is_taken_away(x: Any) -> Any:
    setattr(Below, "given", x.shape[0])
    y = x * BELOW.given
    del Below.given
    return y, hasattr(Below, "given"), getattr(BELOW, "given", "none")


def own_attributes_hide_it(x: Any) -> Any:
    made = Plain()
    made.factor = 11.0
    Plain.factor = 13.0
    return x * made.factor * PLAIN.factor


def lists(x: Any) -> Any:
    Plain.given = []
    PLAIN.given.append(x)
    Below.given += [1]
    return Plain.given[0], len(Plain.given), Below.given is Plain.given


def a_raise_in_between(x: Any) -> Any:
    try:
        with Setting():
            Plain.factor = 4.0
            raise ValueError("no")
    except ValueError:
        return x * Plain.factor, Setting.on()


def of_modules(x: Any) -> Any:
    Layer.doubled = True
    y = LAYER(x)
    Layer.doubled = False
    return y + LAYER(x)


def read_before_it_is_set(x: Any) -> Any:
    before = hasattr(Plain, "given"), Below.factor
    Plain.given = 1
    Plain.factor = 6.0
    return x, before, Plain.given, Below.factor, operator.attrgetter("factor")(Plain)


def by_classes_made_here(x: Any) -> Any:
    class Made(Below):
        pass

    Plain.factor = 9.0
    y = x * Made.factor
    Made.factor = 2.0
    return y + Made().factor + Plain.factor


WHOLE = [
    set_and_put_back,
    left_set,
    a_setting,
    settings_within_settings,
    hidden_by_a_class_between,
    numbers_that_count,
    tensors,
    what_was_put_there_is_taken_away,
    own_attributes_hide_it,
    lists,
    a_raise_in_between,
    of_modules,
    read_before_it_is_set,
    by_classes_made_here,
]


def outcome(fn: Callable[[Any], Any]) -> list[str]:
    """What calls give and leave behind, with changes of the outside between them."""
    before, found = [dict(vars(cls)) for cls in CLASSES], []
    for change in (None, None, ("flag", True), ("factor", 8.0), ("given", 3), None):
        if change is not None:
            setattr(Plain, *change)
        try:
            result: Any = fn(torch.arange(3.0))
        except Exception as error:
            result = repr(error)
        found.append(f"{result} {state()}")
    put_back(before)
    return found


@pytest.mark.parametrize("program", WHOLE, ids=lambda each: each.__name__)
def test_what_a_frame_sets_in_classes_is_found_there(program: Any) -> None:
    expected = outcome(program)
    assert outcome(capture.compile(program, fullgraph=True)) == expected


class Slots:
    __slots__ = ("slot",)


class Meta(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, (value, value))


class Told(metaclass=Meta):
    value: Any = 1


def a_function(x: Any) -> Any:
    Plain.scaled, before = (lambda self, x: x * 100), Plain.scaled  # type: ignore[method-assign]
    try:
        return PLAIN.scaled(x)
    finally:
        Plain.scaled = before  # type: ignore[method-assign]


def a_property(x: Any) -> Any:
    Plain.given = property(lambda self: 7)
    y = x * PLAIN.given
    Plain.given = 0
    return y


def what_was_there_before(x: Any) -> Any:
    Plain.flag = True
    del Far.factor
    y = x * Far.factor
    Far.factor = 5.0
    return y


def a_break_in_between(x: Any) -> Any:
    with Setting():
        open("/dev/null").close()
        y = x * 2 if Fast.on() else x * 3
    return y + 5 if Fast.on() else y + 7


def seen_by_what_is_not_followed(x: Any) -> Any:
    Plain.factor = 4.0
    seen = dict(vars(Plain))["factor"]
    return x * seen


def by_a_metaclass(x: Any) -> Any:
    Told.value = 5
    return x, Told.value


@pytest.mark.parametrize(
    "program",
    [a_function, a_property, what_was_there_before, a_break_in_between, seen_by_what_is_not_followed, by_a_metaclass],
    ids=lambda each: each.__name__,
)
def test_what_is_not_followed_is_done_for_real(program: Any) -> None:
    expected = outcome(program)
    assert outcome(capture.compile(program)) == expected


def test_builtin_classes_say_that_they_cannot_be_changed() -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            int.flag = True  # type: ignore[attr-defined]
        except TypeError as error:
            return x + 1, str(error)

    assert str(capture.compile(program)(torch.ones(2))) == str(program(torch.ones(2)))


def test_a_function_that_remembers_sees_what_the_frame_has_set() -> None:
    @functools.lru_cache
    def remembered(n: int) -> float:
        return Plain.factor * n

    def program(x: torch.Tensor) -> torch.Tensor:
        Plain.factor = 3.0
        return x * remembered(2)

    expected = program(torch.ones(2))
    remembered.cache_clear()
    Plain.factor = 2.0
    assert torch.equal(capture.compile(program)(torch.ones(2)), expected)


def test_what_a_class_held_is_let_go() -> None:
    class Held:
        pass

    def program(x: torch.Tensor, seen: Any) -> Any:
        Plain.given = None
        return x + 1, seen() is None

    for compiled in (program, capture.compile(program)):
        Plain.given = Held()
        assert compiled(torch.ones(2), weakref.ref(Plain.given))[1]


def test_a_backward_reads_what_is_there_when_it_runs() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, by: Any) -> Any:
            return by * Plain.factor

    def program(x: torch.Tensor) -> torch.Tensor:
        Plain.factor = 3.0
        y = Scaled.apply(x)  # type: ignore[no-untyped-call]
        Plain.factor = 4.0
        return y.sum()  # type: ignore[no-any-return]

    for compiled in (program, capture.compile(program)):
        x = torch.ones(2, requires_grad=True)
        made = compiled(x)
        Plain.factor = 10.0
        made.backward()
        assert torch.equal(x.grad, torch.full((2,), 10.0))  # type: ignore[arg-type]


def test_a_class_that_is_like_another_is_known_by_what_it_is() -> None:
    def made() -> type:
        class Local:
            value = 1

        return Local

    def program(x: torch.Tensor, cls: Any) -> Any:
        cls.value = cls.value + 1
        return x * cls.value

    compiled = capture.compile(program)
    for _ in range(3):
        one, other = made(), made()
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(2), one), program(torch.ones(2), other))
        assert one.value == other.value == 3  # type: ignore[attr-defined]


class Counted:
    """Its instances are numbered."""

    made = 0
    weight = 1.5

    def __init__(self) -> None:
        type(self).made += 1
        self.number = self.made


class Numbered(Counted):
    """Counts by itself from the first one on."""


class CountingLayer(torch.nn.Module):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        CountingLayer.calls += 1
        return x * self.calls


def test_a_counter_in_a_class_is_a_number_of_the_graph() -> None:
    def number(x: torch.Tensor, cls: type) -> Any:
        return x * cls().number, Counted.made, cls.weight

    for cls in (Counted, Numbered):
        compiled = capture.compile(number)
        before = Counted.made
        for _ in range(8):
            expected = cls.made + 1
            result = compiled(torch.ones(2), cls)
            assert result[0].tolist() == [expected, expected]
            assert result[1:] == (Counted.made, 1.5)
        assert Counted.made == before + 8 * (cls is Counted)
        assert capture.report(compiled).graph_count <= 4
    del Numbered.made
    Counted.made = 0


def test_a_counter_of_a_modules_class() -> None:
    layer = CountingLayer()
    compiled = capture.compile(layer)
    for n in range(1, 9):
        assert compiled(torch.ones(1)).item() == n
    assert capture.report(compiled).graph_count == 2
    CountingLayer.calls = 0


def test_what_hides_a_counter_is_seen() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        Counted.made += 1
        return x * Numbered.made * Numbered.weight

    compiled = capture.compile(fn)
    for n in range(1, 5):
        assert compiled(torch.ones(1)).item() == n * 1.5
    Numbered.made = 70  # type: ignore[misc]
    assert compiled(torch.ones(1)).item() == 105
    del Numbered.made
    for weight in (2.5, 3.5, 4, 5):
        Counted.weight = weight
        assert compiled(torch.ones(1)).item() == Counted.made * weight
    Counted.made, Counted.weight = True, 1.5  # type: ignore[assignment]
    assert compiled(torch.ones(1)).item() == 3
    Counted.made = 0


def test_a_number_that_changes_each_time_is_an_input() -> None:
    def made() -> tuple[Any, Any, Callable[[torch.Tensor], Any]]:
        class Counter:
            calls = 0
            rate = 1.5

        class Special(Counter):
            pass

        def program(x: torch.Tensor) -> Any:
            Counter.calls += 1
            Counter.rate = Counter.rate / 2
            return x * Special.calls + Special().rate, Special.calls

        return Counter, Special, program

    changes: list[Callable[[Any, Any], object]] = [
        lambda counter, special: setattr(counter, "calls", 10),
        lambda counter, special: setattr(special, "calls", 7),  # now it is found there
        lambda counter, special: setattr(special, "calls", 8),
        lambda counter, special: delattr(special, "calls"),
        lambda counter, special: setattr(counter, "calls", 2.5),
        lambda counter, special: setattr(counter, "rate", torch.ones(2)),
    ]
    found: list[list[Any]] = []
    for prepare in (lambda program: program, capture.compile):
        counter, special, program = made()
        compiled, told = prepare(program), []
        for change in [*[lambda counter, special: None] * 20, *changes]:
            change(counter, special)
            result, calls = compiled(torch.ones(2))
            told += [result.tolist(), calls, counter.calls]
        found.append(told)
        if compiled is not program:
            assert not compiled.session.report.skipped
            assert compiled.session.report.graph_count <= 8
    assert found[0] == found[1]


def test_what_an_exceptions_class_has_in_the_place_of_a_field() -> None:
    class Failure(ValueError):
        pass

    def program(x: torch.Tensor) -> Any:
        try:
            raise Failure("bad")
        except Failure as error:
            found = error.args, str(error), error.__cause__
            try:
                error.args = ("set",)
            except AttributeError as refused:
                return x + 1, found, str(refused)
            return x + 1, found, error.args

    compiled, x = capture.compile(program), torch.ones(2)
    changes: list[Callable[[], None]] = [
        lambda: None,
        lambda: setattr(Failure, "args", ("other",)),
        lambda: setattr(Failure, "args", property(lambda self: "asked")),
        lambda: setattr(Failure, "__cause__", "none"),
        lambda: delattr(Failure, "args"),
    ]
    for change in changes:
        change()
        assert compiled(x)[1:] == program(x)[1:]
