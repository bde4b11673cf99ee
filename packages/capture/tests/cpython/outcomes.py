"""CPython's own tests, as installed with the interpreter, each test method compiled: same outcome as plain.

`python packages/capture/tests/cpython/outcomes.py [MODULE ...]` runs each module (`test_dict`) in a process of its own and reports, the worst first:
methods whose outcome differs, failures inside the compiler, crashes, those that took too long; then what ended captures, most frequent first, and how
many are captured whole. The exit status is 1 if an outcome differs. `nox -s cpython` runs `MODULES`.

With `--results FILE` what came of each method is kept there, a line of JSON each, and the next run with that file goes on where this one stood; with
`--again` as well, it runs those anew that were not the same.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import importlib.util
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import one_method
import torch  # noqa: F401  (once, for all processes)

import capture

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
    "test_unary", "test_unicode", "test_unpack", "test_unpack_ex", "test_userdict", "test_userlist", "test_userstring", "test_weakset",
    "test_with",
)  # fmt: skip

#: Beyond a method's time: until a process that does not hear its alarm is ended.
GRACE = 10


@dataclass
class Report:
    """What became of all methods: texts by what is wrong; `ended` counts the reasons of breaks and of frames left alone."""

    methods: int = 0
    whole: int = 0
    different: list[str] = field(default_factory=list)
    internal: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    ended: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, told: dict[str, Any]) -> str:
        """Take in what came of one method; the text of what is wrong, if anything is."""
        self.methods += 1
        name = told["name"]
        if told.get("late"):
            self.late.append(f"{name}: {told['late']}")
            return self.late[-1] if told["late"] != "plain" else ""
        if "crashed" in told:
            self.crashed.append(f"{name}: {told['crashed']}")
            return self.crashed[-1]
        self.whole += told["whole"]
        self.ended.update(told["ended"])
        if is_same(told):
            return ""
        group = self.internal if "InternalError" in str(told["compiled"]) else self.different
        group.append(f"{name}: {told['plain']} became {told['compiled']}: {told['error']}")
        return group[-1]

    def __str__(self) -> str:
        lines = []
        for title in ("different", "internal", "crashed", "late", "left"):
            entries = getattr(self, title)
            lines += [f"{title} ({len(entries)}):", *(f"    {entry}" for entry in sorted(entries))]
        lines.append("captures ended by:")
        lines += [f"    {count:5} {reason}" for reason, count in self.ended.most_common(150)]
        return "\n".join([*lines, f"{self.methods} methods, {self.whole} captured whole"])


def is_same(told: dict[str, Any]) -> bool:
    """Whether a method came to the same compiled, or cannot be told of since it takes too long as it is."""
    return told.get("late") == "plain" or (not told.keys() & {"late", "crashed"} and told["plain"] == told["compiled"])


def begin(module: str, asked: argparse.Namespace, done: set[str]) -> tuple[int, int, Any]:
    """A process that tells of a module's methods but these: its id, the pipe, and the file of what it writes to stderr."""
    errors = tempfile.TemporaryFile("w+")
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading, errors
    try:
        os.setsid()
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(errors.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        faulthandler.enable()

        def chosen(name: str) -> bool:
            return name not in done and (not asked.only or any(part in name for part in asked.only))

        one_method.work(module, chosen, asked.seconds, asked.slower, writing)
    except BaseException as error:
        sys.__stderr__.write(f"{type(error).__name__}: {error}\n")
        sys.__stderr__.flush()
    os._exit(1)


def lines_of(pid: int, pipe: int, until: float) -> Iterator[dict[str, Any]]:
    """What a process tells, until it ends; it is ended when it does not hear its alarm, or when the module's time is over."""
    text, due = b"", time.monotonic() + 600
    while True:
        wait = min(due, until) - time.monotonic()
        if wait < 0 or not select.select([pipe], [], [], wait)[0]:
            os.killpg(pid, signal.SIGKILL)
            yield {"ended_for": "the module" if until < due else "the method"}
            return
        read = os.read(pipe, 1 << 16)
        if not read:
            return
        *whole, text = (text + read).split(b"\n")
        for line in whole:
            told = json.loads(line)
            due = time.monotonic() + told.get("seconds", 60) + GRACE
            yield told


def examine(module: str, asked: argparse.Namespace, done: set[str]) -> Iterator[dict[str, Any]]:
    """What comes of a module's methods but these: a process that dies is begun again after the method that it died in."""
    until = time.monotonic() + asked.module_seconds
    while True:
        pid, pipe, errors = begin(module, asked, done)
        begun: dict[str, Any] = {}
        finished, ended_for = False, ""
        for told in lines_of(pid, pipe, until):
            finished |= "finished" in told
            ended_for = told.get("ended_for", "")
            if "begun" in told:
                begun = told
            elif "name" in told:
                done.add(told["name"])
                begun = {}
                yield told
        os.close(pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if finished:
            return
        errors.seek(0)
        words = f"{begun.get('as', '')}: {ended_for or f'status {status}'}: {errors.read().strip()[-600:]}"
        if ended_for == "the module":
            yield {"left": module, "at": begun.get("begun", "")}
            return
        name = begun.get("begun", module)
        if begun.get("as", "").startswith("plain") and ended_for:
            yield {"name": name, "late": "plain"}
        elif ended_for:
            yield {"name": name, "late": f"compiled, deaf: {words}"}
        else:
            yield {"name": name, "crashed": words}
        if not begun:
            return
        done.add(name)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--only", action="append", default=[], help="part of a method's name")
    parser.add_argument("--results", type=Path, help="a file where what came of each method is kept")
    parser.add_argument("--again", action="store_true", help="run anew what was not the same")
    parser.add_argument("--seconds", type=float, default=4, help="a method runs no longer than this as it is")
    parser.add_argument("--slower", type=float, default=5, help="compiled, it may take so many times as long")
    parser.add_argument("--module-seconds", type=float, default=300, help="then what is left of a module is left")
    parser.add_argument("--max-instructions", type=int, default=10_000, help="of one capture: capture.config's")
    asked = parser.parse_args()
    capture.config.max_instructions = asked.max_instructions

    kept: dict[str, dict[str, dict[str, Any]]] = collections.defaultdict(dict)
    finished: set[str] = set()
    if asked.results is not None and asked.results.exists():
        for line in asked.results.read_text().splitlines():
            row = json.loads(line)
            if "name" in row:
                kept[row["module"]][row["name"]] = row
            elif "whole_module" in row:
                finished.add(row["whole_module"])

    def keep(row: dict[str, Any]) -> None:
        if asked.results is not None:
            with asked.results.open("a") as file:
                print(json.dumps(row), file=file)

    report = Report()
    began = time.monotonic()
    for module in asked.modules or MODULES:
        if importlib.util.find_spec(f"test.{module}") is None:
            continue
        if asked.again:
            kept[module] = {name: row for name, row in kept[module].items() if is_same(row)}
        for row in kept[module].values():
            report.add(row)
        before, started = report.methods, time.monotonic()
        if module not in finished or asked.again:
            left = False
            for row in examine(module, asked, set(kept[module])):
                if "left" in row:
                    left = True
                    report.left.append(f"{row['left']}: from {row['at']}")
                    continue
                keep({"module": module, **row})
                wrong = report.add(row)
                if wrong:
                    print("    " + wrong[:400], file=sys.stderr)
            if not left and not asked.only:
                keep({"whole_module": module})
        print(f"{module}: {report.methods - before} methods, {time.monotonic() - started:.0f} s", file=sys.stderr)
    print(report)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if report.different or report.internal or report.crashed else 0


if __name__ == "__main__":
    sys.exit(main())
