# mypy: ignore-errors
"""Class statements with annotations in a captured function: from 3.14 on a function within the statement makes these when they are asked for."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are made with the class")


def compiled_without_future(text: str) -> Callable[[torch.Tensor], Any]:
    namespace = {"torch": torch, "dataclasses": dataclasses, "typing": typing, "__name__": __name__}
    exec(compile(textwrap.dedent(text), "<program>", "exec", dont_inherit=True), namespace)
    return namespace["fn"]


WHOLE = {
    "not asked for": """
        def fn(x):
            class A:
                y: int = 3
            return x * A.y
    """,
    "asked for": """
        def fn(x):
            class A:
                y: int = 3
                z: "str"
            return x * A.y, A.__annotations__
    """,
    "by conditions": """
        def fn(x):
            class A:
                if x.dim() == 1:
                    y: int = 3
                else:
                    z: float = 4
                for k in range(2):
                    q: str = k
            return x * A.q, A.__annotations__
    """,
    "of variables, by then": """
        def fn(x):
            T = int
            class A:
                t = T
                y: T
                z: t
            T = float
            A.t = str
            return x + 1, A.__annotations__
    """,
    "not there": """
        def fn(x):
            class A:
                y: nothing = 3
            try:
                return A.__annotations__
            except NameError as error:
                return repr(error), x * A.y
    """,
    "of methods": """
        def fn(x):
            class A:
                t = int
                def f(self, a: t, b: "t") -> float:
                    return a
            return x * A().f(2, 3), A.f.__annotations__
    """,
    "a class that is handed out": """
        def fn(x):
            T = int
            class A:
                t = T
                y: T = 3
                z: t
                class B:
                    w: float
            T = float
            return A, x * A.y
    """,
    "with __class__": """
        def fn(x):
            class A:
                y: int = 3
                def f(self):
                    return __class__.y
            return A(), x * A().f()
    """,
    "a dataclass": """
        def fn(x):
            @dataclasses.dataclass
            class A:
                y: int = 3
                c: typing.ClassVar[int] = 5
                w: float = 2.0
            return A(4, 3).y * x, A.c, A(1), A.__match_args__
    """,
    "a named tuple": """
        def fn(x):
            class A(typing.NamedTuple):
                y: int
                z: float = 2.0
            return A(3).z * x, A._fields, A(1)
    """,
    "a module": """
        def fn(x):
            class M(torch.nn.Module):
                w: int
                def forward(self, x):
                    return x * self.w
            M.w = 3
            return M()(x)
    """,
}

#: What is not followed, and right all the same.
BROKEN = {
    "handed out with the annotations": """
        def fn(x):
            class A:
                y: int = 3
            told = A.__annotations__
            told["k"] = 3
            return A, told, told is A.__annotations__, x + 1
    """,
    "a method that is handed out": """
        def fn(x):
            class A:
                t = int
                def f(self, a: t):
                    return a
            return A.f, x + 1
    """,
    "a dataclass of variables": """
        def fn(x):
            T = int
            @dataclasses.dataclass
            class A:
                y: T = 3
            T = float
            return A(3), [each.type for each in dataclasses.fields(A)], x + 1
    """,
}


def shown(value: Any) -> Any:
    """What there is to see of a class, in words: that of another call is another one."""
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    if hasattr(value, "__code__"):
        return value.__qualname__, shown(value.__annotations__)
    if isinstance(value, type) and value.__module__ == __name__:
        return value.__qualname__, shown(value.__annotations__), [shown(value.__annotations__), sorted(vars(value))]
    if type(value).__module__ == __name__:
        return shown(type(value)), repr(value).split(" at ")[0]
    return repr(value)


def check(text: str) -> int:
    compiled = capture.compile(compiled_without_future(text))
    x = torch.ones(2)
    for _ in range(2):
        assert shown(compiled(x)) == shown(compiled_without_future(text)(x))
    return capture.report(compiled).break_count


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_captured_whole(text: str) -> None:
    assert check(text) == 0


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_broken(text: str) -> None:
    check(text)
