"""Programs over NumPy's arrays, captured: one graph, results of NumPy's, memory shared as NumPy shares it."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import capture

from .drawn import near
from .programs import PROGRAMS


def alike(a: Any, b: Any) -> bool:
    """Deep equality with types; arrays and scalars up to rounding."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return near(a, b) and a.flags.writeable == b.flags.writeable
    if isinstance(a, np.generic):
        return near(np.asarray(a), np.asarray(b))
    if isinstance(a, torch.Tensor):
        return a.dtype is b.dtype and torch.allclose(a, b)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    return bool(a == b or a != a)


def graphs_of(fn: Callable[..., Any], *calls: Callable[[], tuple[Any, ...]]) -> int:
    """How many graphs are captured for some calls, which give and change what they do without."""
    graphs = []

    def backend(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    compiled = capture.compile(fn, backend=backend)
    for make in calls:
        theirs, ours = make(), make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert alike(_outcome(compiled, ours), _outcome(fn, theirs))
        assert alike(list(ours), list(theirs))
    return len(graphs)


def _outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return fn(*args)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    x = np.arange(12.0).reshape(3, 4) - 3
    assert graphs_of(PROGRAMS[name], lambda: (x.copy(),), lambda: (x.copy() * 2,)) <= 1
    found = capture.explain(PROGRAMS[name], copy.deepcopy(x))
    assert not found.breaks


BREAKS: dict[str, Callable[..., Any]] = {
    "random numbers": lambda x: (np.random.rand(3).shape, x + 1),
    "strings": lambda x: (np.array(["a", "b"]).tolist(), x + 1),
    "beyond the dtype": lambda x: x.astype(np.uint8) + 300,
    "negative powers of integers": lambda x: np.arange(1, 3) ** -1,
    "a branch": lambda x: 1 if x.sum() > 2 else 2,
    "membership": lambda x: 2 in x,
    "unsigned sums": lambda x: x.astype(np.uint8).sum(),
    "no such place": lambda x: x[5],
    "no such axis": lambda x: x.sum(axis=3),
    "no such attribute": lambda x: x.nothing,
    "no such shape": lambda x: x.reshape(5, 5),
    "a cast that is none of its kind": lambda x: np.add(x, 1, out=np.zeros((3, 4), int)),
    "written to read only": lambda x: np.broadcast_to(x, (2, 3, 4)).__setitem__(0, 1),
    "an order of equals": lambda x: np.argsort(x[0]).shape,
    "of a tensor, which has methods of its own": lambda x: np.add(torch.ones(2), 1),
    "functions of Python's": lambda x: np.vectorize(lambda v: v + 1)(x),
    "backwards into torch": lambda x: torch.from_numpy(x[::-1]),
    "backwards and written to": lambda x: (lambda y, _: y)(x[::-1], x.__setitem__(0, 5)),
    "written to backwards": lambda x: (x[::-1].__setitem__(0, 5), x),
    "parts of what runs backwards": lambda x: (x[::-1].T, x[::-1][1:], x[::-1].reshape(-1)),
    "powers of truths": lambda x: (x > 0) ** 2,
    "axes of no dimensions": lambda x: np.asarray(x.sum()).swapaxes(0, -1),
    "an element set to an array": lambda x: x[0].__setitem__(0, np.ones((1, 1))),
    "a scalar backwards": lambda x: x.sum()[::-1],
    "sizes that do not fit": lambda x: np.stack([x[x > 0], x[x > 1]]),
    "sizes that cannot be added": lambda x: x[x > 0] + x[x > 1],
    "the length of a scalar": lambda x: len(x.sum()),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_what_differs_is_left_to_numpy(name: str) -> None:
    x = np.arange(12.0).reshape(3, 4) - 3
    graphs_of(BREAKS[name], lambda: (x.copy(),), lambda: (x.copy() + 1,))


@pytest.mark.parametrize("fn", [lambda t: t.numpy(), lambda t: t.numpy(force=True) * 2])
def test_arrays_over_tensors_that_have_none(fn: Callable[..., Any]) -> None:
    graphs_of(fn, lambda: (torch.ones(2, requires_grad=True),), lambda: (torch.ones(2),))
    graphs_of(fn, lambda: (torch.ones(2, dtype=torch.bfloat16),))
    graphs_of(fn, lambda: (torch.ones(2, dtype=torch.complex64).conj(),))


def test_other_arrays_get_other_captures() -> None:
    makers = (
        lambda: (np.ones(3),),
        lambda: (np.ones(3, np.float32),),
        lambda: (np.ones(3, np.uint16),),
        lambda: (np.ones(3).astype(">f8"),),
        lambda: (np.arange(6.0)[::2],),
        lambda: (np.arange(3.0)[::-1],),
        lambda: (np.ones(3).view(np.recarray),),
        lambda: (_read_only(np.ones(3)),),
        lambda: (torch.ones(3),),
        lambda: (3.0,),
    )
    graphs_of(lambda x: x * 2, *makers)
    assert graphs_of(lambda x: x * 2, *[lambda n=n: (np.full(3, n),) for n in (1.0, 2.0, 3.0)]) == 1


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def test_sizes_may_vary() -> None:
    assert graphs_of(lambda x: x * 2 + x.shape[0], *[lambda n=n: (np.ones(n),) for n in (3, 4, 5, 9)]) == 2


def test_floats_of_numpy_may_vary_and_integers_are_told_apart() -> None:
    fn = lambda x, s: x * s  # noqa: E731
    assert graphs_of(fn, *[lambda s=s: (np.ones(3), s) for s in (np.float32(2), np.float32(3))]) == 1
    graphs_of(fn, *[lambda s=s: (np.ones(3), s) for s in (np.int64(2), np.int64(3), np.int32(3), True, np.True_, 3)])
    graphs_of(lambda n: np.zeros(n), lambda: (np.int64(2),), lambda: (np.int64(3),))


def _adds(a: Any, b: Any) -> Any:
    a += 1
    return b * 2


def _overlapping() -> tuple[Any, ...]:
    whole = np.arange(6.0)
    return whole[:4], whole[2:]


def _one_memory() -> tuple[Any, ...]:
    tensor = torch.arange(4.0, dtype=torch.float64)
    return tensor, tensor.numpy()[1:]


def _one_array() -> tuple[Any, ...]:
    whole = np.arange(4.0)
    return whole, whole


@pytest.mark.parametrize("shared", [_overlapping, _one_memory, _one_array])
@pytest.mark.parametrize("first", [True, False])
def test_arrays_over_one_memory(shared: Callable[[], Any], first: bool) -> None:
    apart = lambda: tuple(each.clone() if isinstance(each, torch.Tensor) else each.copy() for each in shared())  # noqa: E731
    calls = [shared, apart, shared] if first else [apart, shared, apart]
    graphs_of(_adds, *calls)


def test_what_leaves_the_frame_is_over_the_memory_that_came() -> None:
    compiled = capture.compile(lambda x: (x[1:], x.T, x.reshape(2, 2), torch.from_numpy(x), np.asarray(x)))
    x = np.arange(4.0)
    found = compiled(x)
    x[1] = 77
    assert capture.compile(lambda x: x[::-1])(x).base is not None
    assert found[0][0] == found[1][1] == found[2][0, 1] == found[3][1] == 77
    assert found[4] is x


HELD = np.arange(3.0)


def test_arrays_that_live_on() -> None:
    held = np.arange(3.0)
    assert graphs_of(lambda x: x * HELD + held, lambda: (np.ones(3),), lambda: (np.zeros(3),)) == 1
    compiled = capture.compile(lambda x: x + held)
    compiled(np.ones(3))
    held[1] = 5
    assert compiled(np.ones(3)).tolist() == [1, 6, 3]
    held = np.arange(3)
    assert compiled(np.ones(3, np.int8)).dtype == np.int64


def test_arrays_of_a_module() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = np.arange(3.0, dtype=np.float32)

        def forward(self, x: Any) -> Any:
            return x * torch.from_numpy(self.scale)

    module = Scaled()
    assert graphs_of(module, lambda: (torch.ones(3),), lambda: (torch.zeros(3),)) == 1


def test_torchs_settings_are_not_numpys() -> None:
    def autocast(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x

    graphs_of(autocast, lambda: (np.full((2, 2), 1.001, np.float32),))

    def on_another_device(x: Any) -> Any:
        return np.zeros(2) + np.full(2, 3.0) + np.eye(2) + np.array([1, 2]) + np.where(x > 0, 1.0, x)

    with torch.device("meta"):
        graphs_of(on_another_device, lambda: (np.ones(2),))


def test_errors_that_numpy_raises() -> None:
    def raises(x: Any) -> Any:
        with np.errstate(all="raise"):
            return x / 0

    def breaks_within(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            y = x / 0
            compile("0", np.geterr()["divide"][:0], "eval")
            y = y + 1
        return y * 2

    graphs_of(raises, lambda: (np.ones(2),))
    graphs_of(breaks_within, lambda: (np.ones(2),))
    compiled = capture.compile(lambda x: x / 0)
    compiled(np.ones(2))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        compiled(np.ones(2))


def test_functions_of_arrays_as_functions_of_tensors() -> None:
    def mean(x: Any, y: Any) -> Any:
        return np.mean(np.sum(x[:, :, None] * y[:, None, :] + np.ones(3, np.float32), axis=(-2, -1)))

    x, y = (torch.randn(4, 3, requires_grad=True) for _ in range(2))
    found = capture.compile(torch.compiler.wrap_numpy(mean), fullgraph=True)(x, y)  # noqa: TID251 (the program's own)
    found.backward()
    ours, x.grad = x.grad, None
    (x[:, :, None] * y[:, None, :] + 1).sum((-2, -1)).mean().backward()
    assert ours is not None
    assert torch.allclose(ours, x.grad)  # type: ignore[arg-type]
    twice = torch.compiler.wrap_numpy(lambda xs: {"a": xs[0] * 2, "b": [xs[1].sum()]})  # noqa: TID251
    graphs_of(twice, lambda: ([torch.ones(2), torch.arange(3)],))


def test_numpys_errors_about_data() -> None:
    graphs = graphs_of(
        lambda x: (np.linalg.inv(x) * 2, np.linalg.cholesky(x)),
        lambda: (np.eye(3) * 2,),
        lambda: (np.zeros((3, 3)),),
        lambda: (-np.eye(3),),
    )
    assert graphs == 1


def test_a_break_between_arrays() -> None:
    def fn(x: Any) -> Any:
        y = x + 1
        z = y[1:]
        compile("0", "", "eval")
        z += 1
        return y * 2, y

    assert graphs_of(fn, lambda: (np.ones(3),)) == 2


def test_whose_memory_a_view_is_over() -> None:
    def fn(x: torch.Tensor) -> Any:
        array = np.zeros((3, 4))
        rows = [row.base is array for row in array]
        return x + 1, rows, array.T.base is array, array.base is None, array[1][1:].base is array

    graphs_of(fn, lambda: (torch.ones(2),))


def test_numpy_need_not_be_there() -> None:
    script = (
        "import sys; sys.modules['numpy'] = None\n"
        "import torch, capture\n"
        "assert capture.compile(lambda x: x + 1, fullgraph=True)(torch.ones(2)).tolist() == [2, 2]\n"
        "assert 'capture.arrays.dtypes' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)
