"""Programs that make new code at each call (``exec``): what is kept of it goes with it, and the report does not grow with them."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture
from capture.ledger import Ledger
from capture.report import Trace

BODIES = {
    "operations": "def g(x):\n    return x * 2",
    "a built-in": "def g(x):\n    return x * len([1])",
    "helpers": "def h(x):\n    return x + 1\ndef g(x):\n    return h(x) * 2, h",
    "a global that is written": "n = 1\ndef g(x):\n    global n\n    n += 1\n    return x * n",
    "a class": "class A:\n    def __init__(self, x):\n        self.x = x\ndef g(x):\n    return A(x + 1).x, [A(x)].__len__()",
    "an object": "class A:\n    pass\ndef g(x):\n    made = A()\n    made.x = x * 2\n    return made",
    "a function handed out": "def g(x):\n    y = x * 2\n    def h():\n        return y\n    return h",
    "a break in a call": "def h(y):\n    k = lambda: z\n    z = y + 1\n    if z.sum() > 0:\n        return z * 2\n    return k()\n"
    "def g(x):\n    y = h(x + 1)\n    return y + 1",
    "a generator that is suspended": "def h(x):\n    yield x\n    yield x + 1\ndef g(x):\n    made = h(x)\n    return next(made) * 2, made",
    "a class that is another by then": "class A:\n    pass\nclass B:\n    pass\ndef g(x):\n    global A, B\n    made = A()\n    A, B = B, A\n"
    "    return made.__class__.__name__, A.__name__, made, x + 1",
    "a break": "def g(x):\n    y = x + 1\n    if y.sum() > 0:\n        return len([y]) * y\n    return y",
}


def made(body: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(body, namespace)
    return namespace["g"]


def calling() -> Callable[..., Any]:
    """Compiled, a caller whose own frame is left to the interpreter."""

    def caller(g: Callable[..., Any], x: torch.Tensor) -> Any:
        locals()
        return g(x)

    return capture.compile(caller)


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_fresh_code_goes(body: str) -> None:
    compiled, x, codes = calling(), torch.ones(3), []
    for _ in range(3):
        g = made(body)
        assert repr(compiled(g, x)).split(" at ")[0] == repr(made(body)(x)).split(" at ")[0]
        codes.append(weakref.ref(g.__code__))
    del g
    while gc.collect():
        pass
    assert [code() for code in codes] == [None] * 3


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_memory_is_flat_where_each_call_makes_code() -> None:
    compiled, x, body = calling(), torch.ones(3), BODIES["a built-in"]
    sizes = []
    for _ in range(3):
        for _ in range(128):
            compiled(made(body), x)
        while gc.collect():
            pass
        sizes.append(sys.getallocatedblocks())
    # A capture that is kept has some 300 blocks; how many of the latest are kept differs by a few.
    assert sizes[2] - sizes[1] < 128 * 30
    report = capture.report(compiled)
    assert report.frames == 384
    assert 64 <= report.graph_count < 200


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_reports_keep_what_lives() -> None:
    """What is told of living code stays, in order, however much dies after it."""
    compiled, x = calling(), torch.ones(3)
    kept = [made(f"def g(x):\n    return x + {i}") for i in range(3)]
    for g in kept:
        compiled(g, x)
    report = capture.report(compiled)
    graphs, guards = list(report.graphs), list(report.guards)
    assert len(graphs) == 3
    for _ in range(300):
        compiled(made(BODIES["operations"]), x)
    assert all(a is b for a, b in zip(report.graphs, graphs, strict=False))
    assert all(a is b for a, b in zip(report.guards, guards, strict=False))
    assert [f"add = x + {i} " in str(report) for i in range(4)] == [True, True, True, False]


class Subject:
    pass


def test_a_ledger_takes_out_what_died_each_once() -> None:
    trace = Trace()
    ledger = Ledger(trace)
    living, words = Subject(), "told twice"
    ledger.tell(living, recompiles=[words], skipped=["of one that lives"])
    for i in range(1000):
        ledger.tell(Subject(), recompiles=[words], skipped=[f"of {i}"])
    assert trace.recompiles.count(words) <= 130
    assert trace.skipped[0] == "of one that lives"
    assert trace.skipped[-1] == "of 999"
    assert trace.skipped[-64:] == [f"of {i}" for i in range(936, 1000)]


def test_threads_tell_a_ledger_at_once() -> None:
    """What is told of what lives stays, while other threads take out what died."""
    trace = Trace()
    ledger = Ledger(trace)
    living = [Subject() for _ in range(4)]

    def tell(which: int) -> None:
        for i in range(500):
            ledger.tell(living[which], skipped=[f"{which}: {i}"])
            ledger.tell(Subject(), skipped=["of one that died"])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=tell, args=(which,)) for which in range(len(living))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    told = [each for each in trace.skipped if each != "of one that died"]
    assert sorted(told) == sorted(f"{which}: {i}" for which in range(len(living)) for i in range(500))
    assert 64 <= len(trace.skipped) - len(told) <= 64 + 2 * 8
