# ruff: noqa
"""Small programs over tensors and plain Python, run eagerly and captured by ``test_programs``.

Each entry of ``PROGRAMS`` is a function of a tensor (or two); everything it returns, raises or changes is compared.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

PROGRAMS: list[Callable[..., Any]] = []


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(fn)
    return fn


# Containers


@program
def lists(x):
    a = [x, x + 1]
    a.append(a[0] * 2)
    a.extend([1, 2])
    a[0] = a[1] - 1
    del a[3]
    a.insert(1, "s")
    b = a[1:3] + [None]
    b.reverse()
    a += [x]
    return a, b, len(a), a.index("s"), a.pop(), a * 2


@program
def alias_kept(x):
    a = [x]
    b = [a, a]
    a.append(x + 1)
    return b, b[0] is b[1], a


@program
def cyclic_list(x):
    a = [x]
    a.append(a)
    return a[1] is a, len(a)


@program
def dicts(x):
    d = {"a": x, 1: x + 1, None: 3, (1, 2): "t"}
    d["b"] = d.pop("a")
    d.update(c=4, a=x)
    d.setdefault("z", []).append(1)
    del d[1]
    other = {**d, "n": 1}
    merged = d | {"m": 2}
    return d, other, merged, list(d), list(d.values())[0], "a" in d, d.get("q", 7), dict(d.items()), len(d)


@program
def ordered_and_default(x):
    od = collections.OrderedDict([("a", x), ("b", 2)])
    od.move_to_end("a")
    dd = collections.defaultdict(list)
    dd["k"].append(x)
    dd["k"].append(2)
    return od, list(od), dd, dd["missing"]


@program
def sets(x):
    s = {1, 2, 3}
    s.add(5)
    s.discard(1)
    t = s & {2, 5} | {7}
    return (x if 5 in s else -x), sorted(t), len(s), s == {2, 3, 5}, s - t == {3}, frozenset([1]) <= {1, 2}


@program
def tuples(x):
    t = (x, 1, (2, 3))
    a, *b = t
    (c, d) = t[2]
    return t + (4,), a, b, c * d, t[::-1][0], t == t, hash((1, 2)) == hash((1, 2)), (1, 2) < (1, 3)


@program
def comprehensions(x):
    ys = [x * i for i in range(4) if i % 2]
    d = {f"k{i}": y for i, y in enumerate(ys)}
    s = {i for i in range(3)}
    g = sum(i * x for i in range(3))
    nested = [[i + j for j in range(2)] for i in range(2)]
    return ys, d, s == {0, 1, 2}, g, nested


@program
def comprehension_scope(x):
    i = 10
    ys = [x + i for i in range(2)]
    return ys, i


@program
def slices(x):
    s = slice(0, 2)
    y = x[..., s], x[0], x[:, None], x[x.shape[0] - 1], x[-1:], x[[0, 1]], x[torch.tensor([0])]
    return y, s.start, [1, 2, 3, 4][s], list(range(10))[slice(None, None, 3)]


@program
def deque(x):
    d = collections.deque([x], maxlen=2)
    d.append(x + 1)
    d.append(x + 2)
    return list(d), d[0], len(d)


# Iteration


@program
def iterators(x):
    out = []
    for i, (a, b) in enumerate(zip([x, x + 1], (1, 2), strict=True), start=5):
        out.append(a * b + i)
    out.extend(map(lambda t, k: t - k, [x, x], [1, 2]))
    out.extend(filter(lambda k: k > 1, [1, 2, 3]))
    it = iter([1, 2, 3])
    out.append(next(it))
    out.extend(it)
    out.append(next(it, "end"))
    for k in reversed([1, 2]):
        out.append(k)
    out.extend(itertools.chain([1], (2,), [x]))
    out.extend(itertools.islice(itertools.count(3), 2))
    out.extend(itertools.product([1, 2], "ab"))
    out.append(functools.reduce(operator.add, [x, x, x]))
    return out


@program
def loops(x):
    n = 0
    while True:
        n += 1
        if n == 2:
            continue
        if n > 4:
            break
        x = x + n
    else:
        x = x * 100
    for i in range(3):
        if i == 5:
            break
    else:
        x = x - 1
    return x, n, i


@program
def generators(x):
    def count(n):
        for i in range(n):
            got = yield x + i
            if got is not None:
                yield got
        return "done"

    def delegate():
        result = yield from count(2)
        yield result

    g = count(3)
    first = next(g)
    sent = g.send(x * 5)
    return list(delegate()), first, sent, list(g), sum(1 for _ in count(3))


@program
def unpacking(x):
    def f(*args, **kwargs):
        return args, sorted(kwargs)

    return f(*[1, 2], x, *(3,), a=1, b=2), max(3, 1, 2), min([4, 2]), [*range(2), *"ab"]


@program
def tensor_iteration(x):
    total = 0
    for row in x:
        total = total + row.sum()
    a, b, *_ = x.unbind(0) if x.shape[0] > 1 else (x, x)
    return total, a, b, len(x)


@program
def builtin_calls(x):
    return (
        any([0, 1]), all([]), sum([1, 2, 3]), abs(-3), round(2.567, 1), divmod(7, 2), pow(2, 3), bool([]), int("7"),
        float("1.5"), str(12), repr("a"), ord("a"), chr(98), list("abc"), sorted([3, 1, 2], reverse=True),
        sorted(["bb", "a"], key=len), isinstance(x, torch.Tensor), isinstance(3, (int, str)), callable(len),
        type(x) is torch.Tensor, hasattr(x, "shape"), hasattr(x, "nope"), getattr(x, "nope", 5), x.abs().sum(),
        math.sqrt(4), math.pi, hex(255), list(map(str, range(3))), tuple(reversed((1, 2))), enumerate,
    )  # fmt: skip


# Functions


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


# Classes


class Plain:
    scale = 3

    def __init__(self, v):
        self.v = v
        self.log = []

    @property
    def double(self):
        return self.v * 2

    @double.setter
    def double(self, value):
        self.v = value / 2

    @classmethod
    def make(cls, v):
        return cls(v + 1)

    @staticmethod
    def helper(v):
        return v - 1

    def __add__(self, other):
        return Plain(self.v + (other.v if isinstance(other, Plain) else other))

    __radd__ = __add__

    def __call__(self, y):
        self.log.append(len(self.log))
        return self.v * y * self.scale

    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i >= 2:
            raise IndexError(i)
        return self.v + i

    def __eq__(self, other):
        return isinstance(other, Plain)

    def __hash__(self):
        return 1

    def __repr__(self):
        return "Plain!"


class Child(Plain):
    def __init__(self, v):
        super().__init__(v)
        self.extra = v + 1

    def __call__(self, y):
        return super().__call__(y) + self.extra

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return self.v + len(name)
        raise AttributeError(name)


@program
def objects(x):
    p = Plain(x)
    p.double = x * 4
    q = Plain.make(x) + p + 1
    c = Child(x)
    c.new = 5
    return (
        p.double, q.v, p(2), p.log, c(x), c.dyn_a, hasattr(c, "nope"), len(p), p[1], bool(p), p == q, Plain.helper(x),
        c.new, f"{p}", str(p), isinstance(c, Plain), type(c) is Child, 1 + p == p,
    )  # fmt: skip


@program
def returned_object(x):
    p = Child(x)
    p.self = p
    return p.v, p.extra, p.self is p


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@program
def slots(x):
    s = Slotted(x)
    s.a = s.a + 1
    return s.a, hasattr(s, "b")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 2
    tags: list = dataclasses.field(default_factory=list)

    def norm(self):
        return self.x * self.x + self.y


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: Any = None


@program
def dataclass(x):
    p = Point(x)
    p.tags.append("t")
    q = dataclasses.replace(p, y=5)
    return p.norm(), q.y, p.tags, [f.name for f in dataclasses.fields(p)], Frozen(1).a, Frozen(1, x).b


class Pair(NamedTuple):
    first: Any
    second: int = 7

    def both(self):
        return self.first + self.second


Triple = collections.namedtuple("Triple", "a b c")


@program
def namedtuples(x):
    p = Pair(x)
    t = Triple(1, x, c=3)
    a, b, c = t
    return p, p.both(), p.second, t, t._replace(a=5).a, b + c, t._asdict()["a"], p[0], Pair._fields


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def other(self):
        return Color.BLUE if self is Color.RED else Color.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(str, enum.Enum):
    A = "a"


@program
def enums(x):
    c = Color.RED
    return (
        x * c.value,
        c.name,
        c.other() is Color.BLUE,
        Color(2) is Color.BLUE,
        Color["RED"] == c,
        [k.name for k in Color],
        x + Level.HIGH,
        Level.LOW < 2,
        Name.A == "a",
        {Color.RED: 1}[c],
    )


# Exceptions


class Custom(ValueError):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


@program
def exceptions(x):
    out = []
    try:
        raise Custom("bad", 7)
    except ValueError as e:
        out.append((e.code, str(e), e.args))
    finally:
        out.append("finally")
    try:
        {}["k"]
    except (IndexError, KeyError) as e:
        out.append(repr(e))
    else:
        out.append("else")
    try:
        try:
            int("x")
        except ValueError as e:
            raise RuntimeError("outer") from e
    except RuntimeError as e:
        out.append(str(e))
    for i in range(3):
        try:
            if i == 1:
                continue
            x = x + i
        finally:
            out.append(i)
    return out, x


def _finally_return(x):
    try:
        return x + 1
    finally:
        x = x * 0


@program
def finally_returns(x):
    return _finally_return(x)


@program
def assertion(x):
    assert x.dim() >= 1, "message"
    try:
        assert x.shape[0] > 10000, f"got {x.shape[0]}"
    except AssertionError as e:
        return str(e), x


@program
def nested_function_raises(x):
    def f(i):
        if i > 1:
            raise KeyError(i)
        return i

    got = []
    for i in range(4):
        try:
            got.append(f(i))
        except KeyError as e:
            got.append(-e.args[0])
    return got, x * sum(got)


# Context managers


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, tb):
        self.log.append(kind.__name__ if kind else None)
        return kind is KeyError


@contextlib.contextmanager
def managed(log, v):
    log.append(v)
    try:
        yield v + 1
    finally:
        log.append("out")


@program
def context_managers(x):
    log = []
    with Manager(log) as m, managed(log, 3) as v:
        x = x + v
    with Manager(log):
        raise KeyError("swallowed")
    with contextlib.suppress(ValueError):
        int("z")
    with contextlib.nullcontext(5) as five:
        x = x * five
    return x, log, m.log is log


@program
def grad_modes(x):
    a = torch.is_grad_enabled()
    with torch.no_grad():
        b = torch.is_grad_enabled()
        y = x * 2
        with torch.enable_grad():
            z = x * 3
    with torch.set_grad_enabled(False):
        w = x + 1
    return a, b, y, z, w, y.requires_grad, torch.is_grad_enabled()


@torch.no_grad()
def _decorated(x):
    return x * 2, torch.is_grad_enabled()


@program
def no_grad_decorator(x):
    return _decorated(x), torch.is_grad_enabled()


@program
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
        inside = torch.is_autocast_enabled("cpu")
    return y, y.dtype, inside, (x @ x.t()).dtype, torch.is_autocast_enabled("cpu")


# Tensors


@program
def tensor_operations(x):
    y = torch.stack([x, x]).sum(0).view(-1)
    z = F.softmax(x, dim=-1) + torch.zeros_like(x) + torch.arange(x.shape[1])
    a, b = torch.max(x, dim=1)
    m = torch.topk(x, 1)
    return y, z.t(), a, b, m.values, m.indices, x.T, x.mean().neg(), -x, ~(x > 0), x**2, 2**x, 1 - x, x // 2, x % 2


@program
def tensor_metadata(x):
    return x.shape, x.size(), x.size(0), x.dim(), x.ndim, x.dtype, x.device, x.numel(), x.stride(), x.is_contiguous()


@program
def tensor_mutation(x):
    y = x.clone()
    y.add_(1)
    y[0] = 5
    y[:, 0] += 2
    y += 1
    y *= 2
    z = y
    z.mul_(0.5)
    return y, z is y


@program
def input_mutation(x):
    x.add_(1)
    x[0, 0] = 7
    return x.sum()


@program
def out_argument(x):
    out = torch.empty_like(x)
    torch.add(x, 1, out=out)
    return out


@program
def shape_arithmetic(x):
    n, m = x.shape
    return x.view(n * m // m, -1), x.reshape(-1, *x.shape[1:]), torch.Size([n, 2]), x.new_zeros(n), x.expand(n, m)


@program
def tensor_factories(x):
    t = torch.tensor([1.0, 2.0])
    return t, torch.ones(2, 3, dtype=torch.float64), torch.full((2,), 3.5), torch.eye(2), torch.linspace(0, 1, 3)


@program
def dtype_logic(x):
    if x.dtype == torch.float32 and x.device.type == "cpu" and not x.requires_grad:
        return x.to(torch.float64), torch.finfo(x.dtype).max, x.dtype.is_floating_point
    return None


@program
def random_numbers(x):
    return torch.rand(3), F.dropout(x, 0.5), torch.randn_like(x), torch.randint(0, 5, (2,))


@program
def match_statement(x):
    out = []
    for value in [1, "a", [1, 2], {"k": 3}, Point(1, 2), None]:
        match value:
            case 1:
                out.append("one")
            case str(s):
                out.append(s)
            case [a, b]:
                out.append(a + b)
            case {"k": k}:
                out.append(k)
            case Point(x=px):
                out.append(px)
            case _:
                out.append("other")
    return out, x


@program
def walrus_and_ternary(x):
    y = (n := x.shape[0]) + 1
    return x if n > 100 else x * n, y, (n and 0) or 5, not n, 1 < n < 100, None is None


@program
def copies(x):
    a = [1, [2, x]]
    b = copy.copy(a)
    b.append(3)
    return a, b, a[1] is b[1], copy.deepcopy([1, [2]])


# Graph breaks


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


def _breaks_inside(x):
    y = x * 3
    s = float((y * 0).sum())
    return y + s


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
def item_in_condition(x):
    return [k for k in range(3) if x[0, 0].item() * 0 + k > 0]


@program
def numpy_roundtrip(x):
    y = x + 1
    n = y.detach().numpy()
    return torch.from_numpy(n * 2) + y


@program
def raises_shape_error(x):
    y = x + 1
    try:
        return y @ torch.ones(77, 3)
    except RuntimeError as e:
        return "caught", type(e).__name__, y


@program
def raises_out(x):
    y = x * 2
    raise Custom(f"shape {tuple(y.shape)}", 3)


@program
def attribute_error(x):
    return x.no_such_attribute


@program
def unbound(x):
    if x.shape[0] > 100000:
        y = 1
    return y


@program
def deleted_variable(x):
    y = x + 1
    z = y
    del y
    n = int((z * 0).sum())
    try:
        return y
    except UnboundLocalError:
        return z + n


@program
def many_breaks(x):
    for _ in range(30):
        x = x + float((x * 0).sum()) + 1
    return x


@program
def set_order(x):
    return sorted(str(k) for k in {"a", "b", "c"}), x


@program
def lambda_in_container(x):
    fs = {"a": lambda t: t + 1, "b": torch.sin, "c": x.add}
    return fs["a"](x), fs["b"](x), fs["c"](2)


@program
def star_expression_keywords(x):
    kw = dict(dim=0, keepdim=True)
    return torch.sum(x, **kw), x.sum(**kw), x.amax(*(0,))


@program
def chained_comparison_and_is(x):
    y = x
    return x is y, x is not None, x.shape[0] == x.shape[0] == 3, [] != None


@program
def inplace_on_containers(x):
    a = [1]
    b = a
    a += [x]
    d = {"k": 1}
    e = d
    d |= {"z": 2}
    t = (1,)
    u = t
    t += (2,)
    s = {1}
    s |= {2}
    return a is b, d is e, t is u, len(b), e, s


@program
def type_dispatch(x):
    table = {int: "i", torch.Tensor: "t", type(None): "n"}
    return [table[type(v)] for v in (1, x, None)]


@program
def star_args_passthrough(x):
    def outer(*args, **kwargs):
        return inner(*args, **kwargs)

    def inner(a, *rest, key=None):
        return a + len(rest), key

    return outer(x, 1, 2, key="k")


@program
def locals_after_break(x):
    dead = 3
    y = x + int((x * 0).sum())
    found = sorted(k for k in locals())
    return y, found, eval("dead + 1")


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


@program
def cyclic_objects_at_break(x):
    a, b = [x], {"k": 1}
    p = Plain(x)
    a.append(b)
    b["a"], b["p"], p.back = a, p, b
    n = int((x * 0).sum())
    return a[1] is b, b["a"] is a, b["p"].back is b, n, a[0] + p.v


@program
def annotations_evaluated(x):
    import typing

    def f(y: typing.Optional[int] = None, *, z: "list[int]" = ()) -> typing.Union[int, str]:
        return x + (y or 0) + len(z)

    return f(2, z=[1]), sorted(f.__annotations__)
