# ruff: noqa
"""``id`` of objects: what programs do to meet each of them once."""

from __future__ import annotations

import operator
import copy

import torch

from .registry import program


@program
def ids_compared(x):
    a, b = [x], [x]
    return (
        id(a) == id(b),
        id(a) == id(a),
        id(x) == id(b[0]),
        id(x) != id(x + 1),
        id(a) in (1, "a") if False else 0,
        x + 1,
    )


@program
def ids_as_elements(x):
    y = x + 1
    seen = set()
    out = []
    for v in (x, y, x, [x], y):
        if id(v) not in seen:
            seen.add(id(v))
            out.append(v)
    return len(out), len(seen)


@program
def ids_as_keys(x):
    y = x * 2
    names = {id(x): "x", id(y): "y"}
    return names[id(y)], names.get(id(x)), names.get(id([])), len(names), x


@program
def ids_of_parameters(x):
    layer = _LAYER
    known = {id(p) for p in layer.parameters()}
    return [id(p) in known for p in layer.parameters()], id(layer.weight) in known, id(x) in known, layer(x).sum() * 0


@program
def ids_handed_out(x):
    a = [x]
    return id(a) == 0 if False else type(id(a)).__name__, x + 1


@program
def ids_as_numbers_break(x):
    a = [x]
    return id(a) > 0, id(a) % 1, f"{id(a)}".isdigit(), x + 1


_LAYER = torch.nn.Linear(4, 4)


@program
def texts_that_are_equal_break(x):
    a = b = "xyzpdq"
    c = a[:3] + b[3:]
    return operator.is_(a, b), operator.is_(a, c), operator.is_not(a, c), a == c, c is c, x + 1


@program
def texts_joined_break(x):
    a = "abc"
    y = x + 1
    b = "".join(["a", "bc"])
    return a is b, y * 2


_IDS = {id(p): name for name, p in _LAYER.named_parameters()}


@program
def break_at_ids_among_numbers_from_outside(x):
    return [_IDS[id(p)] for p in _LAYER.parameters()], id(x) in _IDS, x + 1


@program
def break_at_ids_of_sets_from_outside(x):
    mine = {id(p) for p in _LAYER.parameters()}
    known = set(_IDS)
    return mine == known, mine - known, len(mine | known), mine <= known, x + 1


@program
def break_in_a_loop_over_ids(x):
    y = x + 1
    seen, out = set(), []
    for v in (x, y, x, [x], y):
        if id(v) not in seen:
            seen.add(id(v))
            out.append(v)
            x.sum() > -1e9 and None
    number = id(x)
    x.sum() > -1e9 and None
    return len(out), number in {id(x), id(y)}, {id(x): 3}.get(number)


_PLACES = {(id(p), 0): name for name, p in _LAYER.named_parameters()}
_KINDS = {(id(p), "here") for p in _LAYER.parameters()}


@program
def ids_within_keys_that_break(x):
    found = [_PLACES.get((id(p), 0)) for p in _LAYER.parameters()]
    return found, [(id(p), "here") in _KINDS for p in _LAYER.parameters()], x + 1


@program
def ids_within_keys_that_differ_otherwise(x):
    found = [_PLACES.get((id(p), "0")) for p in _LAYER.parameters()]
    y = x + 1
    known = {(id(x), 0), (id(y), "a")}
    return found, (id(x), 0) in known, (id(x), 1) in known, (id(x), "a") in known, y
