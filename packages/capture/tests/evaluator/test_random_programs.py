"""Random programs with breaks at random places give captured what they give eagerly, also in their effects."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import capture

LOG: list[Any] = []


@capture.disable
def outside(value: Any) -> Any:
    """A call that is never captured: a graph break wherever it stands."""
    LOG.append(value.shape if isinstance(value, torch.Tensor) else value)
    return value


class Cell:
    """A small mutable object."""

    def __init__(self, v: Any) -> None:
        self.v = v

    def bump(self, by: Any) -> Any:
        self.v = self.v + by
        return self.v


class Manager:
    """Logs its use; swallows KeyError."""

    def __enter__(self) -> Manager:
        LOG.append("enter")
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> bool:
        LOG.append(kind)
        return kind is KeyError


tensor = st.sampled_from(
    ["a", "b", "a + 1", "b * 2", "a - b", "torch.relu(a)", "xs[0]", "c.v", "f(a)", "outside(a)", "f(outside(b))",
     "d['k']", "a.sum()", "-b", "outside(xs)[0] + a", "g(b)", "(a if n % 2 else b)", "torch.stack([a, b]).sum(0)",
     "sum([x for x in xs if x is not None], a)", "max(n, 1) * a"]
)  # fmt: skip
number = st.sampled_from(["n", "n + 1", "len(xs)", "3", "outside(n)", "int(outside(a).numel() > 0)", "len(d)", "m"])
condition = st.sampled_from(
    ["n > 2", "n % 2 == 0", "a.sum() > 0", "outside(n) > 1", "len(xs) > 2", "m", "not n", "a.numel() and outside(n)",
     "'k' in d", "n < 3 and outside(m) < 5 or n > 4"]
)  # fmt: skip
simple = st.one_of(
    st.builds("a = {}".format, tensor),
    st.builds("b = {}".format, tensor),
    st.builds("a, b = b, {}".format, tensor),
    st.builds("a = a + {}".format, number),
    st.builds("n = {}".format, number),
    st.builds("m += {}".format, number),
    st.builds("xs.append({})".format, tensor),
    st.builds("xs = [*xs[-3:], {}]".format, tensor),
    st.builds("ys[{} % len(ys)] = {}".format, number, tensor),
    st.builds("c.v = {}".format, tensor),
    st.builds("c.bump({})".format, number),
    st.builds("d['k'] = {}".format, tensor),
    st.builds("d[str({})] = {}".format, number, tensor),
    st.builds("outside({})".format, st.one_of(tensor, number)),
    st.builds("out.append(({}, {}, {}))".format, tensor, number, tensor),
    st.builds("a = [g(x) for x in [a, {}]][-1]".format, tensor),
    st.builds("out.append({{k: v for k, v in zip('xy', [{}, {}])}})".format, tensor, number),
    st.builds("a = f(b=b, a={})".format, tensor),
    st.builds("a = a.clone(); a.add_({})".format, number),
    st.builds("h = lambda q, w={}: q + w + n; a = h(a)".format, number),
    st.just("if n > 6: return out, a"),
    st.just("if n == 5: raise KeyError(n)"),
)


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _compound(block: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    return st.one_of(
        st.builds(lambda c, x, y: [f"if {c}:", *_indent(x), "else:", *_indent(y)], condition, block, block),
        st.builds(lambda k, x: [f"for i in range({k}):", *_indent(x), "    n = n + i"], st.integers(1, 3), block),
        st.builds(lambda c, x: ["for i in range(3):", *_indent([f"if {c}: continue", *x])], condition, block),
        st.builds(lambda c, x: ["for i in range(3):", *_indent([*x, f"if {c}: break"]), "else:", "    n = 0"], condition, block),
        st.builds(lambda x: ["for i, x in enumerate(xs[:2]):", *_indent(x), "    a = a + i"], block),
        st.builds(lambda x: ["with Manager():", *_indent(x)], block),
        st.builds(lambda x: ["with torch.no_grad():", *_indent(x)], block),
        st.builds(
            lambda x, y, z: ["try:", *_indent(x), "except KeyError as e:", *_indent(y), "finally:", *_indent(z)],
            block, block, block,
        ),
        st.builds(lambda x: ["try:", *_indent([*x, "raise KeyError(1)"]), "except KeyError as e:", "    n = n + 1"], block),
    )  # fmt: skip


statement = st.builds(lambda s: [s], simple)
block = st.recursive(
    st.lists(statement, min_size=1, max_size=3).map(lambda parts: [line for part in parts for line in part]),
    lambda inner: st.lists(st.one_of(_compound(inner), statement), min_size=1, max_size=3).map(
        lambda parts: [line for part in parts for line in part]
    ),
    max_leaves=8,
)

HEAD = """
def main(a, b, c, xs, d):
    n, m, out, ys = 1, 0, [], [a, b]
    def f(a, b=b):
        return a * 2 + (b if n else 0)
    def g(x):
        nonlocal m
        m += 1
        return x + m
"""
_count = 0


def build(lines: list[str]) -> Any:
    """The program as a function whose source lines tracebacks can show."""
    global _count
    _count += 1
    name = f"<random program {_count}>"
    source = "\n".join([HEAD, *_indent(lines), "    return out, a, b, n, m, xs, ys"])
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"torch": torch, "outside": outside, "Manager": Manager}
    exec(compile(source, name, "exec"), space)
    return space["main"], source


def plain(value: Any) -> Any:
    """Comparable form: tensors as nested lists with their metadata."""
    if isinstance(value, torch.Tensor):
        return ("tensor", tuple(value.shape), value.requires_grad, value.tolist())
    if isinstance(value, Cell):
        return ("cell", plain(value.v))
    if isinstance(value, dict):
        return [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def outcome(fn: Any, times: int) -> Any:
    """Results, exceptions, log and arguments after several calls."""
    results = []
    for k in range(times):
        LOG.clear()
        a = torch.arange(3.0).requires_grad_() * (k - 1)
        b = torch.ones(3)
        c, xs, d = Cell(a + 1), [b, a], {"k": b}
        try:
            result = plain(fn(a, b, c, xs, d))
        except Exception as error:
            result = (type(error).__name__, str(error))
        results.append((result, [plain(v) for v in LOG], plain(c), plain(xs), plain(d), torch.is_grad_enabled()))
        torch.set_grad_enabled(True)
    return results


@seed(20)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(block)
def test_random_program(lines: list[str]) -> None:
    fn, source = build(lines)
    expected = outcome(fn, 3)
    capture.reset()
    got = outcome(capture.compile(fn), 3)
    if expected != got:
        pytest.fail(f"{source}\n{expected}\n{got}")
