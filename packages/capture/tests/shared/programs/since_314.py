"""What only 3.14 can parse, or means otherwise from then on: ``t"..."``, ``except`` of several without parentheses, annotations made when asked for."""

import annotationlib
import collections
import contextlib
import functools
import inspect
import typing
from string import templatelib

import torch

import capture

from .registry import outcome, program


@capture.disable
def aside(*values):
    """The graph breaks here."""


@program
def template_strings(x):
    n, name = 3, "size"
    made = t"{name}: {n!r:>{n}} {n=} and {x.shape[0] + n}."
    parts = [
        each if isinstance(each, str) else (each.value, each.expression, each.conversion, each.format_spec)
        for each in made
    ]
    return x + made.values[1], made.strings, parts, type(made) is templatelib.Template, bool(t"")


@program
def template_of_tensors(x):
    made = t"{x * 2} {x}"
    return made.interpolations[0].value + 1, made.interpolations[1].value is x


@program
def break_templates_handed_on(x):
    n = 2
    made = t"a{n:x}{x + 1}b"
    aside(made)
    y = made.interpolations[1].value * n
    return y, made.strings, [(each.value, each.expression) for each in made.interpolations]


def rendered(template):
    out = []
    for each in template:
        match each:
            case str() as text:
                out.append(text.upper())
            case templatelib.Interpolation(value, _, conversion, spec):
                out.append(format(templatelib.convert(value, conversion), spec))
    return "".join(out)


@program
def break_templates_rendered(x):
    n = 7
    return rendered(t"x = {n:>3}; {n!r}"), x + 1


@program
def several_without_parentheses(x):
    seen = []
    for kind in (ValueError, KeyError, TypeError, ZeroDivisionError):
        try:
            raise kind("k")
        except ValueError, KeyError:
            seen.append("one of two")
        except TypeError as error:
            seen.append(type(error).__name__)
        except ArithmeticError, LookupError:
            seen.append("another")
        x = x + 1
    return x, seen


@program
def groups_without_parentheses(x):
    seen = []
    try:
        raise ExceptionGroup("several", [ValueError(1), TypeError(2), OSError(3)])
    except* ValueError, TypeError:
        seen.append("two")
    except* OSError as group:
        seen.append(len(group.exceptions))
    return x * 2, seen


@program
def break_among_several(x):
    try:
        try:
            y = x + 1
            aside()
            raise KeyError(1)
        except ValueError, KeyError:
            y = y * 2
            aside()
            y = y + 1
            raise
    except LookupError, TypeError:
        return y * 3


def later(x: Undefined, *rest: list[Undefined], scale: int = 2) -> Undefined:  # noqa: F821
    return x * scale


@program
def annotations_of_what_is_not_there(x):
    return later(x), later(x, scale=3)


@program
def annotations_in_the_frame(x):
    def inner(a: int, b: str = 1) -> list[int]:
        return a + b

    return inner(x), inner.__annotations__, inner.__annotate__ is not None


@program
def break_annotations_undefined(x):
    def inner(a: Missing) -> int:  # noqa: F821
        return a + 1

    return (
        inner(x),
        outcome(lambda: inner.__annotations__),
        annotationlib.get_annotations(inner, format=annotationlib.Format.STRING),
    )


@program
def break_signature_of_annotated(x):
    def inner(a: int, b: float = 2.0) -> float:
        return a * b

    names = [(p.name, p.annotation) for p in inspect.signature(inner).parameters.values()]
    return inner(x, 3), names


@program
def wrapped_annotated(x):
    def inner(a: int) -> float:
        return a + 1

    @functools.wraps(inner)
    def outer(*args):
        return inner(*args) * 2

    return outer(x), outer.__annotate__ is inner.__annotate__, outer.__annotations__, outer.__name__


@program
def break_annotated_class(x):
    class Point:
        left: int
        right: Point | None = None
        scale: typing.ClassVar[int] = 2

        def moved(self, by: float) -> Point:
            return self

    return x * Point.scale, list(Point.__annotations__), Point.moved.__annotations__["by"]


@program
def class_that_reads_the_frame(x):
    k = 3

    class Scaled:
        factor = k
        doubled = factor * 2

        def __call__(self, y):
            return y * self.factor

    return Scaled()(x), Scaled.doubled


@program
def all_and_any_of_generators(x):
    sizes = x.shape
    return all(n > 0 for n in sizes), any(n > 100 for n in sizes), tuple(n + 1 for n in sizes), x + len(sizes)


@program
def shadowed_all(x):
    all = lambda values: sum(values)  # noqa: E731
    return all(n for n in x.shape), x + 1


@program
def mapped_strictly(x):
    pairs = list(map(lambda a, b: a + b, [1, 2], (3, 4), strict=True))
    return x + pairs[0], pairs, outcome(lambda: list(map(max, [1, 2], [3], strict=True)))


class Level:
    def __init__(self, log, swallows=False):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, traceback):
        aside()
        self.log.append("out" if kind is None else kind.__name__)
        return self.swallows


@program
def break_while_leaving(x):
    log = []
    with Level(log) as level, Level(log, True):
        x = x + 1
        aside()
        if level.log:
            x = x * 2
            raise ValueError("left")
    try:
        with Level(log):
            x = x + 1
            raise KeyError("passed on")
    except KeyError:
        log.append("seen")
        x = x * 3
    return x, log


@program
def break_in_managers_written_in_c(x):
    with contextlib.nullcontext(2) as n, torch.no_grad():
        y = x * n
        aside()
        y = y + n
    return y, y.requires_grad


@program
def break_return_in_finally_of_loop(x):
    for n in range(4):
        try:
            x = x + n
            if n == 2:
                aside()
                return x, n
        finally:
            x = x * 2
            aside(n)
    return x, None


@program
def break_in_generators(x):
    def steps(y):
        try:
            for n in range(3):
                aside()
                y = y + n
                yield y
        finally:
            aside("closed")

    total = x * 0
    for each in steps(x):
        total = total + each
    first = next(steps(x))
    return total, first


@program
def annotations_that_are_set(x):
    def inner(a: int):
        return a

    def other(a: int):
        return a

    inner.__annotations__ = {"a": str}
    before = inner.__annotations__, inner.__annotate__
    inner.__annotate__ = lambda form: {"form": form}
    held = other.__annotations__
    other.__annotate__ = None
    return inner(x), before, inner.__annotations__, other.__annotations__ is held, other.__annotate__


@program
def break_annotations_beside_what_makes_them(x):
    def inner(a: int):
        return a

    held = inner.__annotations__
    held["b"] = 1
    aside(inner)
    return inner(x), inner.__annotations__ is held, inner.__annotate__ is not None, inner.__annotate__(1)


@program
def break_annotations_of_what_changes(x):
    n = 1

    def inner(a: n):
        return a + n

    def other(a: n):
        return a

    aside(inner, other)
    n = 2
    text = str(inspect.signature(inner))
    n = 3
    return inner(x), text, inner.__annotations__, other.__annotations__


@program
def break_unpacking_of_too_many(x):
    def unpacked(values):
        a, b = values
        return a, b

    several = [1, 2, 3, 4]
    found = [outcome(lambda each=each: unpacked(each)) for each in (several, tuple(several), dict.fromkeys(several))]
    return x + 1, found, outcome(lambda: unpacked("abc")), outcome(lambda: unpacked(range(3)))


def all_given(*args, **kwargs):
    return args, kwargs


GAPS = functools.partial(all_given, functools.Placeholder, 2, functools.Placeholder, 4, key=5)


@program
def partial_with_places(x):
    made = functools.partial(all_given, functools.Placeholder, 2)
    method = functools.partial(torch.add, functools.Placeholder, 1)
    return made(x), made(x, 3, key=4), GAPS(x, 3), GAPS(x, 3, 5, other=6), method(x)


@program
def break_partial_with_places(x):
    made = functools.partial(all_given, functools.Placeholder, 2)
    aside(made)
    both = functools.partial(GAPS, x)
    return (
        made(x),
        both(3),
        outcome(lambda: made()),
        outcome(lambda: functools.partial(all_given, functools.Placeholder)),
        outcome(lambda: functools.partial(all_given, key=functools.Placeholder)),
    )


class WithPlaces:
    def run(self, a, b):
        return a, b

    partly = functools.partialmethod(run, functools.Placeholder, 3)


@program
def break_methods_with_places(x):
    return WithPlaces().partly(x + 1)


GLOBAL_KIND = int


@program
def break_annotations_of_a_class_that_change(x):
    global GLOBAL_KIND
    GLOBAL_KIND = int
    n = 1

    class Local:
        a: n
        b: GLOBAL_KIND

    class Later:
        a: n

    aside()
    n = 2
    GLOBAL_KIND = float
    found = Local.__annotations__, typing.get_type_hints(Later)
    n = 3
    return x + 1, found, Local.__annotations__, Later.__annotations__


@program
def break_ordered_of_keys_that_act(x):
    # Looking one up asks a key, which empties the dictionary. Before 3.14 the interpreter goes on in what it has freed.
    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            if armed:
                calls.append(1)
                if len(calls) == 2:
                    d.clear()
            return self is other

    armed, calls = False, []
    d = collections.OrderedDict()
    d[Key()] = 1
    d[Key()] = 2
    armed = True
    try:
        d.copy()
    except (RuntimeError, KeyError) as error:
        return x + 1, type(error).__name__ in ("RuntimeError", "KeyError")
    return x + 1, True
