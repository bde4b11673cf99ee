"""Functions that remember: ``lru_cache``, ``cache``, dispatch tables."""

from __future__ import annotations

import functools
import types

from .table import changed, family, vector

program = family("caches")


def counted():
    seen = []

    @functools.lru_cache(maxsize=2)
    def factor(k):
        seen.append(k)
        return [k]

    return seen, factor


@program
def effects_are_not_repeated(call):
    seen, factor = counted()
    call.state = seen
    for k in (2, 2, 3, 2):
        call(lambda x: x * factor(k)[0], vector())


@program
def one_caller(call):
    seen, factor = counted()
    call.state = seen

    def f(x, k):
        return x * factor(k)[0]

    for k in (2, 2, 3, 4, 2):
        call(f, vector(), k)
        call.note(factor.cache_info())


@program
def identity(call):
    _seen, factor = counted()

    def f(x):
        return x + 1, factor(2) is factor(2), factor(2)

    first, second = call(f, vector())[2], call(f, vector())[2]
    call.note(first is second, first is factor(2))


@program
def cleared(call):
    seen, factor = counted()
    call.state = seen

    def f(x):
        return x * factor(2)[0]

    call(f, vector())
    factor.cache_clear()
    call(f, vector())
    call.note(factor.cache_info())


@program
def cleared_within(call):
    seen, factor = counted()
    call.state = seen

    def f(x):
        factor.cache_clear()
        return x * factor(2)[0]

    call(f, vector())
    call(f, vector())
    call.note(factor.cache_info())


@program
def information_read(call):
    _seen, factor = counted()

    def f(x):
        factor(2)
        return x * (factor.cache_info().hits + 1)

    for _ in range(3):
        call(f, vector())


@program
def remembered_value_mutated(call):
    _seen, factor = counted()

    def f(x):
        return x * factor(2)[0]

    call(f, vector())
    factor(2)[0] = 9
    call(f, vector())


@program
def stays_when_the_body_changes(call):
    space = types.SimpleNamespace(k=2)

    @functools.cache
    def factor():
        return space.k

    call.across(changed(space, "k", 5), lambda x: x * factor(), vector())
    factor.cache_clear()
    call(lambda x: x * factor(), vector())


@program
def method_of_class(call):
    seen = []
    call.state = seen

    class Holder:
        @functools.cache
        def factor(self, k):
            seen.append(k)
            return k + 1

    holder, other = Holder(), Holder()

    def f(x, holder, k):
        return x * holder.factor(k)

    for owner, k in ((holder, 1), (holder, 1), (other, 1), (holder, 2)):
        call(f, vector(), owner, k)


@program
def types_of_arguments(call):
    seen = []
    call.state = seen

    @functools.lru_cache(typed=True)
    def factor(k):
        seen.append(k)
        return k + 1

    def f(x, k):
        return x * factor(k)

    for k in (1, 1.0, True, 1):
        call(f, vector(), k)


@program
def tensor_argument(call):
    seen = []
    call.state = seen

    @functools.lru_cache
    def doubled(x):
        seen.append(tuple(x.shape))
        return x * 2

    def f(x):
        return doubled(x) + 1

    x = vector()
    call(f, x)
    call(f, x)
    x.add_(1)
    call(f, x)
    call(f, vector())


@program
def wrapped_body_called(call):
    seen, factor = counted()
    call.state = seen

    def f(x):
        return x * factor.__wrapped__(2)[0]

    call(f, vector())
    call(f, vector())


@program
def attribute_of_cached_function(call):
    _seen, factor = counted()
    factor.k = 2
    call.across(changed(factor, "k", 3), lambda x: x * factor.k, vector())


@program
def recursion(call):
    seen = []
    call.state = seen

    @functools.cache
    def fib(n):
        seen.append(n)
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def f(x, n):
        return x * fib(n)

    for n in (5, 5, 6):
        call(f, vector(), n)


@program
def exception_is_not_remembered(call):
    seen = []
    call.state = seen

    @functools.cache
    def factor(k):
        seen.append(k)
        if len(seen) < 3:
            raise ValueError(str(k))
        return k

    def f(x):
        try:
            return x * factor(2)
        except ValueError as error:
            return x, str(error)

    for _ in range(4):
        call(f, vector())


@program
def single_dispatch(call):
    @functools.singledispatch
    def factor(k):
        return 2

    def f(x, k):
        return x * factor(k)

    call(f, vector(), 1)
    factor.register(int, lambda k: 3)
    call(f, vector(), 1)
    factor.register(bool, lambda k: 5)
    call(f, vector(), True)
    call(f, vector(), "a")


@program
def module_level_table(call):
    table = {}
    call.state = table

    def factor(k):
        if k not in table:
            table[k] = k + 1
        return table[k]

    def f(x, k):
        return x * factor(k)

    for k in (1, 1, 2):
        call(f, vector(), k)
    table[1] = 50
    call(f, vector(), 1)
    table.clear()
    call(f, vector(), 1)
