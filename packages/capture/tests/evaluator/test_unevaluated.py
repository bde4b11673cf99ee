"""Operations that no evaluation takes break the graph, or leave the frame alone, and say why; results are the program's."""

from __future__ import annotations

import asyncio
import opcode
import sys
from typing import Any

import pytest
import torch

import capture
from capture.bytecode.dialect import current
from capture.evaluator.program import HANDLERS
from capture.evaluator.unevaluated import UNEVALUATED, UNEVALUATED_BINARY, UNEVALUATED_UNARY

#: In no code object that a compiler made.
_OF_THE_INTERPRETER = {"RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR"}


def test_every_operation_of_a_compiler_has_a_handler_or_a_reason() -> None:
    known = {*HANDLERS, *UNEVALUATED, *current().fused, *current().read_as, *_OF_THE_INTERPRETER}
    emitted = {name for name, op in opcode.opmap.items() if op < 256 and not name.startswith("INSTRUMENTED")}
    assert emitted - known == set()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="intrinsics are of 3.12")
def test_every_intrinsic_has_a_handler_or_a_reason() -> None:
    unary: list[str] = opcode._intrinsic_1_descs  # type: ignore[attr-defined]
    binary: list[str] = opcode._intrinsic_2_descs  # type: ignore[attr-defined]
    assert set(range(1, len(unary))) == {3, 5, 6, *UNEVALUATED_UNARY}
    assert set(range(1, len(binary))) <= {1, *UNEVALUATED_BINARY}


#: Since which version, the program, and why it breaks; None: it may be evaluated one day.
CASES: dict[str, tuple[tuple[int, int], str, str | None]] = {
    "a class body": (
        (3, 11),
        """
def f(x):
    k = 3
    class A:
        y = k
        z = x.shape[0]
        w: int = 5
        if y:
            q = [k + i for i in range(2)]
        for i in range(2):
            pass
        del i
        def g(self):
            return x * self.y + k, __class__ is A
    return A().g(), A.z, A.w, A.q, A.__annotations__, hasattr(A, "i")
""",
        None,
    ),
    "a class body within one": (
        (3, 11),
        """
def f(x):
    class A:
        v = x.sum()
        class B(dict):
            t = 4
            def m(self):
                return super().get(1, x)
    return A.B().m() + A.B.t + A.v
""",
        None,
    ),
    "the end of an async for": (
        (3, 11),
        """
class Counted:
    def __init__(self, n):
        self.n = n
    def __aiter__(self):
        return self
    async def __anext__(self):
        if not self.n:
            raise StopAsyncIteration
        self.n -= 1
        return self.n

class Managed:
    async def __aenter__(self):
        return 2
    async def __aexit__(self, *about):
        return False

def f(x):
    async def counted(t):
        async for i in Counted(3):
            t = t + i
        async with Managed() as k:
            t = t * k
        return t + sum([i async for i in Counted(3)]), {i: i async for i in Counted(2)}
    return asyncio.run(counted(x + 1))
""",
        None,
    ),
    "a function with type parameters": (
        (3, 12),
        """
def f(x):
    def g[T: (int, float), *Ts, **P](a: T, b: T = 2) -> T:
        return a + b
    return g(x), [str(each) for each in g.__type_params__]
""",
        "a type parameter",
    ),
    "a bound of a type parameter": (
        (3, 12),
        """
def f(x):
    def g[T: int](a: T):
        return a * 2
    return g(x), g.__type_params__[0].__bound__
""",
        "a type parameter",
    ),
    "a class with type parameters": (
        (3, 12),
        """
def f(x):
    class C[T](dict[str, T]):
        v: T
        def m[U](self, a: U) -> U:
            return a + x
    return C().m(1), len(C.__type_params__), C[int].__args__, str(C.__orig_bases__)
""",
        "a type parameter",
    ),
    "a type statement": (
        (3, 12),
        """
def f(x):
    type N = int
    type L[T] = list[T]
    return x + 1, L.__name__, N.__value__
""",
        "a type statement",
    ),
    "defaults of type parameters": (
        (3, 13),
        """
def f(x):
    def g[T = int, *Ts = *tuple[int, ...], **P = [int]](a: T):
        return a + 1
    return g(x), g.__type_params__[0].__default__
""",
        "a type parameter",
    ),
}


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return type(value)(map(_plain, value)) if isinstance(value, (tuple, list)) else value


@pytest.mark.parametrize("name", [name for name, (since, _, _) in CASES.items() if sys.version_info >= since])
def test_runs_and_says_why(name: str) -> None:
    _, text, reason = CASES[name]
    space: dict[str, Any] = {"asyncio": asyncio}
    exec(text, space)
    function, x = space["f"], torch.ones(2)
    compiled = capture.compile(function)
    for _ in range(2):
        assert _plain(compiled(x)) == _plain(function(x))
    if reason is None:
        return
    assert any(reason in each.reason for each in compiled.session.report.breaks)
    with pytest.raises(capture.GraphBreakError, match=reason):
        capture.compile(function, fullgraph=True)(x)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="until 3.12 comprehensions are functions")
def test_a_comprehension_that_the_compiler_confuses_with_an_enclosing_function() -> None:
    def outer() -> Any:
        k = 10

        def inner(t: torch.Tensor) -> torch.Tensor:
            within = [lambda: k for k in range(3)]
            return t + k + within[0]()

        return inner

    inner, x = outer(), torch.ones(2)
    with pytest.warns(capture.CaptureWarning, match="'k' is a comprehension's variable and an enclosing function's"):
        assert torch.equal(capture.compile(inner)(x), inner(x))
    with pytest.raises(capture.GraphBreakError, match="'k' is a comprehension's variable"):
        capture.compile(lambda t: inner(t) + 1, fullgraph=True)(x)
