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


def told_after_each(call, factor, f, *arguments):
    """Calls, each followed by what the cache says of itself."""
    for args in arguments:
        call(f, vector(), *args)
        call.note(factor.cache_info())


@program
def hits_are_counted(call):
    for decorate in (functools.cache, functools.lru_cache, functools.lru_cache(maxsize=5, typed=True)):

        @decorate
        def factor(k):
            return k + 1

        def f(x, k, factor=factor):
            return x * factor(k) + factor(k) + factor(2)

        told_after_each(call, factor, f, (1,), (1,), (2,), (1,), (1.0,), (True,), (1,))


@program
def entries_are_evicted(call):
    @functools.lru_cache(maxsize=2)
    def factor(k):
        return [k]

    def f(x, k):
        factor(k).append(k)
        return x * len(factor(k))

    told_after_each(call, factor, f, (1,), (2,), (3,), (1,), (1,), (2,), (3,), (1,), (2,), (1,))


@program
def evicted_from_outside(call):
    @functools.lru_cache(maxsize=2)
    def factor(k):
        return [k]

    def f(x):
        return x * len(factor(1))

    told_after_each(call, factor, f, (), ())
    for k in (1, 2, 3, 1):
        factor(k).append(k)
        told_after_each(call, factor, f, (), ())


@program
def nothing_is_remembered(call):
    @functools.lru_cache(maxsize=0)
    def factor(k):
        return k + 1

    def f(x):
        return x * factor(1)

    told_after_each(call, factor, f, (), ())


@program
def keywords_make_other_keys(call):
    @functools.lru_cache
    def factor(k=1, *, j=2):
        return k * j

    def f(x, k):
        return x * factor(k) + factor(k=k) + factor(k, j=3) + factor(j=3, k=k) + factor()

    told_after_each(call, factor, f, (1,), (1,), (2,), (1,))


@program
def break_between_calls(call):
    @functools.lru_cache
    def factor(k):
        return k + 1

    def f(x):
        y = x * factor(1)
        compile("0", "", "eval")
        return y * factor(1) + factor(2)

    told_after_each(call, factor, f, (), (), ())


@program
def nested_caches(call):
    @functools.cache
    def inner(k):
        return k + 1

    @functools.cache
    def outer(k):
        return inner(k) * inner(k)

    def f(x, k):
        return x * outer(k) + inner(k)

    told_after_each(call, inner, f, (1,), (1,), (2,))
    told_after_each(call, outer, f, (1,), (3,), (3,))


@program
def not_a_python_function(call):
    whole = functools.lru_cache(int)

    def f(x):
        return x * whole("2")

    told_after_each(call, whole, f, (), ())


@program
def argument_that_has_no_hash(call):
    @functools.cache
    def factor(ks):
        return sum(ks)

    def f(x, ks):
        return x * factor(ks)

    told_after_each(call, factor, f, ((1, 2),), ([1, 2],), ((1, 2),))


@program
def compiled_itself(call):
    @functools.lru_cache
    def doubled(x):
        return x * 2

    x = vector()
    first, second = call(doubled, x), call(doubled, x)
    call.note(first is second, doubled.cache_info())
