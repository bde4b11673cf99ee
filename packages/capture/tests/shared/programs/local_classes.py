# ruff: noqa
"""Classes made by the program itself: class statements, ``type()``, named tuples, dataclasses, enumerations; another one each call."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import gc
import time
import typing
import weakref

import torch

from .registry import program


def told(cls):
    """What a class says of itself."""
    return (
        cls.__name__,
        cls.__qualname__,
        cls.__module__,
        cls.__doc__,
        [b.__name__ for b in cls.__mro__],
        sorted(vars(cls)),
    )


class Base:
    scale = 2

    def run(self, x):
        return x * self.scale


class Registered:
    """Tells of its subclasses."""


class Hooked:
    made = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__()
        cls.options = kwargs
        Hooked.made.append(cls.__name__)


class Meta(type):
    def __new__(mcls, name, bases, namespace, **kwargs):
        namespace["told"] = sorted(kwargs)
        return super().__new__(mcls, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **kwargs):
        super().__init__(name, bases, namespace)


class Named:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self.name


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


def class_escapes(x):
    y = x * 2

    class Escaping(Base):
        """Documented."""

        kept = y

        def __init__(self, z):
            self.z = z

        def add(self, w):
            return self.z + self.kept + w + len(__class__.__name__)

        @staticmethod
        def plain(a):
            return a + 1

        @classmethod
        def named(cls, a):
            return cls.__name__, a

        @property
        def double(self):
            return self.z * 2

        @double.setter
        def double(self, value):
            self.z = value / 2

    return Escaping(x), Escaping


def use(made):
    obj, cls = made
    first = obj.add(1), obj.double, cls.plain(1), cls.named(2), obj.plain(3), type(obj) is cls, told(cls), obj.run(3)
    obj.double = torch.ones(3, 4)
    return first, obj.z, cls.kept, isinstance(cls.__dict__["double"], property)


def use_break(made):
    time.perf_counter_ns()  # a graph break: what follows is done with the real class
    return use(made)


@program
def class_escapes_over_break(x):
    return use_break(class_escapes(x))


@program
def another_class_each_call_break(x):
    def make():
        class Fresh:
            pass

        return Fresh

    a, b = make(), make()
    time.perf_counter_ns()
    return a is b, a is a, isinstance(a(), b), isinstance(a(), a), x + 1


@program
def subclasses_are_told_break(x):
    gc.collect()

    class Sub(Registered):
        pass

    return [c.__name__ for c in Registered.__subclasses__()], x + 1


@program
def subclasses_unused_are_told_break(x):
    def run():
        class Sub(Registered):
            pass

        kept = Sub
        time.perf_counter_ns()
        return len(Registered.__subclasses__()) > 0, kept.__name__

    return run(), x + 1


@program
def class_with_hooks_break(x):
    class Sub(Hooked, option=3):
        pass

    return Sub.options, Hooked.made[-1], x + 1


@program
def class_with_metaclass_break(x):
    class Sub(metaclass=Meta, one=1, two=2):
        pass

    return Sub.told, type(Sub) is Meta, x + 1


@program
def class_with_set_name_break(x):
    class Sub:
        first = Named()

    return Sub.first, Sub().first, x + 1


@program
def class_body_prints_break(x):
    seen = []

    class Body:
        seen.append("before")
        time.perf_counter_ns()
        seen.append("after")

    return seen, Body.__name__, x + 1


@program
def class_body_changes_outside(x):
    seen = []

    class Body:
        seen.append("body")
        seen.append(x + 1)

    return seen


def class_body_raises(x):
    try:

        class Body:
            a = 1
            b = [][3]

    except IndexError as error:
        return str(error), x + 1


@program
def class_body_raises_break(x):
    return class_body_raises(x)


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
def class_attributes_set_later_break(x):
    class Changing:
        a = 1

        def get(self):
            return self.a

    class Derived(Changing):
        pass

    d = Derived()
    Changing.a = x
    Changing.own = d
    Derived.z = Changing
    time.perf_counter_ns()
    return d.get(), Changing.own is d, Derived.z is Changing, sorted(k for k in vars(Changing) if not k.startswith("_"))


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
def abstract_in_frame(x):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

        @property
        @abc.abstractmethod
        def name(self): ...

    class Square(Shape):
        def area(self):
            return x * 2

        name = "square"

    return Square().area(), Square().name, isinstance(Square(), Shape), issubclass(Square, Shape)


@program
def abstract_is_not_made_break(x):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    try:
        Shape()
    except TypeError as error:
        return "abstract" in str(error), x + 1


@program
def type_of_three(x):
    made = type("Made", (Base,), {"scale": 3, "double": lambda self, y: y * 2})
    return made().run(x), made().double(x), made.__name__, made.__module__, made.__qualname__


@program
def type_of_three_escapes_break(x):
    made = type("Made", (Base,), {"scale": 3, "kept": x})
    time.perf_counter_ns()
    return told(made), made().run(x), made.kept


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
def named_tuple_in_frame(x):
    Pair = collections.namedtuple("Pair", "a b", defaults=(3,))
    p = Pair(x)
    a, b = p
    q = p._replace(b=4)
    return (
        p.a + p.b,
        a is x,
        b,
        q.b,
        p._fields,
        Pair._make([1, 2]).b,
        p._asdict()["b"],
        Pair.__name__,
        isinstance(p, tuple),
    )


@program
def named_tuple_escapes_break(x):
    Pair = collections.namedtuple("Pair", "a b")
    p = Pair(x, x + 1)
    time.perf_counter_ns()
    return p.a, p.b, type(p) is Pair, Pair.__module__, repr(Pair(1, 2)), told(Pair)[0]


@program
def typed_named_tuple_in_frame(x):
    class Point(typing.NamedTuple):
        a: torch.Tensor
        b: int = 2

        def total(self):
            return self.a + self.b

    p = Point(x)
    return p.total(), p.b, Point._fields, Point._field_defaults["b"], p == (x, 2) if False else None


@program
def typed_named_tuple_escapes_break(x):
    class Point(typing.NamedTuple):
        """A point."""

        a: torch.Tensor
        b: int = 2

        def total(self):
            return self.a + self.b

    p = Point(x)
    time.perf_counter_ns()
    return p.total(), type(p) is Point, Point.__doc__, Point.__annotations__, Point.__bases__


@program
def dataclass_in_frame(x):
    @dataclasses.dataclass
    class Config:
        a: torch.Tensor
        b: int = 3
        c: list = dataclasses.field(default_factory=list)
        d: int = dataclasses.field(default=5, repr=False)

        def total(self):
            return self.a * self.b

    c, other = Config(x), Config(x, 4)
    c.c.append(1)
    return c.total(), other.total(), c.c, other.c, c.d, Config.b, Config.d, hasattr(Config, "c")


@program
def dataclass_with_options(x):
    @dataclasses.dataclass(frozen=True, order=True)
    class Config:
        a: int
        b: int = 3

    @dataclasses.dataclass(eq=False)
    class Derived(Config if False else object):
        c: int = 2

        def __post_init__(self):
            self.d = self.c * 2

    try:
        Config(1).a = 3
    except dataclasses.FrozenInstanceError as error:
        return (
            str(error),
            Config(1) < Config(2),
            Config(1) == Config(1),
            hash(Config(1)) == hash(Config(1)),
            Derived(3).d,
            x,
        )


@program
def dataclass_escapes_break(x):
    @dataclasses.dataclass
    class Config:
        a: torch.Tensor
        b: int = 3

    c = Config(x)
    time.perf_counter_ns()
    return (
        c.a,
        c.b,
        type(c) is Config,
        [f.name for f in dataclasses.fields(c)],
        repr(Config(1)),
        Config.__doc__,
        told(Config)[0],
    )


@program
def enumeration_in_frame(x):
    class Color(enum.Enum):
        RED = 1
        GREEN = 2
        ALIAS = 1

        def describe(self):
            return self.name.lower()

    class Size(enum.IntEnum):
        SMALL = enum.auto()
        LARGE = enum.auto()

    return (
        x + Color.GREEN.value, Color.RED is Color.ALIAS, Color(2).name, Color["RED"].value, Color.RED.describe(), len(Color),
        [c.name for c in Color], Size.LARGE + 1, isinstance(Color.RED, Color), Color.RED == Color.GREEN, {Color.RED: 3}[Color.RED],
    )  # fmt: skip


@program
def enumeration_escapes_break(x):
    class Color(enum.Enum):
        """Colors."""

        RED = 1
        GREEN = "g"

        def describe(self):
            return self.name.lower(), __class__.__name__

    red = Color.RED
    time.perf_counter_ns()
    return red is Color.RED, red.describe(), Color("g").name, Color.__doc__, list(Color.__members__)


@program
def flag_in_frame(x):
    class Permission(enum.Flag):
        READ = enum.auto()
        WRITE = enum.auto()

    both = Permission.READ | Permission.WRITE
    return Permission.READ in both, both.value, bool(Permission.READ & Permission.WRITE), x


@program
def generic_in_frame_break(x):
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, item):
            self.item = item

    return Box(x).item + 1, Box[int](x).item, Box.__parameters__ == (T,)


@program
def protocol_in_frame_break(x):
    @typing.runtime_checkable
    class Runs(typing.Protocol):
        def run(self, x): ...

    return isinstance(Base(), Runs), isinstance(3, Runs), x + 1


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
def methods_decorated_escape_break(x):
    def twice(f):
        @functools.wraps(f)
        def run(self, *args):
            return f(self, *args) * 2

        return run

    class Decorated(Base):
        def by_name(self):
            return Decorated

        @twice
        def run(self, x):
            return super().run(x) + 1

    d = Decorated()
    time.perf_counter_ns()
    return d.run(x), d.by_name() is Decorated, Decorated.run.__name__


@program
def class_by_name_in_itself_break(x):
    def make():
        class Node:
            def __init__(self, v, n=0):
                self.v = v
                self.next = Node(v + 1, n - 1) if n else None

        return Node

    cls = make()
    node = cls(x, 2)
    time.perf_counter_ns()
    return node.next.next.v, type(node.next) is cls, cls(x, 1).next.v


@program
def class_reached_from_what_it_holds_break(x):
    table = {}

    class Entry:
        held = table

    table["entry"] = Entry
    time.perf_counter_ns()
    return table["entry"] is Entry, Entry.held is table, x + 1


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
def typed_dict_in_frame(x):
    class Movie(typing.TypedDict):
        name: str
        year: int

    return Movie(name="a", year=3)["year"], x


@program
def method_is_a_method_of_what_it_makes_break(x):
    class Counter:
        total = 0

        def add(self, n):
            self.total += n
            return self

    add = Counter().add
    time.perf_counter_ns()
    return add(3).total, add.__self__.total, add.__func__ is Counter.add, x


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


def _lets_out(x):
    class Own(Exception):
        def __init__(self, n):
            super().__init__(n)
            self.n = n

    raise Own(x.shape[0])


@program
def exception_of_its_own_is_let_out_break(x):
    try:
        _lets_out(x)
    except Exception as error:
        return type(error).__qualname__, error.n, error.args


@program
def class_that_is_global(x):
    global Global

    class Global:
        v = 3

        def m(self):
            return x + self.v

    return Global().m()


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
def subclasses_of_one_in_frame_break(x):
    class A:
        pass

    class B(A):
        pass

    return [c.__name__ for c in A.__subclasses__()], x


@program
def hook_of_a_class_in_frame_break(x):
    class A:
        def __init_subclass__(cls, **kwargs):
            cls.told = kwargs

    class B(A, k=1):
        pass

    return B.told, x


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
def named_tuple_with_methods(x):
    class Point(collections.namedtuple("Point", "a b")):
        __slots__ = ()

        def total(self):
            return self.a + self.b

    return Point(1, x).total(), Point._fields


@program
def dataclasses_of_dataclasses(x):
    @dataclasses.dataclass
    class A:
        a: int

    @dataclasses.dataclass
    class B(A):
        b: int = 2

    one = B(1)
    return one.b, repr(one), one == B(1), dataclasses.replace(one, b=5).b, dataclasses.asdict(one), x


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
def integer_flags_escape_break(x):
    class F(enum.IntFlag):
        A = 1
        B = 2

    both = F.A | F.B
    one = F.A
    time.perf_counter_ns()
    return both.value, one is F.A, repr(both), x


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


@program
def members_bound_twice_break(x):
    try:

        class Colour(enum.Enum):
            red = 1
            green = 2
            red = 3

    except TypeError as error:
        return str(error), x + 1
