# ruff: noqa
"""Modules of the standard library around a computation: text, time, settings, effects."""

from __future__ import annotations

import collections
import contextvars
import datetime
import gc
import json
import logging
import logging.handlers
import operator
import os
import pprint
import random
import re
import string
import struct
import textwrap
import threading
import time
import types
import warnings

import torch

from .registry import program


class Upper(collections.UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.upper(), value)


class Only(collections.UserList):
    pass


@program
def regular_expressions(x):
    m = re.match(r"(?P<name>\w+)\.(\d+)", "layer.12.weight")
    pattern = re.compile("a(b)?")
    return (
        x, m.group(1), m.group("name"), m.groups(), m.groupdict(), m.start(2), m.end(), re.findall(r"\d+", "a1b22"), re.split(r"[,;]", "a,b;c"),
        re.sub(r"\d", "#", "a1b2"), re.sub(r"\d", lambda k: str(int(k.group()) + 1), "a1b2"), pattern.search("xab").span(),
        [k.group() for k in re.finditer("b.", "babc")], re.escape("a.b"), pattern.pattern, bool(re.fullmatch("a+", "aab")), m[1],
    )  # fmt: skip


@program
def regular_expression_of_names(x):
    out = {}
    for name in ("block.0.weight", "block.1.bias", "head"):
        found = re.search(r"block\.(\d+)\.(.*)", name)
        if found is None:
            continue
        out[found.group(2)] = x * int(found.group(1))
    return out


# From 3.14 what a template looks for is compiled when it is first asked for, and kept in the class.
string.Template.pattern  # noqa: B018


@program
def string_module(x):
    t = string.Template("$a and ${b}")
    return (
        x,
        string.ascii_lowercase[:3],
        t.substitute(a=1, b="two"),
        string.capwords("a b"),
        t.safe_substitute(a=1),
        string.digits,
    )


@program
def json_texts(x):
    data = {"a": [1, 2.5, None, True], "b": {"c": "é"}}
    text = json.dumps(data, sort_keys=True)
    return x, text, json.loads(text) == data, json.dumps([1], indent=2), json.loads('[1, {"k": null}]')


@program
def pretty_texts(x):
    return (
        x,
        pprint.pformat({"b": [1, 2], "a": "text"}),
        textwrap.fill("some words to wrap", 10),
        textwrap.shorten("a b c d", 5, placeholder=""),
    )


@program
def packed_bytes(x):
    packed = struct.pack("<hI", 3, 70000)
    return x, packed, struct.unpack("<hI", packed), struct.calcsize("<hI")


@program
def dates(x):
    d = datetime.date(2024, 2, 28) + datetime.timedelta(days=2)
    t = datetime.datetime(2024, 1, 1, 12, 30)
    return (
        x,
        d.isoformat(),
        d.weekday(),
        (t - datetime.datetime(2023, 12, 31)).total_seconds(),
        t.isoformat(),
        d > datetime.date(2024, 1, 1),
    )


@program
def paths(x):
    p = os.path.join("a", "b", "c.txt")
    return x, p, os.path.basename(p), os.path.dirname(p), os.path.splitext(p), os.sep


os.environ["CAPTURE_TEST_VARIABLE"] = "3"


@program
def environment(x):
    return (
        x * int(os.environ["CAPTURE_TEST_VARIABLE"]),
        os.environ.get("NO_SUCH_VARIABLE", "d"),
        os.getenv("NO_SUCH_VARIABLE"),
        "PATH" in os.environ,
    )


_CONTEXT: contextvars.ContextVar[int] = contextvars.ContextVar("context", default=1)


@program
def break_at_context_variables(x):
    before = _CONTEXT.get()
    token = _CONTEXT.set(5)
    inside = _CONTEXT.get()
    _CONTEXT.reset(token)
    return x * inside, before, _CONTEXT.get()


_LOCAL = threading.local()
_LOCAL.value = 2


@program
def break_at_thread_locals(x):
    _LOCAL.extra = 3
    out = x * _LOCAL.value + _LOCAL.extra
    del _LOCAL.extra
    return out, hasattr(_LOCAL, "extra"), hasattr(_LOCAL, "nothing")


@program
def break_at_thread_names(x):
    return (
        x,
        threading.current_thread() is threading.main_thread(),
        threading.get_ident() == threading.main_thread().ident,
    )


@program
def break_at_clocks(x):
    a = time.perf_counter()
    y = x * 2
    b = time.perf_counter()
    return y, b >= a, isinstance(time.time(), float), time.monotonic() > 0


@program
def printed(x, printer=print):
    print("shape", tuple(x.shape))
    y = x + 1
    print("done", end="\n", sep=" ")
    return y


@program
def warned(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("ignored")
    return x + 1


@program
def break_at_warnings_recorded(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("first", UserWarning)
        y = x * 2
        warnings.warn("second", DeprecationWarning)
    return y, [(str(w.message), w.category.__name__) for w in seen]


_LOGGER = logging.getLogger("capture.tests.programs")


@program
def logged(x):
    return x, _LOGGER.isEnabledFor(logging.DEBUG), _LOGGER.name, logging.getLevelName(20), _LOGGER.getEffectiveLevel()


@program
def logged_silently(x):
    _LOGGER.debug("value %s", x.shape)
    _LOGGER.info("not shown")
    return x + 1


@program
def counters(x):
    c = collections.Counter("abracadabra")
    c.update(["z"] * 3)
    c.subtract("a")
    return (
        x,
        c.most_common(2),
        c["none"],
        dict(c & collections.Counter(a=2, z=1)),
        c.total(),
        sorted((c + c).items()),
        list(collections.Counter(a=2).elements()),
    )


@program
def chained_maps(x):
    m = collections.ChainMap({"a": 1}, {"a": 2, "b": x})
    child = m.new_child({"c": 3})
    child["b"] = 5
    return m["a"], m["b"], sorted(child), child["b"], dict(m.items()), len(child), "q" in child


@program
def user_collections(x):
    d = Upper(a=x)
    d["b"] = 2
    l = Only([1, 2])
    l.append(3)
    return d["A"], sorted(d), l[1:].data, len(l), "B" in d, (l + [4]).data


_GENERATOR = random.Random(3)


@program
def random_numbers_nobody_reads(x):
    for layer in range(3):
        probability = random.uniform(0, 1)
        if not x.requires_grad or probability < 0.5:
            x = x + layer
    _GENERATOR.random()
    return x


@program
def random_numbers_within_bounds(x):
    if random.random() < 0.0 or random.uniform(2, 3) < 2 or 1 - random.random() < 0 or -random.random() > 0:
        x = x + 1
    if random.random() <= 1 and 5.0 > random.uniform(-1, 4):
        x = x * 2
    return x


@program
def break_at_random_numbers(x):
    random.seed(7)
    found = [random.uniform(0, 1), random.random() < 0.5, _GENERATOR.random() > 2]
    if random.random() < 0.3:
        x = x + 1
    y = x * 2
    number = random.random()
    number += 1
    return y, found, number


@program
def break_before_warnings_are_recorded(x):
    with warnings.catch_warnings(record=True) as seen:
        x.sum() > -1e9 and None
        warnings.simplefilter("always")
        warnings.warn("first", UserWarning)
        y = x * 2
        warnings.warn("second", DeprecationWarning)
    return y, [(str(w.message), w.category.__name__) for w in seen]


@program
def break_before_recorded_warnings_are_read(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        gc.isenabled()
        warnings.warn("first", UserWarning)
        y = x * 2
        counts = [len(seen)]
        warnings.warn("second", DeprecationWarning)
    return y, counts, [str(w.message) for w in seen]


@program
def break_before_warnings_are_shown(x):
    seen = []
    before = warnings.showwarning
    warnings.showwarning = lambda message, *rest: seen.append(str(message))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            gc.isenabled()
            warnings.warn("first", UserWarning)
            y, count = x * 2, len(seen)
    finally:
        warnings.showwarning = before
    return y, count, seen


@program
def break_before_records_are_counted(x):
    logger, handler = logging.getLogger("capture.tests.counted"), logging.handlers.BufferingHandler(9)
    logger.addHandler(handler)
    gc.isenabled()
    logger.error("one")
    count = len(handler.buffer)
    logger.removeHandler(handler)
    return x * 2, count
