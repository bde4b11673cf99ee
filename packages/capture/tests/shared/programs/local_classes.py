# ruff: noqa
"""Classes made by the program itself, with class statements and decorators of its own; another one each call."""

from __future__ import annotations

import dataclasses
import functools
import time

import torch

from .registry import program


class Base:
    scale = 2

    def run(self, x):
        return x * self.scale


@program
def class_in_frame(x):
    y = x + 1

    class Scaled:
        """Scales."""

        factor = 3

        def run(self, z):
            return z * self.factor

    return Scaled().run(y) + Scaled.factor, Scaled.__doc__, Scaled.__name__


@program
def class_with_super(x):
    class Inner(Base):
        scale = 5

        def __init__(self, k):
            super().__init__()
            self.k = k

        def run(self, x):
            return super().run(x) + self.k

    return Inner(2).run(x), Base().run(x), isinstance(Inner(1), Base), issubclass(Inner, Base)


@program
def class_of_two_in_frame(x):
    class First:
        def run(self, x):
            return ["first"]

    class Second(First):
        def run(self, x):
            return ["second", *super().run(x)]

    class Third(First):
        def run(self, x):
            return ["third", *super().run(x)]

    class Fourth(Second, Third):
        def run(self, x):
            return ["fourth", *super().run(x)]

    return Fourth().run(x), [c.__name__ for c in Fourth.__mro__], x * len(Fourth.__bases__)


@program
def class_over_tensors(x):
    k = x * 2

    class Holder:
        kept = k + 1

        def run(self):
            return k + self.kept

    k = k - 1
    return Holder().run(), Holder.kept


@program
def class_body_names(x):
    n = 4

    class Body:
        n = n + 1 if False else 3
        m = n * 2
        items = [i * 2 for i in range(3)]
        if m > 4:
            big = True
        for i in range(3):
            last = i
        del i
        first, *rest = (1, 2, 3)
        a: int = 3
        b: "str"

    return (
        Body.n,
        Body.m,
        Body.items,
        Body.big,
        Body.last,
        Body.rest,
        hasattr(Body, "i"),
        Body.__annotations__,
        x + Body.first,
    )


@program
def class_free_names(x):
    outer = 7

    def make(n):
        class Body:
            seen = outer
            outer_n = n

            def both(self):
                return outer + n

        return Body

    return make(1).seen, make(2).outer_n, make(3)().both(), x


@program
def class_with_slots(x):
    class Slotted:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a = x

    s = Slotted()
    try:
        s.c = 1
    except AttributeError as error:
        return s.a + 1, hasattr(s, "b"), type(error).__name__


@program
def class_attributes_set_later(x):
    class Changing:
        a = 1

        def get(self):
            return self.a

    before = Changing().get()
    Changing.a = x
    Changing.b = 3
    Changing.get2 = lambda self: self.b
    first = Changing().get()
    del Changing.b
    return before, first, hasattr(Changing, "b")


@program
def class_attributes_that_come_and_go_breaks(x):
    class Changing:
        a, b = 1, 2

    Changing.c, Changing.b, Changing.a = 3, 4, x
    Changing.e = 7
    del Changing.a, Changing.c, Changing.e
    Changing.d = Changing.a = lambda self: Changing
    Changing.c, Changing.d = 5, 6
    time.sleep(0)
    return [name for name in vars(Changing) if name[0] != "_"], Changing().a() is Changing, Changing.d, x + 1


@program
def class_attributes_before_methods_come_breaks(x):
    class Counted:
        n: int

    Counted.n = 5
    dataclasses.dataclass(Counted)
    time.sleep(0)
    return Counted().n, Counted(3).n, x + 1


@program
def what_classes_do_not_lose_breaks(x):
    class Documented:
        """Text."""

    try:
        del Documented.__doc__
    except TypeError as error:
        return str(error), x + 1


@program
def class_operators(x):
    class Number:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            return Number(self.v + getattr(other, "v", other))

        __radd__ = __add__

        def __eq__(self, other):
            return isinstance(other, Number) and self.v is other.v

        def __hash__(self):
            return 3

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return (self.v, i)

        def __call__(self, y):
            return self.v * y

        def __repr__(self):
            return "Number"

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return False

    n = Number(x)
    with n as m:
        pass
    return (n + 1).v, (1 + n).v, n == m, len(n), n[2], n(3), repr(n), {n: 1}[m], [*n[:1]]


@program
def exception_in_frame(x):
    class Special(ValueError):
        code = 7

        def __init__(self, text, *, extra=None):
            super().__init__(text)
            self.extra = extra

    class Other(Exception):
        pass

    try:
        raise Special("text", extra=x)
    except (Other, Special) as error:
        first = error.args, error.extra, error.code
    try:
        raise Other
    except Special:
        return 1
    except Other:
        return first, x + 1


@program
def subclass_of_list(x):
    class Stack(list):
        def push(self, v):
            self.append(v)
            return self

    class Table(dict):
        def __missing__(self, key):
            return key * 2

    class Text(str):
        def shout(self):
            return self.upper() + "!"

    s = Stack([x]).push(x + 1)
    return sum(s), len(s), Table(a=1)["bc"], Text("hey").shout(), isinstance(s, list)


@program
def iterator_in_frame(x):
    class Counting:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    return [x + i for i in Counting(3)], list(Counting(2)), max(Counting(4))


@program
def module_in_frame(x):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 3

        def forward(self, x):
            return x * self.scale

    return Net()(x)


@program
def cached_property_in_frame(x):
    calls = []

    class Lazy:
        @functools.cached_property
        def value(self):
            calls.append(1)
            return x * 3

    l = Lazy()
    return l.value, l.value, calls


@program
def class_decorated(x):
    def register(cls):
        seen.append(cls.__name__)
        cls.extra = 4
        return cls

    seen = []

    @register
    class Plain:
        pass

    @functools.total_ordering
    class Ordered:
        def __init__(self, v):
            self.v = v

        def __eq__(self, other):
            return self.v == other.v

        def __lt__(self, other):
            return self.v < other.v

    return seen, Plain.extra, x + 1


@program
def methods_decorated(x):
    def twice(f):
        @functools.wraps(f)
        def run(self, *args):
            return f(self, *args) * 2

        return run

    class Decorated(Base):
        @twice
        def run(self, x):
            return super().run(x) + 1

    return Decorated().run(x)


@program
def class_in_loop_each_another(x):
    out = []
    for i in range(3):

        class Each:
            n = i

        out.append(Each)
    return [c.n for c in out], out[0] is out[1], out[0] == out[1], out[0] == out[0], x + len({c: 1 for c in out})


@program
def class_as_key(x):
    class A:
        pass

    class B(A):
        pass

    table = {A: 1, B: 2}
    return table[B], A in table, type(B()) in table, table[type(A())], x


@program
def class_getattr_and_new(x):
    class Odd:
        def __new__(cls, *args):
            made = super().__new__(cls)
            made.args = args
            return made

        def __getattr__(self, name):
            return name.upper()

        def __class_getitem__(cls, item):
            return cls.__name__, item

        def __init_subclass__(cls):
            pass

    return Odd(1, 2).args, Odd().missing, Odd[3], x


@program
def class_matched(x):
    class Point:
        __match_args__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    match Point(1, x):
        case Point(0, _):
            return 0
        case Point(1, y):
            return y + 1


@program
def generator_method(x):
    class Tree:
        def __init__(self, *children):
            self.children = children

        def walk(self):
            yield self
            for child in self.children:
                yield from child.walk()

    return len(list(Tree(Tree(), Tree(Tree())).walk())), x


@program
def text_of_a_class(x):
    class A:
        pass

    return str(A), repr(A), f"{A}", "%s" % A, repr([A]), x


@program
def text_of_a_class_by_its_metaclass_break(x):
    class M(type):
        def __repr__(cls):
            return "mine"

    class A(metaclass=M):
        pass

    return str(A), repr(A), x


@program
def classes_within_classes(x):
    class Outer:
        class Inner:
            n = 4

            def name(self):
                return __class__.__qualname__

        y = Inner.n

    return Outer.y, Outer.Inner().name(), x


@program
def class_that_cannot_be(x):
    told = []
    try:

        class A:
            pass

        class B(A):
            pass

        class C(A, B):
            pass

    except TypeError as error:
        told.append(str(error))
    try:

        class D:
            __slots__ = ("a",)

        class E:
            __slots__ = ("b",)

        class F(D, E):
            pass

    except TypeError as error:
        told.append(str(error))
    return told, x


@program
def class_made_by_a_decorator(x):
    def wrapped(cls):
        class Wrapper(cls):
            def m(self):
                return super().m() + 1

        return Wrapper

    @wrapped
    class A:
        def m(self):
            return x

    return A().m(), A.__name__, A.__mro__[1].__name__


@program
def properties_in_frame(x):
    class A:
        @property
        def p(self):
            return self._p

        @p.setter
        def p(self, v):
            self._p = v + 1

        @p.deleter
        def p(self):
            self._p = None

    a = A()
    a.p = 3
    before = a.p
    del a.p
    return a.p, before, isinstance(A.p, property), x


class _Subscripted:
    def __class_getitem__(cls, key):
        return cls.__name__, key


@program
def subscripts_of_classes(x):
    class A(_Subscripted):
        factor = 3

    class B(A):
        def __class_getitem__(cls, key):
            return *super().__class_getitem__(key), cls.factor

    return A["a"], B[x.shape[0]], x * B[2][1]


@program
def abstract_or_not_breaks(x):
    class Plain:
        pass

    class Below(Plain):
        def __call__(self):
            return x

    seen = []
    for _ in range(2):
        seen.append([hasattr(each, "__abstractmethods__") for each in (Plain, Below)])
        seen.append(getattr(Plain, "__abstractmethods__", "none"))
        time.sleep(0)
    return seen, x + 1
