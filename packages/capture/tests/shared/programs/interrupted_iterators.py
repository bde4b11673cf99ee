# ruff: noqa
"""Iterators over what came from outside of the frame and was changed in it, handed on at a break."""

from __future__ import annotations

import collections

import torch

from .registry import program


class _Holder:
    pass


def _stop(x):
    """A break: what was made before it comes from outside afterwards."""
    return x.sum() > -1e9 and None


@program
def break_with_dictionary_that_grew(x):
    d = {"a": 1, "b": 2}
    _stop(x)
    d["c"] = 3
    for key in d:
        if key == "a":
            _stop(x)
        x = x * 2 + d[key]
    del d["a"]
    return x, d


@program
def break_with_items_that_are_set(x):
    d = {"a": 1, "b": 2}
    _stop(x)
    d["c"] = 3
    for i, (key, value) in enumerate(d.items()):
        if key == "b":
            _stop(x)
        d[key] = value + i
        x = x + d[key]
    d.pop("b")
    d["new"] = 1
    return x, d


@program
def break_with_dictionary_of_a_recursive_call(x):
    def plain(source, x):
        made = dict(source)
        if x.sum() > -1e9:
            made["extra"] = 1
        made["version"] = 3
        for key, value in made.items():
            if isinstance(value, dict):
                value = plain(value, x)
                del value["version"]
            made[key] = value
        made.pop("a", None)
        return made

    return x + 1, plain({"a": 1, "c": {"a": 3, "d": 4}, "e": 4}, x)


@program
def break_with_set_that_grew(x):
    s = {1}
    _stop(x)
    s.add(2)
    s.add(3)
    it = iter(s)
    first = next(it)
    _stop(x)
    rest = sorted(it)
    s.clear()
    return x + first, rest, s


@program
def break_with_list_that_grew(x):
    items = [1, 2, 3]
    _stop(x)
    items.extend([5, 6, 7])
    for item in items:
        if item == 6:
            _stop(x)
        x = x * 2 + item
    return x, items


@program
def break_with_list_within_enumerate_and_zip(x):
    items = [1, 2, 3]
    _stop(x)
    items.extend([5, 6, 7])
    for i, (a, b) in enumerate(zip(items, iter(items))):
        if a == 6:
            _stop(x)
        x = x * 2 + a + b * i
    return x


@program
def break_with_list_reversed(x):
    items = [1, 2, 3]
    _stop(x)
    items.extend([5, 6, 7])
    backwards = reversed(items)
    _stop(x)
    return x, list(backwards)


@program
def break_with_list_that_shrank(x):
    items = [1, 2, 3, 4]
    _stop(x)
    it = iter(items)
    next(it), next(it)
    del items[0]
    _stop(x)
    return x, list(it), items


@program
def break_with_iterator_in_an_object_of_the_frame(x):
    items, d = [1, 2, 3], {"a": 1}
    _stop(x)
    items.extend([5, 6, 7])
    d["b"] = 2
    held = _Holder()
    held.items, held.keys = iter(items), [iter(d), 5]
    for _ in range(4):
        next(held.items)
    next(held.keys[0])
    _stop(x)
    return x, list(held.items), list(held.keys[0])


@program
def break_with_iterator_in_an_object_from_outside(x):
    items, d, held = [1, 2, 3], {"a": 1}, _Holder()
    _stop(x)
    items.extend([5, 6, 7])
    d["b"] = 2
    held.items, held.keys = iter(items), iter(d)
    for _ in range(4):
        next(held.items)
    next(held.keys)
    _stop(x)
    return x, list(held.items), list(held.keys)


@program
def break_with_iterator_given_back(x):
    items, d = [1, 2, 3], {"a": 1}
    _stop(x)

    def some():
        items.extend([5, 6, 7])
        d["b"] = 2
        it, keys = iter(items), iter(d)
        for _ in range(4):
            next(it)
        next(keys)
        return it, keys

    it, keys = some()
    return x, list(it), list(keys)


@program
def break_with_deque_that_grew(x):
    queue = collections.deque([1, 2])
    _stop(x)
    queue.append(3)
    it = iter(queue)
    next(it)
    _stop(x)
    return x, list(it), queue


class _Named(dict):
    pass


class _Own(list):
    def __iter__(self):
        return iter([100.0, 200.0])


class _Some(set):
    pass


def _next(it):
    try:
        return next(it, None)
    except RuntimeError as error:
        return str(error)


@program
def break_with_iterators_over_instances_of_subclasses(x):
    named, own, some = _Named(a=1, b=2), _Own([1, 2, 3]), _Some([1, 2])
    values, items, back, elements = iter(named.values()), list.__iter__(own), reversed(own), iter(some)
    keys = named.keys()
    begun = [next(values), next(items), next(back), next(elements)]
    _stop(x)
    named["c"] = 3
    own[1] = 55
    some.add(77)
    return x, begun, _next(values), list(items), list(back), _next(elements), list(keys), list(own)


@program
def break_with_reversed_list_that_shrank(x):
    items = [1, 2, 3, 4]
    it = reversed(items)
    first = next(it)
    del items[:2]
    _stop(x)
    return x, first, list(it), items


@program
def break_with_iterator_behind_the_end(x):
    items = [1, 2, 3, 4]
    it = iter(items)
    begun = [next(it), next(it), next(it)]
    del items[1:]
    _stop(x)
    items.extend([5, 6, 7, 8])
    return x, begun, list(it)


@program
def break_with_iterator_that_its_list_holds(x):
    items = [1, 2]
    it = iter(items)
    first = next(it)
    items.append(it)
    _stop(x)
    return x, first, next(it)


@program
def break_with_iterators_that_ended(x):
    d, items, some = {"a": 1}, [1], {1}
    keys, values, elements = iter(d), iter(items), iter(some)
    for it in (keys, values, elements):
        list(it)
    _stop(x)
    d["b"] = 2
    items.append(2)
    some.add(2)
    return x, [(type(it).__name__, _next(it)) for it in (keys, values, elements)]


@program
def dictionary_that_grew_after_it_was_gone_through(x):
    d, ordered = {"a": 1}, collections.OrderedDict(a=1)
    keys, items, ordered_keys = iter(d), iter(d.items()), iter(ordered)
    list(keys), next(ordered_keys)
    d["b"] = ordered["b"] = 2
    told = [_next(keys), _next(items), _next(ordered_keys)]
    del d["b"]
    return x + 1, told, _next(keys), _next(items)
