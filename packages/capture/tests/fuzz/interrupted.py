"""The written-out programs with breaks put between their statements: what is made before one comes from outside after it.

In: the name of a file of ``programs``, and what draws the places. Out: its programs, whose every function may be interrupted.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import programs
import torch
from compared import run, same
from programs import registry

import capture

FILES = sorted(
    file.name for file in pkgutil.iter_modules(programs.__path__) if file.name not in ("registry", *programs.APART)
)
"""Those of ``markers`` have a process of their own."""

#: What is different by more than the break: two texts of one content may be one object or two.
LEFT_OUT = ("texts_that_are_equal_break", "texts_joined_break")


@capture.disable
def stop() -> None:
    """A break."""


class Interrupting(ast.NodeTransformer):
    """Puts calls of ``_stop_here`` before statements of functions."""

    def __init__(self, draw: random.Random, rate: float) -> None:
        self.draw, self.rate = draw, rate
        self.inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        was, self.inside = self.inside, True
        self.generic_visit(node)
        self.inside = was
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        was, self.inside = self.inside, False
        self.generic_visit(node)
        self.inside = was
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, field, [made for each in value for made in self._with_stop(each)])
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    def _with_stop(self, each: Any) -> list[Any]:
        if not isinstance(each, ast.stmt):
            return [self.visit(each) if isinstance(each, ast.AST) else each]
        text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        stops = self.inside and not text and not isinstance(each, ast.Global | ast.Nonlocal)
        if not stops or self.draw.random() >= self.rate:
            return [self.visit(each)]
        call = ast.Expr(ast.Call(ast.Name("_stop_here", ast.Load()), [], []))
        return [ast.fix_missing_locations(ast.copy_location(call, each)), self.visit(each)]


def interrupted(file: str, draw: random.Random, rate: float) -> list[Callable[..., Any]]:
    """The programs of a file, with breaks at about ``rate`` of their statements."""
    name = f"programs.{file}"
    original = importlib.import_module(name)
    path = str(original.__file__)
    tree = Interrupting(draw, rate).visit(ast.parse(Path(path).read_text(encoding="utf-8")))
    module = types.ModuleType(name)
    module.__file__, module.__package__ = path, "programs"
    module.__dict__["_stop_here"] = stop
    before = len(registry.PROGRAMS)
    sys.modules[name] = module  # its classes are looked up there
    try:
        exec(compile(tree, path, "exec"), module.__dict__)
    finally:
        sys.modules[name] = original
        made = registry.PROGRAMS[before:]
        del registry.PROGRAMS[before:]
    return [fn for fn in made if fn.__name__ not in LEFT_OUT]


def difference(fn: Callable[..., Any]) -> str | None:
    """How a program's outcomes differ when it is compiled; None if they do not."""
    capture.reset()
    compiled = capture.compile(fn)
    name = fn.__module__
    original, sys.modules[name] = sys.modules[name], types.ModuleType(name)
    sys.modules[name].__dict__.update(fn.__globals__)
    try:
        for x in (torch.arange(12.0).reshape(3, 4), -torch.ones(3, 4), torch.arange(12.0).reshape(3, 4)):
            expected, got = run(fn, x), run(compiled, x)
            if not same(expected, got):
                return f"{name}.{fn.__name__}: {expected}\n{got}"
    finally:
        sys.modules[name] = original
    return None
