"""CPython's own tests, as installed with the interpreter, each test method compiled: same outcome as plain.

`python packages/capture/tests/cpython/outcomes.py [MODULE ...]` runs each module (`test_dict`) in a process of its own and reports, the worst first:
methods whose outcome differs, failures inside the compiler, crashes; then what ended captures, most frequent first, and how many are captured whole.
The exit status is 1 if an outcome differs. `nox -s cpython` runs `MODULES`.
"""

from __future__ import annotations

import argparse
import collections
import functools
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: The language and its built-in types.
MODULES = (
    "test_asyncgen", "test_augassign", "test_binop", "test_bool", "test_builtin", "test_bytes", "test_call", "test_class",
    "test_collections", "test_compare", "test_complex", "test_contextlib", "test_copy", "test_coroutines", "test_decorators",
    "test_defaultdict", "test_deque", "test_descr", "test_descrtut", "test_dict", "test_dictcomps", "test_dictviews",
    "test_dynamicclassattribute", "test_enum", "test_enumerate", "test_except_star", "test_exception_group", "test_exceptions",
    "test_extcall", "test_float", "test_format", "test_fstring", "test_funcattrs", "test_functools", "test_generator_stop",
    "test_generators", "test_genericalias", "test_genericclass", "test_getopt", "test_grammar", "test_hash", "test_index",
    "test_int", "test_int_literal", "test_isinstance", "test_iter", "test_itertools", "test_keywordonlyarg", "test_list",
    "test_listcomps", "test_long", "test_math", "test_metaclass", "test_named_expressions", "test_numeric_tower",
    "test_opcodes", "test_operator", "test_ordered_dict", "test_patma", "test_positional_only_arg", "test_pow", "test_print",
    "test_property", "test_raise", "test_range", "test_richcmp", "test_scope", "test_set", "test_setcomps", "test_slice",
    "test_sort", "test_str", "test_string", "test_subclassinit", "test_super", "test_tuple", "test_typechecks", "test_types",
    "test_unary", "test_unpack", "test_unpack_ex", "test_userdict", "test_userlist", "test_userstring", "test_weakset",
    "test_with",
)  # fmt: skip

#: A method runs no longer than this as it is; compiled, it may take `SLOWER` times as long.
SECONDS = 20
SLOWER = 5
#: How a method ends: what it came to, and the class of the exception.
Outcome = tuple[str, str]


@dataclass
class Report:
    """What became of all methods: `different` and `internal` are texts, `ended` counts the reasons of breaks and of frames left alone."""

    methods: int = 0
    whole: int = 0
    different: list[str] = field(default_factory=list)
    internal: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    ended: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, told: dict[str, Any]) -> None:
        """Take in what a process told of one method."""
        self.methods += 1
        name, plain, compiled = told["name"], told["plain"], told["compiled"]
        if "InternalError" in str(compiled):
            self.internal.append(f"{name}: {told['error']}")
        elif plain != compiled:
            self.different.append(f"{name}: {plain} became {compiled}: {told['error']}")
        self.whole += told["whole"]
        self.ended.update(set(told["ended"]))

    def __str__(self) -> str:
        lines = []
        for title, entries in (("different", self.different), ("internal", self.internal), ("crashed", self.crashed)):
            lines += [f"{title} ({len(entries)}):", *(f"    {entry}" for entry in sorted(entries))]
        lines.append("captures ended by:")
        lines += [f"    {count:5} {reason}" for reason, count in self.ended.most_common(150)]
        return "\n".join([*lines, f"{self.methods} methods, {self.whole} captured whole"])


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


def run(case: unittest.TestCase, call: Callable[[], Any], seconds: int = SECONDS) -> tuple[list[Outcome], str]:
    """How a case ends that calls this for its method, and the text of what it failed with."""
    result = Outcomes()
    name = case._testMethodName
    setattr(case, name, call)

    def late(*_: object) -> None:
        raise TimeoutError(f"{name} took longer than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    kept = sys.stdout, sys.stderr
    try:
        case.run(result)
    except Exception as error:
        result.outcomes.append(("run", type(error).__name__))
    finally:
        signal.alarm(0)
        sys.stdout, sys.stderr = kept
        vars(case).pop(name, None)
    texts = [text for _, text in (*result.errors, *result.failures)]
    return result.outcomes, _last_words(texts[0]) if texts else ""


def _last_words(text: str) -> str:
    """The message of a traceback, and the lines of its innermost frame."""
    lines = text.strip().splitlines()
    return " | ".join(line.strip() for line in lines[-7:] if set(line.strip()) - set("~^"))[-700:]


def told_of(case: unittest.TestCase) -> dict[str, Any]:
    """One method, plain and compiled."""
    import capture

    method = getattr(case, case._testMethodName)
    name = case.id()
    plain, _ = run(case, method)
    if ("error", "TimeoutError") in plain:
        return {}
    compiled = capture.compile(method)

    @functools.wraps(method)
    def call() -> Any:
        return compiled()

    outcome, error = run(case, call, SLOWER * SECONDS)
    if outcome != plain:
        again, _ = run(case, method)
        if again != plain:  # it is not the same each time
            outcome, error = plain, ""
    report = capture.report(compiled)
    ended = [b.reason for b in report.breaks] + [s.split(": ", 1)[-1] for s in report.skipped]
    whole = bool(report.frames) and not ended
    capture.reset()
    return {"name": name, "plain": plain, "compiled": outcome, "error": error, "ended": ended, "whole": whole}


def work(name: str, patterns: list[str], after: str) -> None:
    """In a process of its own: tell of the methods of a module, those after the one named, a line of JSON for each and one before."""
    import torch  # noqa: F401

    import capture
    import capture.session

    capture.config.on_error = "raise"
    capture.session.tell = lambda *_: None  # type: ignore[assignment]  # tests count warnings
    out, sys.stdout = os.fdopen(os.dup(1), "w", buffering=1), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        module = load(name, Path(folder))
        fixtures = getattr(module, "setUpModule", None), getattr(module, "tearDownModule", None)
        if fixtures[0]:
            fixtures[0]()
        skipping = bool(after)
        found = cases(unittest.defaultTestLoader.loadTestsFromModule(module))
        prepared: set[type] = set()
        for case in found:
            if skipping:
                skipping = case.id() != after
                continue
            if patterns and not any(p in case.id() for p in patterns):
                continue
            if "doctest" in type(case).__module__:
                continue
            print(json.dumps({"begun": case.id()}), file=out)
            if type(case) not in prepared:
                prepared.add(type(case))
                type(case).setUpClass()
            told = told_of(case)
            if told:
                print(json.dumps(told), file=out)
        if fixtures[1]:
            fixtures[1]()
    print(json.dumps({"finished": True}), file=out)
    out.flush()
    os._exit(0)


def examine(name: str, patterns: list[str], report: Report) -> None:
    """All methods of a module: a process that dies is begun again after the method that it died in."""
    after = ""
    while True:
        command = [sys.executable, __file__, "--work", name, "--after", after, *patterns]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for told in lines:
            if "name" in told:
                report.add(told)
        if lines and lines[-1].get("finished"):
            return
        begun = [told["begun"] for told in lines if "begun" in told]
        if not begun or begun[-1] == after:
            if "SkipTest" not in done.stderr:
                report.crashed.append(f"{name}: {done.stderr.strip()[-600:]}")
            return
        after = begun[-1]
        report.crashed.append(f"{after}: status {done.returncode}: {done.stderr.strip()[-600:]}")


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--only", action="append", default=[], help="part of a method's name")
    parser.add_argument("--work", default="")
    parser.add_argument("--after", default="")
    asked = parser.parse_args()
    if asked.work:
        work(asked.work, asked.modules, asked.after)
    report, told = Report(), set[str]()
    for name in asked.modules or MODULES:
        if importlib.util.find_spec(f"test.{name}") is None:
            continue
        before = report.methods, report.whole
        examine(name, asked.only, report)
        for each in (*report.different, *report.internal, *report.crashed):
            if each not in told:
                told.add(each)
                print("    " + each[:400], file=sys.stderr)
        print(f"{name}: {report.methods - before[0]} methods, {report.whole - before[1]} whole", file=sys.stderr)
    print(report)
    return 1 if report.different or report.internal or report.crashed else 0


if __name__ == "__main__":
    sys.exit(main())
