# ruff: noqa
"""What else the language has: patterns, unpacking, operators, texts, modules."""

from __future__ import annotations

import torch

from .classes import Plain
from .exceptions import Custom
from .registry import program


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
