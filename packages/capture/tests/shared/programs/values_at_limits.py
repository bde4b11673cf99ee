# ruff: noqa
"""What CPython's own tests found: numbers, texts, slices and limits that are unusual, and operators and calls that are refused."""

from __future__ import annotations

import collections
import operator
import warnings

from .registry import outcome, program


class Refusing:
    def __add__(self, other):
        return "added"

    __iadd__ = None
    __contains__ = None

    def __iter__(self):
        return iter([1])


@program
def none_for_a_method_refuses_break(x):
    r = Refusing()

    def add():
        nonlocal r
        r += 1
        return r

    return outcome(lambda: r + 1), outcome(add), outcome(lambda: 1 in r), x


@program
def keywords_refused_break(x):
    calls = (
        lambda: bool(x=1), lambda: list(sequence=[]), lambda: tuple(sequence=()), lambda: float(x=1.0), lambda: int(x=1),
        lambda: set(iterable=()), lambda: complex(real=1, imag=2), lambda: enumerate(), lambda: reversed(), lambda: next(),
        lambda: {}.get(), lambda: super(int, int, int), lambda: dict({}, {}),
    )  # fmt: skip
    return [outcome(call) for call in calls], x


class Subclass(int):
    def __index__(self):
        return 5


@program
def index_of_an_integer_is_itself(x):
    return [1, 2, 3][Subclass(1)], range(Subclass(2)), x


@program
def tuples_that_stay_themselves(x):
    t = (x, 1)
    return t * 1 is t, t[:] is t, t + () is t, () + t is t, t[0:] is t, t[:1] is t, t * 2 is t, tuple(t) is t


def _names_of_mine(a, b):
    c = a
    found = locals()
    del found["b"]
    return found


@program
def locals_of_an_inner_function_break(x):
    return sorted(_names_of_mine(1, 2)), _names_of_mine(x, 0)["c"] is x, x + 1


@program
def slices_without_a_step(x):
    a = [1, 2, 3]

    def put():
        a[::0] = [1]

    def drop():
        del a[::0]

    return outcome(lambda: (1, 2)[::0]), outcome(lambda: a[1:2:0]), outcome(put), outcome(drop), "ab"[::1], x


class Keys:
    a = b = "same"


@program
def mapping_pattern_with_a_key_twice(x):
    def go():
        match {"same": 1}:
            case {Keys.a: one, Keys.b: two}:
                return one

    return outcome(go), x


class Five:
    def __index__(self):
        return 5


@program
def limits_of_deques(x):
    asked = []

    def letters():
        asked.append(1)
        yield "a"

    limits = (-1, -2, True, Five(), 1.5, "a", 2**70, None, Subclass(1))
    return [outcome(lambda: (list(d := collections.deque(letters(), limit)), d.maxlen)) for limit in limits], asked, x


class SaysTrue:
    def __index__(self):
        return True

    __int__ = __trunc__ = __index__


class Truncated:
    def __trunc__(self):
        return 3


class Halves(float):
    def __float__(self):
        return Halves(0.5)


@program
def numbers_of_which_python_warns_break(x):
    def told(function):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = outcome(function)
        return found, [(w.category.__name__, str(w.message)) for w in seen]

    calls = (
        lambda: operator.index(SaysTrue()), lambda: int(SaysTrue()), lambda: int(Truncated()), lambda: float(Halves(1)),
        lambda: [1, 2, 3][SaysTrue()], lambda: range(SaysTrue()), lambda: complex(Halves(1)), lambda: "a" * SaysTrue(),
    )  # fmt: skip
    return [told(call) for call in calls], x + 1


_LARGE = 10**6000


@program
def integers_too_long_to_be_written_break(x):
    return _LARGE > x.shape[0], x.shape[0] * _LARGE > _LARGE, _LARGE // 7 % 1000, outcome(lambda: str(_LARGE)), x + 1


@program
def integers_too_long_among_sizes(x, n=_LARGE + 1):
    return n - x.shape[0] > _LARGE, outcome(lambda: len(range(_LARGE))), x + 1


@program
def what_closing_gives(x):
    def returning():
        try:
            yield 1
        except GeneratorExit:
            return 5

    begun, fresh, ended = returning(), returning(), returning()
    next(begun)
    list(ended)
    return begun.close(), begun.close(), fresh.close(), ended.close(), x + 1


class Overridden(str):
    def __str__(self):
        return "overridden"


class Refused:
    __format__ = None


@program
def texts_that_tell_themselves_break(x):
    own = Overridden("xxx")
    told = [
        "%s" % own,
        "%r" % own,
        "%s" % (own,),
        f"{own}",
        "{}".format(own),
        str(object="a"),
        str(object=b"a", encoding="ascii"),
    ]
    return told, outcome(lambda: f"{Refused()}"), outcome(lambda: "{}".format(Refused())), x + 1
