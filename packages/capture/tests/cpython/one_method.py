"""One module of CPython's tests, in a process of its own: how each of its methods ends, plain and compiled.

In: the module's name and which of its methods. Out: dictionaries, told through a pipe as lines of JSON: what is about to be run, before it is, so that
who reads knows where a process died or hangs; then what came of it.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import types
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import capture
import capture.session

#: How a method ends: what it came to, and the class of the exception.
Outcome = tuple[str, str]
Tell = Callable[[dict[str, Any]], None]


def cases(suite: Any) -> Iterator[unittest.TestCase]:
    """All cases in a suite."""
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from cases(each)
        elif isinstance(each, unittest.TestCase):
            yield each


def load(name: str, folder: Path) -> types.ModuleType:
    """A module of the package `test`, from a copy: code of the standard library itself is never captured."""
    found = importlib.util.find_spec(f"test.{name}")
    assert found is not None
    if found.origin is None or found.submodule_search_locations is not None:
        raise unittest.SkipTest(f"{name} is a package")
    copied = folder / f"{name}.py"
    shutil.copy(found.origin, copied)
    spec = importlib.util.spec_from_file_location(f"test.{name}", copied)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Outcomes(unittest.TestResult):
    """Notes how each part of a case ends: what it came to, and the class of the exception."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []

    def addError(self, test: Any, err: Any) -> None:
        self.outcomes.append(("error", err[0].__name__))
        super().addError(test, err)

    def addFailure(self, test: Any, err: Any) -> None:
        self.outcomes.append(("failure", err[0].__name__))
        super().addFailure(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.outcomes.append(("skip", ""))

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.outcomes.append(("expected failure", err[0].__name__))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.outcomes.append(("in part", err[0].__name__))
        super().addSubTest(test, subtest, err)


def run(case: unittest.TestCase, call: Callable[[], Any], seconds: float) -> tuple[list[Outcome], str, bool]:
    """How a case ends that calls this for its method, the text of what it failed with, and whether it was stopped for its time."""
    result = Outcomes()
    name = case._testMethodName
    setattr(case, name, call)
    stopped = False

    def late(*_: object) -> None:
        nonlocal stopped
        stopped = True
        raise TimeoutError(f"{name} took longer than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    kept = sys.stdout, sys.stderr
    names = dict(vars(builtins))
    try:
        case.run(result)
    except Exception as error:
        result.outcomes.append(("run", type(error).__name__))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout, sys.stderr = kept
        vars(builtins).update(names)  # what a failure of ours kept the method from putting back
        vars(case).pop(name, None)
    texts = [text for _, text in (*result.errors, *result.failures)]
    return result.outcomes, _last_words(texts[0]) if texts else "", stopped


def _last_words(text: str) -> str:
    """The message of a traceback, and the lines of its innermost frame."""
    lines = text.strip().splitlines()
    return " | ".join(line.strip() for line in lines[-7:] if set(line.strip()) - set("~^"))[-700:]


def examine(case: unittest.TestCase, seconds: float, slower: float, tell: Tell) -> None:
    """Tell of one method, plain and compiled."""
    method = getattr(case, case._testMethodName)
    name = case.id()
    tell({"begun": name, "as": "plain", "seconds": seconds})
    began = time.monotonic()
    plain, _, stopped = run(case, method, seconds)
    if stopped:
        tell({"name": name, "late": "plain"})
        return
    tell({"begun": name, "as": "compiled", "seconds": slower * seconds})
    turned = time.monotonic()
    compiled = capture.compile(method)

    @functools.wraps(method)
    def call() -> Any:
        return compiled()

    outcome, error, stopped = run(case, call, slower * seconds)
    took = [round(turned - began, 3), round(time.monotonic() - turned, 3)]
    if outcome != plain and not stopped:
        tell({"begun": name, "as": "plain again", "seconds": seconds})
        again, _, _ = run(case, method, seconds)
        if again != plain:  # it is not the same each time
            outcome, error = plain, ""
    report = capture.report(compiled)
    ended = sorted({b.reason for b in report.breaks} | {s.split(": ", 1)[-1] for s in report.skipped})
    whole = bool(report.frames) and not ended
    capture.reset()
    told = {
        "name": name,
        "plain": plain,
        "compiled": outcome,
        "error": error,
        "ended": ended,
        "whole": whole,
        "took": took,
    }
    tell({**told, "late": "compiled"} if stopped else told)


def work(module_name: str, chosen: Callable[[str], bool], seconds: float, slower: float, pipe: int) -> None:
    """Tell of the chosen methods of a module, and end the process."""
    out = os.fdopen(pipe, "w", buffering=1)

    def tell(told: dict[str, Any]) -> None:
        print(json.dumps(told), file=out)

    capture.config.on_error = "raise"
    capture.session.tell = lambda *_: None  # type: ignore[assignment]  # tests count warnings
    sys.stdout = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            module = load(module_name, Path(folder))
            getattr(module, "setUpModule", lambda: None)()
        except unittest.SkipTest:
            tell({"finished": True})
            os._exit(0)
        found = unittest.defaultTestLoader.loadTestsFromModule(module)
        ready: dict[type, bool] = {}
        for case in cases(found):
            kind = type(case)
            if not chosen(case.id()) or "doctest" in kind.__module__:
                continue
            if kind not in ready:
                try:
                    kind.setUpClass()
                    ready[kind] = True
                except unittest.SkipTest:
                    ready[kind] = False
            if ready[kind]:
                examine(case, seconds, slower, tell)
        getattr(module, "tearDownModule", lambda: None)()
    tell({"finished": True})
    out.flush()
    os._exit(0)
