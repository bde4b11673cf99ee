# ruff: noqa
"""Functions, closures and their arguments."""

from __future__ import annotations

import functools

import torch

from .registry import outcome, program


@program
def closures(x):
    n = 1

    def bump():
        nonlocal n
        n += 1
        return x + n

    return bump(), bump(), n


@program
def defaults_and_keywords(x):
    def f(a, b=2, /, c=3, *args, d, e=5, **kw):
        return a + b * c, args, d, e, kw

    return f(x, d=1), f(x, 1, 2, 3, d=x, z=9), (lambda q, w=x: q + w)(1)


@program
def partials(x):
    f = functools.partial(torch.add, x, alpha=2)
    g = functools.partial(lambda a, b, c: a + b * c, 1, c=3)
    return f(1), g(x), g.args


@program
def wrapped(x):
    def twice(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return inner

    @twice
    def f(y):
        "doc"
        return y + 1

    return f(x), f.__name__


@program
def recursion(x):
    def fact(n):
        return 1 if n <= 1 else n * fact(n - 1)

    return x * fact(5)


@program
def returned_closure(x):
    y = x * 2
    k = [1]

    def f(z):
        k.append(z)
        return y + z + len(k)

    return f(1), k


GLOBAL_COUNT = 0


@program
def global_write(x):
    global GLOBAL_COUNT
    GLOBAL_COUNT = GLOBAL_COUNT + 1
    before = GLOBAL_COUNT
    GLOBAL_COUNT = 0
    return x + before


@program
def strings(x):
    n = x.shape[0]
    s = f"{n:>3}|{1.5:.2f}|{'a'!r}|{n + 1}"
    return s, "%d-%s" % (1, "b"), f"{1} {2}", ",".join(str(i) for i in range(3)), s.split("|"), "a" in s


def documented():
    "What it does."


@program
def wraps_a_choice_breaks(x):
    @functools.wraps(documented, (), ())
    def nothing():
        return x

    @functools.wraps(documented, ("__doc__",), updated=())
    def its_text():
        return x

    return nothing.__name__, nothing.__doc__, its_text.__name__, its_text.__doc__, nothing()


@program
def what_functions_refuse_to_be_given(x):
    held = 3

    def f(a, b=2):
        return a + b + held

    told = []
    for name, value in (
        ("__closure__", ()),
        ("__globals__", {}),
        ("__builtins__", {}),
        ("__name__", 3),
        ("__name__", None),
        ("__qualname__", b"a"),
        ("__annotations__", 3),
        ("__doc__", 3),
        ("__module__", ()),
        ("__name__", "g"),
        ("__qualname__", "a.g"),
        ("__annotations__", {"a": int}),
        ("own", 4),
    ):
        try:
            setattr(f, name, value)
        except Exception as error:
            told.append((name, type(error), error.args))
    return (
        told,
        f.__name__,
        f.__qualname__,
        f.__doc__,
        f.__module__,
        f.__annotations__,
        f.own,
        f(1),
        dict(f.__dict__),
        x + 1,
    )


@program
def what_functions_are_given_beside_their_dictionary(x):
    def f(a):
        return a

    f.own = 1
    f.__name__ = "g"
    f.__doc__ = "told"
    f.__dict__["__name__"] = "in it"
    f.__dict__["__doc__"] = "in it"
    return f.__name__, f.__doc__, dict(f.__dict__), vars(f) is f.__dict__, f, x + 1


@program
def functions_given_no_annotations_break(x):
    def f(a: int):
        return a

    f.__annotations__ = None
    return f.__annotations__, x + 1


class _Callable:
    def __init__(self):
        self.own = 1

    def __call__(self, a):
        return a

    def method(self, a: int):
        "told"
        return a

    method.marked = 1


@program
def what_wrapping_copies(x):
    def f(a: int):
        "told"
        return a

    f.own = 1
    told = []
    for wrapped in (f, max, functools.partial(f, 1), _Callable().method):

        @functools.wraps(wrapped)
        def w(b):
            return b

        own = dict(vars(w))
        same = own.pop("__wrapped__") == wrapped
        told.append((w.__name__, w.__qualname__, w.__module__, w.__doc__, w.__annotations__, same, own))
    return told, x + 1


@program
def wrapping_an_object_copies_what_is_in_it_break(x):
    told = []
    for wrapped in (_Callable(), _Callable):

        @functools.wraps(wrapped)
        def w(b):
            return b

        told.append((w.__name__, w.__doc__, sorted(set(vars(w)) - {"__static_attributes__", "__firstlineno__"})))
    return told, x + 1


@program
def wrapping_an_object_of_which_nothing_is_asked(x):
    @functools.wraps(_Callable())
    def w(b):
        return b

    return w(x), w.__name__, w.__wrapped__.own


@program
def what_a_function_has_from_its_type_break(x):
    def f(a):
        return a

    return f.__globals__ is globals(), f.__eq__(f), hasattr(f, "__globals__"), hasattr(f, "__other__"), x + 1


@program
def classes_with_functions_that_were_named(x):
    def f(self):
        "told"
        return self

    f.__name__, f.__doc__, f.own = "g", "other", 1

    class C:
        g = f

    return C.g.__name__, C.g.__doc__, vars(C.g), C().g.own, x + 1


@program
def break_keywords_that_come_twice(x):
    def taken(**given):
        return given

    once, again = {"a": 1}, {"a": 2}
    return (
        outcome(lambda: taken(**once, **again)),
        outcome(lambda: dict(**once, **again)),
        outcome(lambda: taken(b=1, **once, c=2)),
        x + 1,
    )
