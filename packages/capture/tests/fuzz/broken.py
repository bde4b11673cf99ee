"""Random programs of functions that call each other, with graph breaks anywhere in them: in calls, blocks, handlers and loops.

In: a seed. Out: source of a program. ``outcome`` runs one, eagerly or compiled: results, effects in order, exceptions with
the lines of their tracebacks, and what is being handled wherever the program looks.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch

import capture

LOG: list[Any] = []


def _told(error: BaseException | None, depth: int = 0) -> Any:
    """An exception with the program's lines in its traceback, its cause and context."""
    if error is None or depth > 4:
        return None
    lines = [(f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<broken")]
    chain = _told(error.__cause__, depth + 1), _told(error.__context__, depth + 1)
    return type(error).__name__, [plain(arg) for arg in error.args], lines, error.__suppress_context__, *chain


@capture.disable
def outside(value: Any) -> Any:
    """A call that is never captured: a graph break wherever it stands. It tells what is being handled."""
    LOG.append((plain(value), _told(sys.exc_info()[1])))
    return value


@capture.disable
def callers() -> Any:
    """A graph break that looks at the frames that it is called from; what goes on from one has another on top of it."""
    found: dict[str, Any] = {f.name: f.lineno for f in traceback.extract_stack() if f.filename.startswith("<broken")}
    LOG.append(list(found.items()))
    return len(found)


@capture.disable
def fails(value: Any) -> Any:
    """One that raises."""
    LOG.append("fails")
    raise KeyError(plain(value))


@contextlib.contextmanager
def unraisable() -> Iterator[None]:
    """What cannot be raised where it happens is noted there: a generator that goes on as it is closed."""
    was = sys.unraisablehook
    sys.unraisablehook = lambda found: LOG.append(("not raised", _told(found.exc_value)))
    try:
        yield
    finally:
        sys.unraisablehook = was


class Manager:
    """Logs its use; swallows KeyError."""

    def __enter__(self) -> Manager:
        LOG.append("enter")
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> bool:
        LOG.append(kind)
        return kind is KeyError


def plain(value: Any) -> Any:
    """Comparable form: tensors as nested lists with their metadata."""
    if isinstance(value, torch.Tensor):
        return ("tensor", tuple(value.shape), value.requires_grad, value.tolist())
    if isinstance(value, dict):
        return [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, int | float | str | type(None)) else type(value).__name__


class Writer:
    """Writes one program. Functions call only those written before them, so that each ends."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        #: Text of calls of functions that give a tensor, with places for a tensor and a number; likewise of managers and generators.
        self.calls: list[str] = []
        self.managers = ["Manager()", "torch.no_grad()", "contextlib.nullcontext()"]
        self.generators: list[str] = []
        self.breaks = 0.3
        self.loops = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def tensor(self, depth: int = 2) -> str:
        if self.random.random() < self.breaks * 0.5:
            return f"outside({self.tensor(depth - 1)})"
        if self.calls and self.random.random() < 0.35 and depth > 0:
            return self.random.choice(self.calls).format(self.tensor(depth - 1), self.number(depth - 1))
        if depth <= 0:
            return self.pick("a", "b", "c.v", "xs[0]")
        return self.pick(
            "a", "b", "a + 1", "a * b", "c.v", "xs[-1]", f"{self.tensor(depth - 1)} - b", "torch.relu(a)", "a.sum() + b"
        )

    def number(self, depth: int = 1) -> str:
        if self.random.random() < self.breaks * 0.3:
            return self.pick("outside(n)", "callers()", "outside(len(xs))")
        return self.pick("n", "n + 1", "len(xs)", "2", "k", "n % 3")

    def condition(self) -> str:
        return self.pick(
            "n > 2", "n % 2", "a.sum() > 0", "outside(n) > 1", "len(xs) > 2", "not n", "n < 3 and outside(k) < 2"
        )

    def statement(self, loop: bool, handler: bool, generator: bool) -> str:
        if generator and self.random.random() < 0.3:
            return f"yield {self.tensor()}"
        choices = [
            lambda: f"a = {self.tensor()}",
            lambda: f"a = {self.tensor()}",
            lambda: f"b = {self.tensor()}",
            lambda: f"a, b = b, {self.tensor()}",
            lambda: f"n = {self.number()}",
            lambda: f"n = n + {self.number()}",
            lambda: f"xs.append({self.tensor()})",
            lambda: f"c.v = {self.tensor()}",
            lambda: f"outside({self.tensor()})",
            lambda: "callers()",
            lambda: f"a = sum([{self.tensor(1)} for k in range({self.pick('1', '2', '3')})], b)",
            lambda: "a = a.clone(); a.add_(1)",
            lambda: f"if {self.condition()}: return {'a' if not generator else ''}",
            lambda: (
                f"if {self.condition()}: raise {self.pick('KeyError', 'ValueError')}({self.pick('n', '1', 'outside(n)')})"
            ),
            lambda: f"if {self.condition()}: fails(n)",
            lambda: "del xs[1:]",
        ]
        if loop:
            choices += [lambda: f"if {self.condition()}: {self.pick('break', 'continue')}"]
        if handler:
            choices += [
                lambda: "raise",
                lambda: "raise ValueError(n) from e",
                lambda: "raise IndexError(n)",
                lambda: "outside(e.args)",
            ]
        return self.random.choice(choices)()

    def block(self, depth: int, loop: bool = False, handler: bool = False, generator: bool = False) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            if depth > 0 and self.random.random() < 0.45:
                lines += self.compound(depth - 1, loop, handler, generator)
            else:
                lines.append(self.statement(loop, handler, generator))
        return lines

    def compound(self, depth: int, loop: bool, handler: bool, generator: bool) -> list[str]:
        def inner(within_loop: bool = loop, within_handler: bool = handler) -> list[str]:
            return indent(self.block(depth, within_loop, within_handler, generator))

        kind = self.random.randrange(8)
        if kind == 0:
            return [f"if {self.condition()}:", *inner(), "else:", *inner()]
        if kind == 1:
            return [f"for k in range({self.pick('1', '2', '3')}):", *inner(True)]
        if kind == 2:
            return ["for k, x in enumerate(xs[:2]):", *inner(True), "    a = a + x"]
        if kind == 3:
            return [f"with {self.random.choice(self.managers)} as w:", *inner()]
        if kind == 4:
            clause = self.pick("except KeyError as e:", "except (KeyError, ValueError) as e:", "except Exception as e:")
            lines = ["try:", *inner(), clause, *inner(loop, True)]
            if self.random.random() < 0.3:
                lines += ["else:", *inner()]
            if self.random.random() < 0.4:
                lines += ["finally:", *indent(self.block(depth, False, False, generator))]
            return lines
        if kind == 5:
            return ["try:", *inner(), "finally:", *indent([self.statement(False, False, generator), "LOG.append(n)"])]
        if kind == 6 and self.generators:
            return [f"for x in {self.random.choice(self.generators).format('a', 'n')}:", *inner(True), "    a = a + x"]
        self.loops += 1
        j = f"j{self.loops}"
        return [f"{j} = 0", f"while {j} < {self.pick('1', '2', '3')}:", f"    {j} += 1", *inner(True)]

    def function(self, number: int) -> list[str]:
        """One more function, in one of many forms."""
        rest = [*self.block(2), f"return {self.tensor()}"]
        kind = self.random.randrange(9)
        name = f"f{number}"
        start = "xs, k, b = [a], 0, a + 1"
        if kind == 0:
            lines = [f"def {name}(a, n, *, c=C(torch.ones(3))):", *indent([start, *rest])]
            self.calls += [f"{name}({{}}, {{}})", f"{name}(n={{1}}, a={{0}})", f"{name}(*[{{}}, {{}}])"]
        elif kind == 1:
            lines = [
                f"class {name.upper()}(C):",
                "    def run(self, a, n):",
                *indent(indent(["c = self", start, *rest])),
            ]
            self.calls += [f"{name.upper()}(b).run({{}}, {{}})"]
        elif kind == 2:
            lines = [
                f"class {name.upper()}(C):", "    def __init__(self, a, n):", "        super().__init__(a)",
                *indent(indent(["c = self", start, *self.block(2), "self.v = a"] )),
            ]  # fmt: skip
            lines = [line.replace("return a", "return") for line in lines]
            self.calls += [f"{name.upper()}({{}}, {{}}).v"]
        elif kind == 3:
            body = [
                start,
                "c, t = C(b), n",
                "def inner(b):",
                "    nonlocal a, n",
                *indent([*self.block(1), "return a + b"]),
                "a = inner(a)",
                *rest,
            ]
            lines = [f"def {name}(a, n):", *indent(body)]
            self.calls += [f"{name}({{}}, {{}})"]
        elif kind == 4:
            lines = [
                f"class {name.upper()}(torch.nn.Module):", "    def forward(self, a, n):", *indent(indent(["c = C(a)", start, *rest])),
                f"{name} = {name.upper()}()",
            ]  # fmt: skip
            self.calls += [f"{name}({{}}, {{}})"]
        elif kind == 5:
            lines = [f"def {name}(a, n):", *indent(["c = C(a)", start, *self.block(1, generator=True), "yield a"])]
            self.generators += [f"{name}({{}}, {{}})"]
        elif kind == 6:
            body = ["c = C(a)", start, *self.block(1)]
            lines = ["@contextlib.contextmanager", f"def {name}(a, n):", *indent(body)]
            lines = [line.replace("return a", "n = n") for line in lines]
            lines += self.random.choice(
                [
                    ["    yield a"],
                    [
                        "    try:",
                        "        yield a",
                        "    finally:",
                        *indent(indent([self.statement(False, False, False).replace("return a", "pass")])),
                    ],
                ]
            )
            self.managers += [f"{name}(a, n)"]
        elif kind == 7:
            lines = [
                f"class {name.upper()}:", "    def __enter__(self):", "        a = b = torch.ones(3); n = k = 1; c = C(a); xs = [a]",
                *indent(indent(rest)), "    def __exit__(self, kind, value, tb):", "        a = b = torch.ones(3); n = k = 1; c = C(a); xs = [a]",
                *indent(indent([*self.block(1), f"return {self.pick('False', 'kind is KeyError', 'None')}"])),
            ]  # fmt: skip
            self.managers += [f"{name.upper()}()"]
        else:
            lines = [f"@decorated\ndef {name}(a, n):", *indent(["c = C(a)", start, *rest])]
            self.calls += [f"{name}({{}}, {{}})"]
        return lines

    def program(self) -> str:
        lines: list[str] = []
        for number in range(self.random.randint(1, 4)):
            lines += self.function(number)
        lines += [
            "def main(a, b, c, xs):",
            "    n, k = 1, 0",
            *indent(self.block(2)),
            f"    a = {self.tensor()}",
            "    return a, b, n, k, xs",
        ]
        return "\n".join(lines) + "\n"


def indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


class C:
    """A small mutable object."""

    def __init__(self, v: Any) -> None:
        self.v = v


def decorated(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs) + 1

    return wrapper


def build(source: str, seed: object) -> Any:
    """The function of a program, whose source lines tracebacks can show."""
    name = f"<broken {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {
        "torch": torch, "outside": outside, "callers": callers, "fails": fails, "Manager": Manager, "C": C, "LOG": LOG,
        "contextlib": contextlib, "decorated": decorated, "__name__": "broken",
    }  # fmt: skip
    exec(compile(source, name, "exec"), space)
    return space["main"]


def outcome(fn: Any, times: int) -> Any:
    """What several calls do."""
    results = []
    for k in range(times):
        LOG.clear()
        a = torch.arange(3.0).requires_grad_() * (k - 1)
        b = torch.ones(3)
        c, xs = C(a + 1), [b, a]
        try:
            with unraisable():
                result = plain(fn(a, b, c, xs))
        except Exception as error:
            result = _told(error)
        results.append(
            (result, list(LOG), plain(c.v), plain(xs), torch.is_grad_enabled(), plain(a), plain(b), sys.exc_info())
        )
        torch.set_grad_enabled(True)
    return results


def difference(source: str, seed: object = 0, times: int = 3) -> str | None:
    """How the compiled program differs from the plain one; None if it does not."""
    expected = outcome(build(source, seed), times)
    capture.reset()
    try:
        got = outcome(capture.compile(build(source, seed)), times)
    except capture.CaptureError as error:
        got = [f"{type(error).__name__}: {error}"]
    if str(got) == str(expected):
        return None
    return f"{source}\nexpected {expected}\ngot      {got}"
