"""Hooks that classes, metaclasses and copying look for, and the built-ins that a function was made with."""

from __future__ import annotations

import builtins
import copy
import copyreg
import functools
import types

from .table import changed, family, vector

program = family("hooks")


@program
def single_dispatch(call):
    @functools.singledispatch
    def go(v, x):
        return x + 1

    @go.register(int)
    def _(v, x):
        return x + 2

    def f(x, v):
        return go(v, x)

    call(f, vector(), 1)
    call(f, vector(), "a")
    go.register(str)(lambda v, x: x + 9)
    call(f, vector(), "a")
    call(f, vector(), 1)


@program
def same_code_hidden_builtin(call):
    code = compile("def f(x):\n    return x * len([1, 2])\n", "t", "exec").co_consts[0]
    fs = [
        types.FunctionType(code, ns)
        for ns in ({"__builtins__": builtins}, {"__builtins__": builtins, "len": lambda v: 7})
    ]

    def g(x, f):
        return f(x)

    for f in (*fs, fs[0]):
        call(g, vector(), f)
    for f in (*fs, fs[0]):
        call(f, vector())


@program
def own_builtins(call):
    code = compile("def f(x):\n    return x * pick()\n", "t", "exec").co_consts[0]
    mine = {"pick": lambda: 4}
    f = types.FunctionType(code, {"__builtins__": mine})

    def g(x):
        return f(x)

    call.across(changed(mine, "pick", lambda: 6), g, vector())
    f.__globals__["__builtins__"] = {"pick": lambda: 100}
    call(g, vector())


@program
def class_getitem(call):
    class A:
        def __class_getitem__(cls, i):
            return i * 2

    call.across(changed(A, "__class_getitem__", classmethod(lambda c, i: i + 7)), lambda x: x * A[3], vector())


@program
def meta_getitem(call):
    class M(type):
        def __getitem__(cls, i):
            return i * 2

        def __len__(cls):
            return 3

        def __contains__(cls, v):
            return v == 1

        def __iter__(cls):
            return iter([1, 2])

        def __bool__(cls):
            return True

        def __call__(cls, *a):
            return 5

        def __add__(cls, o):
            return 8

        def __eq__(cls, o):
            return True

        __hash__ = type.__hash__

        def __getattr__(cls, n):
            return 12

    class A(metaclass=M):
        pass

    for body in (
        lambda x: x * A[3],
        lambda x: x * len(A),
        lambda x: x * (2 if 1 in A else 3),
        lambda x: x * sum(A),
        lambda x: x * (2 if A else 3),
        lambda x: x * A(1),
        lambda x: x * (A + 1),
        lambda x: x * (2 if A == 1 else 3),
        lambda x: x * A.missing,
    ):
        call(body, vector())
        for n, v in {
            "__getitem__": lambda c, i: i,
            "__len__": lambda c: 9,
            "__contains__": lambda c, v: False,
            "__iter__": lambda c: iter([5]),
            "__bool__": lambda c: False,
            "__call__": lambda c, *a: 7,
            "__add__": lambda c, o: 1,
            "__eq__": lambda c, o: False,
            "__getattr__": lambda c, n: 4,
        }.items():
            with changed(M, n, v):
                call(body, vector())


@program
def copy_hooks(call):
    class A:
        def __init__(self):
            self.k = 1

    a = A()

    def f(x):
        return x * copy.copy(a).k

    def other(s):
        b = A()
        b.k = 8
        return b

    call.across([changed(A, "__copy__", other), changed(a, "k", 4)], f, vector())

    def g(x):
        return x * copy.deepcopy(a).k

    call.across([changed(A, "__deepcopy__", lambda s, m: other(s)), changed(a, "k", 4)], g, vector())

    def h(x):
        return x * copy.copy(a).k

    call(h, vector())
    copyreg.dispatch_table[A] = lambda o: (other, (o,))
    call(h, vector())
    call(g, vector())
    del copyreg.dispatch_table[A]


@program
def module_getattr_hook(call):
    user = types.ModuleType("user")

    def f(x):
        return x * getattr(user, "k", 3)

    call.across([changed(user, "__getattr__", lambda n: 8), changed(user, "k", 5)], f, vector())


@program
def subclasses(call):
    class A:
        pass

    class B(A):
        pass

    def f(x):
        return x * len(A.__subclasses__())

    call(f, vector())

    class C(A):
        pass

    call(f, vector())
