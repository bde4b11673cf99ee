# ruff: noqa
"""What metaclasses decide: calls, containers and attributes of their classes."""

from __future__ import annotations


from .registry import program


class Meta(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.called = True
        return made

    def __getitem__(cls, key):
        return (cls.__name__, key)

    def __len__(cls):
        return 7

    def __contains__(cls, value):
        return value == 3

    def __iter__(cls):
        return iter("abc")

    @property
    def shout(cls):
        return cls.__name__.upper()

    def helper(cls):
        return cls, 1


class Made(metaclass=Meta):
    def __init__(self, v):
        self.v = v


@program
def metaclass_calls(x):
    m = Made(x)
    return m.called, m.v, Made["k"], len(Made), 3 in Made, list(Made), Made.shout, Made.helper()[1], type(Made) is Meta


class Singleton(type):
    made: dict = {}

    def __call__(cls, *args):
        return ("made by", cls.__name__, args)


class Single(metaclass=Singleton):
    pass


@program
def metaclass_replaces_call(x):
    return Single(1, 2), x


class Reads(type):
    scale = 5

    def __getattribute__(cls, name):
        if name == "magic":
            return 7
        if name == "gone":
            raise AttributeError("gone, so")
        return super().__getattribute__(name)

    def __getattr__(cls, name):
        if name.startswith("x"):
            return len(name)
        raise AttributeError(name)


class Read(metaclass=Reads):
    k = 3

    def __init__(self):
        self.z = 2

    def f(self):
        return self.k

    @classmethod
    def c(cls):
        return cls.magic + cls.k

    @staticmethod
    def s(a):
        return a * 2


class ReadToo(Read):
    k = 4

    @classmethod
    def c(cls):
        return super().c() + 1


class ReadsByType(type):
    def __getattribute__(cls, name):
        return type.__getattribute__(cls, name)


class ReadByType(metaclass=ReadsByType):
    v = 2

    def g(self, x):
        return x * type(self).v


@program
def metaclass_reads_attributes(x):
    return (
        x + Read.magic,
        Read.k,
        ReadToo.k,
        ReadToo.c(),
        Read.s(x),
        Read.scale,
        Read().f() + ReadToo().f(),
        Read.f(ReadToo()),
    )


@program
def metaclass_has_none_of_an_attribute(x):
    try:
        Read.gone
    except AttributeError as error:
        told = str(error)
    return x, told, Read.xyz, getattr(Read, "nope", 9), hasattr(Read, "nope"), hasattr(Read, "k"), Read.__name__


@program
def metaclass_reads_by_type(x):
    by = ReadByType
    return x + by.v, by().g(x), by.__name__, by.__class__ is ReadsByType, by.__mro__[0] is by, isinstance(by(), by)


@program
def metaclass_reads_of_a_class_made_here(x):
    class Made(metaclass=Reads):
        k = 1

        def f(self):
            return 5

    return Made.magic + Made.k + Made().f() + x, Made.xq
