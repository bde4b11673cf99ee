"""``fullgraph=True`` is a promise: a call runs captured as a whole, or raises; never a silent eager run."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import capture

PROGRAMS: dict[str, Callable[..., Any]] = {}
X = torch.arange(1.0, 4.0)
LOG: list[str] = []


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Something of one tensor that cannot be captured whole."""
    PROGRAMS[getattr(fn, "__name__", "unnamed")] = fn
    return fn


@program
def generator(x: torch.Tensor) -> Any:
    yield x + 1


@program
async def coroutine(x: torch.Tensor) -> Any:
    return x + 1


@program
async def asynchronous_generator(x: torch.Tensor) -> Any:
    yield x + 1


@program
def generator_expression(x: torch.Tensor) -> Any:
    return (y * 2 for y in x)


@program
@contextlib.contextmanager
def context_manager(x: torch.Tensor) -> Any:
    yield x + 1


PROGRAMS["partial_of_a_generator"] = functools.partial(generator)


@program
def looks_at_its_locals(x: torch.Tensor) -> Any:
    y = x + 1
    return sum(v.sum() for v in locals().values())


@program
def looks_at_the_locals_of_its_frame(x: torch.Tensor) -> Any:
    return x + len(sys._getframe().f_locals)


@program
def evaluates(x: torch.Tensor) -> Any:
    return eval("x + 1")


@program
def executes(x: torch.Tensor) -> Any:
    names = {"x": x}
    exec("y = x + 1", names)
    return names["y"]


@program
def branches_on_data(x: torch.Tensor) -> Any:
    return x + 1 if x.sum() > 0 else x[:1]


@program
def loops_on_data(x: torch.Tensor) -> Any:
    while x.sum() < 10:
        x = x + 1
    return x


@program
def branches_on_a_number_in_data(x: torch.Tensor) -> Any:
    return x * 2 if x.max().item() > 1 else x[:1]


@program
def repeats_by_data(x: torch.Tensor) -> Any:
    return [x + n for n in range(int(x[0]))]


@program
def branches_on_a_size_in_data(x: torch.Tensor) -> Any:
    return x + 1 if len(x.nonzero()) == 1 else x[:1]


@program
def prints(x: torch.Tensor) -> Any:
    compile("0", "", "eval")
    return x + 1


@program
def warns(x: torch.Tensor) -> Any:
    warnings.warn("of the program", stacklevel=1, source=x)
    return x + 1


@program
def raises(x: torch.Tensor) -> Any:
    y = x + 1
    raise ValueError(y)


@program
def reads_a_file(x: torch.Tensor) -> Any:
    with open(__file__) as file:
        return x + len(file.readline())


@program
def looks_at_the_frame(x: torch.Tensor) -> Any:
    return x + sys._getframe().f_lineno


@program
def calls_numpy(x: torch.Tensor) -> Any:
    return torch.from_numpy(np.argsort(x.numpy()))


@program
def differentiates(x: torch.Tensor) -> Any:
    y = (x.detach().requires_grad_() ** 2).sum()
    y.register_hook(print)
    y.backward()
    return y


@program
def sparse(x: torch.Tensor) -> Any:
    return x.to_sparse() * 2


@program
def starts_a_thread(x: torch.Tensor) -> Any:
    import threading

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(x + 1))
    thread.start()
    thread.join()
    return found[0]


@program
def runs_a_coroutine(x: torch.Tensor) -> Any:
    return asyncio.run(coroutine(x))


@program
def deletes_itself(x: torch.Tensor) -> Any:
    class Closing:
        def __del__(self) -> None:
            LOG.append("closed")

    closing = Closing()
    del closing
    return x + 1


@program
@capture.disable
def disabled(x: torch.Tensor) -> Any:
    return x + 1


@program
def calls_something_disabled(x: torch.Tensor) -> Any:
    return disabled(x) + 1


class Callable_:
    def __call__(self, x: torch.Tensor) -> Any:
        compile("0", "", "eval")
        return x + 1


PROGRAMS["object"] = Callable_()
PROGRAMS["method"] = Callable_().__call__
PROGRAMS["partial"] = functools.partial(branches_on_data)
PROGRAMS["built_in"] = torch.Tensor.untyped_storage
PROGRAMS["map"] = functools.partial(map, lambda y: y + 1)
PROGRAMS["evaluator"] = functools.partial(eval, "lambda: 2")


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        compile("0", "", "eval")
        return x + 1


PROGRAMS["module"] = Net()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("on_error", ["raise", "fallback"])
def test_what_cannot_be_captured_whole_is_an_error(name: str, on_error: Any) -> None:
    capture.config.on_error = on_error
    run = capture.compile(PROGRAMS[name], fullgraph=True)
    for _ in range(2):
        with pytest.raises(capture.GraphBreakError) as caught, warnings.catch_warnings():
            warnings.simplefilter("error")
            result = run(X)
            if inspect.iscoroutine(result):
                result.close()
        assert caught.value.reason
        known = (
            "test_fullgraph.py",
            "<compiled untyped_storage>",
            "<compiled partial>",
            "<compiled RecursiveScriptModule>",
            "<compiled partial>",
        )
        assert any(place in caught.value.user_line for place in known)


class Scale:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x * 2

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.x

    @staticmethod
    def static(x: torch.Tensor) -> torch.Tensor:
        return x * 4

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * 5


@torch.no_grad()
def without_grad(x: torch.Tensor) -> torch.Tensor:
    return x * 6


WHOLE: list[Callable[..., Any]] = [
    torch.sin,
    torch.Tensor.sin,
    torch.nn.functional.relu,
    torch.nn.functional.gelu,
    torch.ops.aten.sin.default,
    functools.partial(torch.mul, 3),
    functools.partial(lambda a, b: a - b, b=2),
    Scale(X),
    Scale(X).method,
    Scale.static,
    Scale.of_class,
    without_grad,
    capture.compile(without_grad),
    torch.nn.ReLU().forward,
    lambda x: Scale(x).x,
]


@pytest.mark.parametrize("fn", WHOLE, ids=lambda fn: getattr(fn, "__name__", type(fn).__name__))
def test_callables_of_every_kind_are_captured_whole(fn: Callable[..., Any]) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(module)
        return module.forward

    run = capture.compile(fn, backend, fullgraph=True)
    for _ in range(2):
        assert torch.equal(run(X), fn(X))
    assert len(graphs) == 1


def test_a_class_is_captured_by_what_it_constructs() -> None:
    made = capture.compile(Scale, fullgraph=True)(X)
    assert type(made) is Scale
    assert torch.equal(made.x, X * 2)


def test_nothing_to_compile_is_no_error() -> None:
    run = capture.compile(lambda n, pair: (n + 1, pair), fullgraph=True)
    assert run(2, (1, "a")) == (3, (1, "a"))
    assert capture.compile(max, fullgraph=True)(2, 3) == 3


def test_a_failing_backend_is_the_cause() -> None:
    failure = RuntimeError("no compiler")

    def broken(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise failure

    for on_error in ("raise", "fallback"):
        capture.config.on_error = on_error  # type: ignore[assignment]
        with pytest.raises(capture.GraphBreakError, match="no compiler") as caught:
            capture.compile(lambda x: x + 1, broken, fullgraph=True)(X)
        assert caught.value.__cause__ is failure


def test_the_call_after_the_last_allowed_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "recompile_limit", 2)

    def fn(x: torch.Tensor, name: str) -> torch.Tensor:
        return x + len(name)

    run = capture.compile(fn, fullgraph=True)
    run(X, "a")
    run(X, "bb")
    for _ in range(2):
        with pytest.raises(
            capture.GraphBreakError, match=r"2 variants .* name == 'bb', now 'ccc'  # test_fullgraph.py:\d+ in fn"
        ):
            run(X, "ccc")
    assert torch.equal(run(X, "a"), X + 1)
    assert len(run.session.report.skipped) <= 1


def test_a_promise_holds_wherever_the_call_is_made() -> None:
    whole = capture.compile(lambda x: x + 1, fullgraph=True)
    broken = capture.compile(prints, fullgraph=True)

    def fn(x: torch.Tensor) -> torch.Tensor:
        compile("0", "", "eval")
        return whole(x) * 2

    def failing(x: torch.Tensor) -> torch.Tensor:
        compile("0", "", "eval")
        return broken(x) * 2

    for around in (lambda f: f, capture.disable, capture.compile):
        assert torch.equal(around(fn)(X), (X + 1) * 2)
        with pytest.raises(capture.GraphBreakError, match="open"):
            around(failing)(X)
        assert torch.equal(whole(X), X + 1)


def test_a_backend_that_calls_compiled_code_is_told() -> None:
    inner = capture.compile(lambda x: x + 1, fullgraph=True)

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        inner(X)
        return module.forward

    with pytest.raises(capture.InternalError, match="while another capture is in progress"):
        capture.compile(lambda x: x + 1, backend)(X)


def test_recursion_beyond_what_is_inlined() -> None:
    def depth(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else depth(x + 1, n - 1)

    with pytest.raises(capture.GraphBreakError, match="too deep"):
        capture.compile(depth, fullgraph=True)(X, 400)


def test_optimizer_step() -> None:
    parameter = torch.nn.Parameter(X.clone())
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.grad = torch.ones(3)
    capture.compile(optimizer.step, fullgraph=True)()
    assert torch.equal(parameter, X - 0.1)


def test_a_set_from_outside_is_gone_through_in_its_order() -> None:
    def in_order(x: torch.Tensor, names: set[str]) -> torch.Tensor:
        for place, name in enumerate(names):
            x = x * int(name) + place
        return x

    compiled = capture.compile(in_order, fullgraph=True)
    # These want one place in a table of eight: the first to come has it.
    texts = [text for text in map(str, range(200)) if hash(text) % 8 == 0][:3]
    backwards = texts[::-1]
    one, other = set(texts), set(backwards)
    assert one == other and list(one) != list(other)
    x = torch.ones(3, dtype=torch.float64)
    for names in (one, other, set(one)):
        torch.testing.assert_close(compiled(x, names), in_order(x, names), rtol=0, atol=0)

    def changed(x: torch.Tensor, names: set[str]) -> torch.Tensor:
        names.discard("nothing")
        return in_order(x, names)

    compiled = capture.compile(changed, fullgraph=True)
    for names in (one, other, set(one)):
        torch.testing.assert_close(compiled(x, names), changed(x, names), rtol=0, atol=0)
