# ruff: noqa
"""Generators and coroutines: what is sent, thrown and returned; delegation; generators that outlive their frame."""

from __future__ import annotations


import gc
import sys
import types
import warnings
import torch

from .registry import program


class Countdown:
    def __init__(self, n, x):
        self.n, self.x = n, x

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.n == 0:
            raise StopAsyncIteration
        self.n -= 1
        return self.x * self.n


class Entered:
    def __init__(self, log, value):
        self.log, self.value = log, value

    async def __aenter__(self):
        self.log.append("enter")
        return self.value

    async def __aexit__(self, cls, value, tb):
        self.log.append(("exit", cls))
        return cls is ValueError


class Pause:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        got = yield self.value
        return got


class Tree:
    def __init__(self, value, *children):
        self.value, self.children = value, children

    def __iter__(self):
        yield self.value
        for child in self.children:
            yield from child


class Once:
    def __init__(self, x):
        self.n, self.x = 0, x

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n > 2:
            raise StopIteration(self.n)
        return self.x * self.n


@program
def generator_send(x):
    def running():
        total = x * 0
        while True:
            got = yield total
            if got is None:
                return total
            total = total + got

    g = running()
    out = [next(g), g.send(x), g.send(2)]
    try:
        g.send(None)
    except StopIteration as stop:
        out.append(stop.value)
    return out


@program
def generator_throw(x):
    log = []

    def guarded():
        while True:
            try:
                got = yield x + len(log)
                log.append(("got", got))
            except ValueError as e:
                log.append(("caught", e.args))
            finally:
                log.append("finally")

    g = guarded()
    a = next(g)
    b = g.throw(ValueError("bad", 1))
    c = g.send(3)
    try:
        g.throw(KeyError("out"))
    except KeyError as e:
        log.append(e.args)
    return a, b, c, log, list(g)


@program
def generator_close(x):
    log = []

    def closing():
        try:
            yield x
            yield x + 1
        except GeneratorExit:
            log.append("exit")
            raise
        finally:
            log.append("finally")

    g = closing()
    first = next(g)
    g.close()
    g.close()
    unstarted = closing()
    unstarted.close()
    return first, log, next(g, None), list(unstarted)


@program
def generator_ignores_exit(x):
    def stubborn():
        try:
            yield x
        except GeneratorExit:
            yield x + 1

    g = stubborn()
    next(g)
    try:
        g.close()
    except RuntimeError as e:
        return str(e)


@program
def delegated_throw(x):
    log = []

    def inner():
        try:
            yield x
        except ValueError as e:
            log.append(("inner", str(e)))
            got = yield x * 2
            log.append(got)
            return "inner done"

    def outer():
        result = yield from inner()
        log.append(result)
        yield x * 3

    g = outer()
    return next(g), g.throw(ValueError("v")), g.send("sent"), log


@program
def delegated_close(x):
    log = []

    def inner():
        try:
            yield x
        finally:
            log.append("inner closed")

    def outer():
        try:
            yield from inner()
        finally:
            log.append("outer closed")

    g = outer()
    first = next(g)
    g.close()
    return first, log


@program
def delegated_throw_ends_inner(x):
    def inner():
        try:
            yield x
        except KeyError:
            return x + 100

    def outer():
        got = yield from inner()
        yield got * 2

    g = outer()
    next(g)
    return g.throw(KeyError)


@program
def delegation_to_iterators(x):
    def outer():
        a = yield from [x, x + 1]
        b = yield from Once(x)
        c = yield from (x - i for i in range(2))
        yield (a, b, c)

    return list(outer())


@program
def generator_returns(x):
    def f(n):
        yield x
        return n, x * n

    def g():
        return (yield from f(2))

    it = g()
    next(it)
    try:
        next(it)
    except StopIteration as e:
        return e.value, e.args


@program
def generator_stop_inside(x):
    def f():
        yield x
        raise StopIteration(3)

    out = []
    try:
        for v in f():
            out.append(v)
    except RuntimeError as e:
        out.append((str(e), type(e.__cause__).__name__))
    return out


@program
def generator_attributes(x):
    def named():
        yield x
        yield x + 1

    g = named()
    before = (g.__name__, g.__qualname__.rpartition(".")[2], g.gi_running, g.gi_yieldfrom)
    next(g)
    return before, type(g).__name__, iter(g) is g, g.gi_suspended, list(g)


@program
def generator_expressions_nest(x):
    rows = ((i, j) for i in range(3) for j in range(i) if (i + j) % 2)
    scaled = (x * i + j for i, j in rows)
    late = 10
    lazy = (v + late for v in scaled)
    late = 20
    return list(lazy)


@program
def generator_pipeline(x):
    def source(n):
        for i in range(n):
            yield x + i

    def only(pred, it):
        for k, v in enumerate(it):
            if pred(k):
                yield v

    def window(it, n):
        held = []
        for v in it:
            held.append(v)
            if len(held) == n:
                yield sum(held)
                held.pop(0)

    return list(window(only(lambda k: k != 1, source(6)), 2))


@program
def generator_unfinished(x):
    log = []

    def f():
        try:
            for i in range(5):
                yield x * i
        finally:
            log.append("closed")

    g = f()
    for v in g:
        if len(log) == 0:
            break
    kept = next(g)
    g.close()
    return v, kept, log


@program
def generator_in_class(x):
    return list(Tree(x, Tree(x + 1, Tree(x + 2)), Tree(x + 3)))


@program
def generator_recursion(x):
    def permutations(items):
        if len(items) <= 1:
            yield items
            return
        for i in range(len(items)):
            for rest in permutations(items[:i] + items[i + 1 :]):
                yield [items[i], *rest]

    return [sum(v * k for k, v in enumerate(p)) for p in permutations([x, x + 1, 3])]


@program
def generator_of_exceptions(x):
    def f():
        for i in range(3):
            try:
                yield x / i if i else 1 // i
            except ZeroDivisionError:
                yield "zero"

    def g():
        try:
            yield 1 // 0
        except ZeroDivisionError as e:
            yield str(e)

    return list(g()), list(f())[1:]


@program
def coroutine_driven(x):
    async def child(n):
        return x * n

    async def main():
        a = await child(2)
        b = await child(3)
        return a + b

    c = main()
    try:
        c.send(None)
    except StopIteration as stop:
        return stop.value


@program
def coroutine_suspends(x):
    async def main():
        first = await Pause(x)
        second = await Pause(first + 1)
        return first * second

    c = main()
    out = [c.send(None), c.send(x + 1)]
    try:
        c.send(3)
    except StopIteration as stop:
        out.append(stop.value)
    return out


@program
def coroutine_managers(x):
    log = []

    async def main():
        async with Entered(log, x * 2) as got:
            out = got + 1
        async with Entered(log, None):
            raise ValueError
        return out

    try:
        main().send(None)
    except StopIteration as stop:
        return stop.value, log


@program
def coroutine_iterates(x):
    async def count(n):
        for i in range(n):
            yield x + i

    async def main():
        out = []
        async for v in count(2):
            out.append(v)
        async for v in Countdown(2, x):
            out.append(v)
        else:
            out.append("end")
        return out + [v async for v in count(3) if v is not None]

    try:
        main().send(None)
    except StopIteration as stop:
        return stop.value


@program
def coroutine_errors(x):
    async def fails():
        raise KeyError("k")

    async def main():
        try:
            await fails()
        except KeyError as e:
            return x, e.args

    c = main()
    try:
        c.send(None)
    except StopIteration as stop:
        got = stop.value
    try:
        c.send(None)
    except RuntimeError as e:
        return got, str(e)


def _closing(log, x):
    try:
        for i in range(5):
            yield x * i
    finally:
        log.append("closed")


@program
def generator_left_by_break(x):
    log = []
    for v in _closing(log, x):
        log.append("item")
        break
    log.append("after")
    return v, log


@program
def generator_left_break(x):
    log = []
    g = _closing(log, x)
    return next(g), log


@program
def generator_replaced_break(x):
    log = []
    g = _closing(log, x)
    a = next(g)
    g = None
    log.append("after")
    return a, log


@program
def generator_left_by_zip_break(x):
    log = []
    pairs = list(zip([1], _closing(log, x), strict=False))
    log.append("after")
    return pairs, log


@program
def generator_handles_while_suspended(x):
    def f():
        try:
            raise ValueError("own")
        except ValueError:
            yield x
            try:
                raise
            except ValueError as e:
                yield e.args

    out = []
    g = f()
    next(g)
    try:
        raise KeyError("outer")
    except KeyError:
        out.append(next(g))
        try:
            raise
        except KeyError as e:
            out.append(e.args)
    return x, out


def _waits():
    try:
        yield 1
    except ValueError as error:
        yield error.args


@program
def thrown_what_is_no_exception(x):
    seen = []
    for thrown in (int, 5, "x", IndexError, ValueError, ValueError(3)):
        made = _waits()
        next(made)
        try:
            seen.append(made.throw(thrown))
        except Exception as error:
            seen.append((type(error), str(error)))
    return seen, x + 1


@program
def thrown_while_another_is_handled(x):
    def inner():
        yield

    def outer():
        try:
            raise KeyError("a")
        except KeyError:
            yield from inner()

    made = outer()
    made.send(None)
    try:
        made.throw(ValueError)
    except ValueError as error:
        return type(error.__context__), error.__context__.args, x + 1


async def _answer():
    return 1


def _delegates():
    made = _answer()
    try:
        yield from made
    finally:
        made.close()


@program
def delegates_to_a_coroutine(x):
    try:
        list(_delegates())
    except TypeError as error:
        return str(error), x + 1


@program
def never_awaited_breaks(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _answer()
        gc.collect()
    return [str(each.message) for each in told], x + 1


@program
def where_a_coroutine_was_made_breaks(x):
    sys.set_coroutine_origin_tracking_depth(1)
    try:
        made = _answer()
        origin = made.cr_origin
        made.close()
    finally:
        sys.set_coroutine_origin_tracking_depth(0)
    return origin, x + 1


class Gives:
    """Its special methods give what they are told."""

    def __init__(self, given):
        self.given = given

    def __await__(self):
        return self.given

    def __aiter__(self):
        return self

    def __anext__(self):
        return self.given

    def __aenter__(self):
        return self.given

    def __aexit__(self, *error):
        return self.given


class Leaves(Gives):
    async def __aenter__(self):
        return self


class Fails:
    def __await__(self):
        raise KeyError("await")


@types.coroutine
def _marked():
    yield 1


async def _awaits(given):
    return await given


async def _iterates(given):
    async for each in given:
        return each


async def _enters(given):
    async with given:
        return given


async def _fails_within(given):
    async with given:
        raise ZeroDivisionError


@program
def what_asynchronous_methods_give_is_refused(x):
    child = _answer()
    told = []
    for main, given in (
        (_awaits, 3),
        (_awaits, Gives(None)),
        (_awaits, Gives(child)),
        (_awaits, Gives(_marked())),
        (_awaits, Gives(Gives(1))),
        (_awaits, Gives([1])),
        (_awaits, Gives(iter([1]))),
        (_awaits, _marked()),
        (_iterates, 3),
        (_iterates, Gives(())),
        (_iterates, Gives(Gives(None))),
        (_iterates, Gives(Fails())),
        (_enters, 3),
        (_enters, Gives(1)),
        (_enters, Gives(Gives(None))),
        (_enters, Leaves(2)),
        (_fails_within, Leaves(2)),
        (_fails_within, Leaves(Fails())),
    ):
        try:
            told.append(main(given).send(None))
        except Exception as error:
            cause, context = error.__cause__, error.__context__
            told.append((type(error), error.args, type(cause), type(context), error.__suppress_context__))
    child.close()
    return x + 1, told
