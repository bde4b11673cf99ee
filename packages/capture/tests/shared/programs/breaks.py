# ruff: noqa
"""Graph breaks in each place where there can be one."""

from __future__ import annotations

import contextlib
import time
import weakref

import torch
import torch.nn.functional as F

from .classes import Plain
from .exceptions import Manager, managed
from .registry import program


def _breaks_inside(x):
    y = x * 3
    s = float((y * 0).sum())
    return y + s


@program
def break_on_value(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y - 1


@program
def break_in_loop(x):
    out = []
    for i in range(4):
        x = x * 0.5 + i
        if x.mean() > 1:
            out.append(i)
            continue
        out.append(x.sum().item() > 0)
    return x, out


@program
def break_in_with(x):
    log = []
    with Manager(log), torch.no_grad():
        y = x + 1
        k = int(y.sum().item() > 0)
        y = y * k
        g = torch.is_grad_enabled()
    return y, log, g, torch.is_grad_enabled()


@program
def break_in_try(x):
    out = []
    try:
        y = x * 2
        n = int(y.abs().max().item() * 0)
        z = 1 // n
    except ZeroDivisionError as e:
        out.append(str(e))
        z = y + 1
    finally:
        out.append("f")
    return z, out


@program
def break_in_handler(x):
    try:
        raise KeyError("k")
    except KeyError as e:
        y = x * 2
        n = float((y * 0).sum())
        name = e.args[0]
    return y + n, name


@program
def break_in_call(x):
    a = [_breaks_inside(x + i) for i in range(2)]
    return sum(a), _breaks_inside(a[0]) + _breaks_inside(a[1])


@program
def break_in_expression(x):
    y = x + 1
    return (y * 2, [float((y * 0).sum()), y - 1], {"k": int((y * 0).sum().item())}, f"{y.shape}{int((y * 0).max())}")


@program
def break_with_live_objects(x):
    p = Plain(x)
    q = [p, p]
    d = {"p": p, "q": q}
    n = int((x * 0).sum())
    p.v = p.v + n
    return q[0] is p, d["q"] is q, q[1].v, d["p"].double


@program
def break_in_method(x):
    class Local:
        def __init__(self, v):
            self.v = v

        def run(self):
            self.v = self.v + int((self.v * 0).sum())
            return self.v

    return Local(x).run()


@program
def break_in_generator(x):
    def g():
        for i in range(3):
            yield x + float((x * 0).sum()) + i

    return list(g()), sum(g())


@program
def break_with_cells(x):
    n = 1

    def add(y):
        return y + n

    a = add(x)
    n = 2 + int((a * 0).sum())
    b = add(x)

    def later():
        nonlocal n
        n += 1
        return n

    later()
    return a, b, n


@program
def break_with_loop_state(x):
    names = ["a", "b", "c"]
    total = []
    for i, (name, k) in enumerate(zip(names, range(3), strict=True)):
        x = x + k
        if (x * 0).sum() == 0:
            total.append((i, name))
    return x, total


@program
def break_in_nested_calls(x):
    def inner(a):
        return a + int((a * 0).sum())

    def outer(a, *, k):
        b = a * k
        return {"r": inner(b) + b}

    return outer(x, k=2)["r"] * outer(x, k=3)["r"]


@program
def break_with_started_generator(x):
    def count():
        for i in range(4):
            yield x + i

    g = count()
    first = next(g)
    n = int((first * 0).sum())
    return first, next(g) + n, list(g)


@program
def break_with_started_iterators(x):
    it = enumerate(zip([1, 2, 3], "abc"))
    d = iter({"a": 1, "b": 2}.items())
    r = reversed([1, 2, 3])
    got = [next(it), next(d), next(r)]
    n = int((x * 0).sum())
    return got, list(it), list(d), list(r), x + n


@program
def break_with_context_manager_generator(x):
    log = []
    with managed(log, 3) as v, contextlib.suppress(KeyError):
        y = x + v + int((x * 0).sum())
        log.append("in")
        raise KeyError(y.shape[0])
    return y, log


@program
def break_in_finally(x):
    log = []
    try:
        y = x + 1
    finally:
        log.append(int((x * 0).sum()))
    return y, log


@program
def break_in_while(x):
    n = 0
    while n < 3 and (x * 0).sum() == 0:
        n += 1
        x = x + n
    return x, n


@program
def break_in_unpacking(x):
    a, (b, *c) = x[0, 0].item() * 0, x.unbind(0)
    return a, b, c


@program
def break_in_comprehension_condition(x):
    i = "kept"
    out = {j: y for j, y in enumerate(x.unbind(0)) if y.sum() == y.sum()}
    return out, i


@program
def break_in_keyword_call(x):
    return dict(a=x + 1, b=float((x * 0).sum()), c=[x]), torch.add(x, x, alpha=int((x * 0).sum()) + 2)


@program
def break_in_class_body_use(x):
    class K:
        v = int((x * 0).sum()) + 1

        def m(self):
            return x * self.v

    return K().m()


@program
def break_in_return_expression(x):
    return [x + 1, x.sum().item() * 0, x + 2][int((x * 0).sum())]


@program
def break_in_delete(x):
    d = {"a": x, "b": 1}
    k = "ab"[int((x * 0).sum())]
    y = d[k] + 1
    del d[k]
    return y, d


@program
def break_in_match(x):
    match int((x * 0).sum()):
        case 0:
            y = x + 1
        case _:
            y = x - 1
    return y


@program
def break_in_recursion(x):
    def walk(t, n):
        if n == 0:
            return t
        return walk(t + int((t * 0).sum()) + 1, n - 1) * 2

    return walk(x, 3)


@program
def break_in_property(x):
    class P:
        @property
        def p(self):
            return int((x * 0).sum()) + 5

        def __enter__(self):
            return self.p

        def __exit__(self, *args):
            return False

    with P() as v:
        return x * v


@program
def break_in_sort_key(x):
    rows = list(x.unbind(0))
    return sorted(rows, key=lambda r: -r.sum().item()), max(rows, key=lambda r: r[0].item())


@program
def break_in_global_function(x):
    return [F.relu(t) for t in x.unbind(0) if bool(t.sum() == t.sum())]


@program
def break_with_recursive_closure(x):
    def make():
        def fact(n):
            return 1 if n < 2 else n * fact(n - 1)

        return fact

    f = make()
    n = int((x * 0).sum())
    return x * f(4) + n, f(3)


class Kept:
    """What can be referred to weakly."""


@program
def break_in_generator_expression(x):
    kept = [Kept(), Kept()]
    total = x + 1
    float(total.sum())
    references = tuple(weakref.ref(each) for each in kept)
    return total * sum(1 for each in references if each() is not None), len(kept)


def _looks_at_its_locals(x, k):
    y = x * k
    return y, sorted(locals())


@program
def break_in_a_call_that_looks_at_its_locals(x):
    y, names = _looks_at_its_locals(x + 1, 2)
    return y * 2, names


def _told(read):
    try:
        return read()
    except NameError as error:
        return type(error).__name__, str(error)


@program
def break_before_an_emptied_cell_is_read(x):
    def inner():
        return y

    y = x + 1
    del y
    time.perf_counter_ns()
    try:
        found = y
    except NameError as error:
        found = type(error).__name__, str(error)
    return found, _told(inner)


@program
def break_before_a_cell_is_filled(x):
    def inner():
        return y

    time.perf_counter_ns()
    first = _told(inner)
    try:
        del y
    except NameError as error:
        first = first, type(error).__name__, str(error)
    y = x
    return first, inner()


@program
def break_before_an_emptied_cell_lets_out(x):
    def inner():
        return y

    y = x + 1
    del y
    time.perf_counter_ns()
    return y
