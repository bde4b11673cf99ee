# ruff: noqa
"""Operators that classes define: reflected, in place, comparison, conversion, containers, calls, attributes."""

from __future__ import annotations

import functools
import math

from .registry import program


class Num:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Num(self.v + (other.v if isinstance(other, Num) else other))

    def __radd__(self, other):
        return ("radd", other, self.v)

    def __sub__(self, other):
        return NotImplemented

    def __rsub__(self, other):
        return ("rsub", other)

    def __imul__(self, other):
        self.v = self.v * other
        return self

    def __mul__(self, other):
        return Num(self.v * other)

    def __matmul__(self, other):
        return ("matmul", other)

    def __rmatmul__(self, other):
        return ("rmatmul", other)

    def __neg__(self):
        return Num(-self.v)

    def __pos__(self):
        return self

    def __abs__(self):
        return "abs"

    def __invert__(self):
        return "inv"

    def __divmod__(self, other):
        return ("divmod", other)

    def __rdivmod__(self, other):
        return ("rdivmod", other)

    def __pow__(self, other, modulo=None):
        return ("pow", other, modulo)

    def __rpow__(self, other):
        return ("rpow", other)

    def __round__(self, n=None):
        return ("round", n)

    def __trunc__(self):
        return 7

    def __floor__(self):
        return "floor"

    def __ceil__(self):
        return "ceil"

    def __int__(self):
        return 11

    def __float__(self):
        return 2.5

    def __complex__(self):
        return 1j

    def __index__(self):
        return 2

    def __bool__(self):
        return False

    def __str__(self):
        return "str!"

    def __repr__(self):
        return "repr!"

    def __format__(self, spec):
        return f"<{spec}>"

    def __bytes__(self):
        return b"bytes!"

    def __lshift__(self, other):
        return ("<<", other)

    def __rand__(self, other):
        return ("r&", other)

    def __floordiv__(self, other):
        return ("//", other)


@program
def operators_binary(x):
    n = Num(x)
    return (n + 1).v, (n + n).v, 5 + n, (n * 2).v, n << 3, 4 & n, n // 2


@program
def operators_not_implemented(x):
    n = Num(x)
    out = [3 - n]
    try:
        n - 3
    except TypeError as error:
        out.append(str(error))
    return out, x


@program
def operators_in_place(x):
    n = m = Num(x)
    n *= 2
    k = n
    k += 1
    return n is m, n.v, k is n, k.v


@program
def operators_matmul(x):
    n = Num(1)
    return n @ 3, 3 @ n, x


@program
def operators_unary(x):
    n = Num(x)
    return (-n).v, +n is n, abs(n), ~n


@program
def operators_power(x):
    n = Num(x)
    return n**2, 2**n, pow(n, 2, 5), pow(n, 3), x


@program
def operators_divmod(x):
    return divmod(Num(1), 2), divmod(2, Num(1)), x


@program
def operators_rounding(x):
    n = Num(1)
    return round(n), round(n, 2), round(n, ndigits=None), x


@program
def operators_conversions(x):
    n = Num(1)
    return int(n), float(n), complex(n), bool(n), not n, str(n), repr(n), bytes(n), [1, 2, 3][n], range(n), x


@program
def operators_texts(x):
    n = Num(1)
    return f"{n} {n!r} {n!s:>6} {n:abc}", format(n, "q"), "%s %r" % (n, n), "{} {!r}".format(n, n), x


class Seq:
    def __init__(self, *items):
        self.items = list(items)

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)


@program
def sequence_by_getitem(x):
    s = Seq(x, 1, "b")
    return list(s)[1:], len(s), "b" in s, "z" in s, list(reversed(s))[0], [k for k in s][1], s[-1], s[0:2]


@program
def sequence_by_getitem_unpacked(x):
    a, b, *c = Seq(x, 1, 2, 3)
    return a, b, c, [*Seq(4, 5)], max(Seq(1, 9, 3)), sum(Seq(1, 2)), sorted(Seq(3, 1)), tuple(Seq(x))


class Full:
    def __init__(self):
        self.log = []

    def __getitem__(self, k):
        self.log.append(("get", k))
        return k

    def __setitem__(self, k, v):
        self.log.append(("set", k, v))

    def __delitem__(self, k):
        self.log.append(("del", k))

    def __contains__(self, k):
        return k == 3

    def __iter__(self):
        yield from (1, 2)

    def __reversed__(self):
        return iter("rev")

    def __length_hint__(self):
        return 3

    def __call__(self, *a, **k):
        return a, k


@program
def container_protocol(x):
    f = Full()
    f[1:2, ..., None] = x
    f[1] += 5
    del f["k"]
    got = f[::2]
    return f.log, 3 in f, 4 in f, list(f), list(reversed(f)), f(1, *[2], k=x), callable(f), got


@functools.total_ordering
class Version:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts

    __hash__ = None


@program
def ordering_total(x):
    a, b = Version(1, 2), Version(1, 3)
    return a < b, a <= b, a > b, a >= b, a != b, max(a, b).parts, [v.parts for v in sorted([b, a])], x


@program
def hash_none_refused(x):
    try:
        hash(Version(1))
    except TypeError as error:
        return str(error), x


class Left:
    def __eq__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return "lt"


class Right(Left):
    def __eq__(self, other):
        return "right"

    def __gt__(self, other):
        return "gt"


@program
def comparison_reflected(x):
    return Left() == Right(), Left() < Right(), Right() > 1, Left() == 1, Left() != 1, 1 > Left(), x


@program
def comparison_not_supported(x):
    out = []
    for f in (lambda: Left() >= 1, lambda: 1 < "a", lambda: None < None, lambda: [] < {}):
        try:
            out.append(f())
        except TypeError as error:
            out.append(str(error))
    return out, x


class Attributes:
    def __init__(self):
        self.__dict__["log"] = []

    def __getattr__(self, name):
        if name.startswith("no"):
            raise AttributeError(name)
        return ("got", name)

    def __setattr__(self, name, value):
        self.log.append((name, value))

    def __delattr__(self, name):
        self.log.append(("del", name))

    def __dir__(self):
        return ["b", "a"]


@program
def attributes_by_methods(x):
    a = Attributes()
    a.k = x
    del a.z
    setattr(a, "j", 1)
    delattr(a, "w")
    return a.log, a.q, hasattr(a, "nope"), getattr(a, "none", 5)


class Reading:
    def __init__(self):
        self.real = 1

    def __getattribute__(self, name):
        if name == "magic":
            return object.__getattribute__(self, "real") + 10
        return super().__getattribute__(name)


@program
def attributes_by_getattribute(x):
    r = Reading()
    return r.magic, r.real, hasattr(r, "none"), x


class Manager:
    def __enter__(self):
        return "in"

    def __exit__(self, *args):
        self.args = args
        return True


@program
def manager_swallows(x):
    m = Manager()
    with m as got, m:
        y = x + 1
        raise ValueError("v")
    return got, m.args[0] is None, y


_WRONG_ANSWERS = {
    "__iter__": (lambda v: [i for i in v], lambda v: list(v), lambda v: iter(v)),
    "__len__": (len, bool, lambda v: 1 if v else 2),
    "__bool__": (bool, lambda v: not v, lambda v: (v or 3) is v),
    "__index__": (int, float, lambda v: [1, 2, 3][v]),
    "__str__": (str, lambda v: f"{v}"),
    "__repr__": (repr, lambda v: f"{v!r}", str),
    "__format__": (lambda v: f"{v}", lambda v: format(v, "a")),
    "__bytes__": (bytes,),
    "__complex__": (complex,),
    "__float__": (float,),
}


@program
def break_at_special_methods_that_give_what_they_must_not(x):
    found = []
    for name, uses in _WRONG_ANSWERS.items():
        for answer in (-1, 2.5, "s", None, True, 2**40, [1], b"x"):
            # Comprehensions and unpacking go on with what `__iter__` gave: it must be an iterator.
            made = type("Answers", (), {name: lambda self, *spec, answer=answer: answer})()
            for use in uses:
                try:
                    found.append(use(made))
                except (TypeError, ValueError, OverflowError, IndexError) as error:
                    found.append((type(error).__name__, str(error)))
    return x + len(found), found


class _Stream:
    pass


@program
def print_as_it_was_once(x):
    try:
        print >> _Stream()
    except TypeError as error:
        return str(error), x + 1
