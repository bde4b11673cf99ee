"""What changes from one capture to the next is symbolic from then on: sizes, strides and numbers, wherever they are read."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pytest
import torch

import capture
from capture import _native
from capture.driver import Spread
from capture.history import History

Program = Callable[..., Any]
SCALE: Any = 3


def graphs_of(program: Program, *calls: tuple[Any, ...], dynamic: bool | None = None) -> list[int]:
    """How many graphs there are after each call, whose result is eager's."""
    compiled = capture.compile(program, dynamic=dynamic)
    counts = []
    for args in calls:
        expected, got = program(*args), compiled(*args)
        assert type(expected) is type(got)
        if isinstance(expected, torch.Tensor):
            assert torch.equal(expected, got) or (expected.isnan().all() and got.isnan().all())
            assert expected.dtype == got.dtype
        else:
            assert expected == got
        counts.append(compiled.session.report.graph_count)
    return counts


def t(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


@pytest.mark.parametrize(
    ("program", "calls", "graphs"),
    [
        (lambda x: x * 2 + x.shape[0], [(t(n, 3),) for n in (4, 5, 6, 9)], [1, 2, 2, 2]),
        (lambda x: x * 2, [(t(n, m),) for n, m in ((4, 3), (5, 3), (5, 6), (7, 8))], [1, 2, 3, 3]),
        (lambda x, n: x * n, [(t(4), n) for n in (3, 5, -2, 0, 1, 9)], [1, 2, 2, 2, 2, 2]),
        (lambda x, n: x * n, [(t(4), n) for n in (3, 5, 2**63, 4)], [1, 2, 3, 3]),
        (lambda x, f: x * f + 1, [(t(4), f) for f in (3.0, 0.5, 7.0, math.nan, math.inf, -0.0)], [1, 2, 2, 2, 2, 2]),
        (lambda x, f: x if f > 1 else x * f, [(t(4), f) for f in (3.0, 2.0, 1.5, 0.5, math.nan)], [0, 0, 0, 1, 1]),
        (lambda x, n: x[:n], [(t(9), n) for n in (3, 5, 7, 2, 8)], [1, 2, 2, 2, 2]),
        (lambda x, n: x * n[0]["n"], [(t(9), [{"n": n}]) for n in (3, 5, 7)], [1, 2, 2]),
        (lambda x: x.sum(0) * 2, [(t(8, n)[:, :4],) for n in (10, 12, 20, 31)], [1, 2, 2, 2]),
        (lambda x: x.sum(0) * 2, [(t(8, n)[:, :4].t(),) for n in (10, 12, 20, 31)], [1, 2, 2, 2]),
        # Where sizes of a tensor change one after the other, the third is not waited for.
        (
            lambda x: x * 2 + x.shape[1],
            [(t(*size),) for size in ((2, 4, 6), (3, 4, 6), (3, 4, 7), (3, 5, 7), (9, 8, 2))],
            [1, 2, 3, 3, 3],
        ),
        (
            lambda x, y: x.sum() + y * 2,
            [(t(a, 4), t(b, 6)) for a, b in ((2, 3), (5, 3), (7, 4), (6, 5))],
            [1, 2, 3, 3],
        ),
        # Of two sizes that were different once, it does not count that they are the same now.
        (
            lambda x, y: x.sum() + y.sum() * x.shape[0],
            [(t(a), t(b)) for a, b in ((4, 4), (5, 5), (6, 7), (8, 8), (9, 3))],
            [1, 2, 3, 3, 3],
        ),
        (lambda x: x + 1, [(t(n, 3),) for n in (4, 1, 0, 5, 6, 1)], [1, 2, 3, 3, 3, 3]),
        # What must be one value is a constant each time.
        (lambda x, n: x.sum(n), [(t(4, 3), n) for n in (0, 1, 0)], [1, 2, 2]),
        (lambda x, n: [x + 1, x * 2, x - 3][n], [(t(4), n) for n in (0, 1, 2, 1)], [1, 2, 3, 3]),
    ],
)
def test_what_changes_is_symbolic(program: Program, calls: list[tuple[Any, ...]], graphs: list[int]) -> None:
    assert graphs_of(program, *calls) == graphs


def test_sizes_that_change_one_after_the_other_make_their_tensors_alone_symbolic() -> None:
    compiled = capture.compile(lambda x, y: x.sum() + y * 2)
    for size in ((2, 4, 1, 6), (3, 4, 1, 6), (3, 4, 1, 7)):
        compiled(t(*size), t(5, 7))
    x, y = compiled.session.report.graphs[-1].inputs
    assert [type(n) for n in x.shape] == [torch.SymInt, torch.SymInt, int, torch.SymInt]
    assert [type(n) for n in y.shape] == [int] * 2


@pytest.mark.parametrize(
    ("first", "second", "tried", "kept"),
    [
        ((math.inf, False), (math.inf, True), 2, True),
        ((7, False), (7, True), 2, True),
        ((7, False), (5, True), 3, False),
        ((7, True), (9, False), 2, False),
        ((7, True), (7, False), 3, True),
        ((math.inf, True), None, 1, True),
    ],
)
def test_sizes_are_not_symbolic_where_the_program_gets_less_far_so(
    first: tuple[float, bool], second: tuple[float, bool] | None, tried: int, kept: bool
) -> None:
    """Evaluations told by the step that they reach (all of it: infinity), and whether sizes are symbolic there."""
    history = History((lambda: None).__code__)
    history.spread = first[1]
    reached = {spread: step for step, spread in filter(None, (first, second))}
    spread, evaluations = Spread(history), 0
    again = True
    while again:
        evaluations += 1
        step = reached[history.spread]
        m: Any = Namespace(
            state=Namespace(step=step), recorder=Namespace(dynamic_sizes=Namespace(spreads=lambda: True))
        )
        again = spread.another(m, step == math.inf)
    assert (evaluations, history.spread) == (tried, kept)
    assert not spread.back() or first == (math.inf, True)


def test_a_cache_made_by_a_view_and_then_by_cat_is_of_any_strides() -> None:
    compiled = capture.compile(lambda past, new: torch.cat([past, new], 1) * 2, fullgraph=True)
    for steps in (4, 7, 3):
        past = t(3, steps, 3, 4)[:, :, 1]
        for _ in range(3):
            new = t(3, 1, 4)
            expected, past = torch.cat([past, new], 1) * 2, compiled(past, new)
            assert torch.equal(past, expected)
    assert compiled.session.report.graph_count == 2


@pytest.mark.parametrize(
    ("program", "calls", "graphs"),
    [
        (lambda x, n: x * n, [(t(4), n) for n in (3, 5, -2, 0, 1)], 1),
        (lambda x, f: x * f, [(t(4), f) for f in (3.0, 0.5, -0.0, math.nan)], 1),
        (lambda x: x.sum(0) * 2, [(t(8, n)[:, :4],) for n in (10, 12, 20)], 1),
        (lambda x: x.sum(0) * 2, [(t(8, n)[:, ::2].t(),) for n in (10, 12, 20)], 1),
        (lambda x, n: x * n["n"] + n["m"][1], [(t(4), {"n": n, "m": (0, n + 1)}) for n in (3, 5, 6)], 1),
        (lambda x, flag: x * 2 if flag else x * 3, [(t(4), flag) for flag in (True, False, True)], 2),
    ],
)
def test_numbers_among_the_arguments_are_symbolic_at_once(
    program: Program, calls: list[tuple[Any, ...]], graphs: int
) -> None:
    assert graphs_of(program, *calls, dynamic=True)[-1] == graphs


def test_nothing_is_symbolic_where_that_is_asked_for() -> None:
    calls = [(t(n), n) for n in (3, 4, 5)]
    assert graphs_of(lambda x, n: x * n, *calls, dynamic=False) == [1, 2, 3]


def test_what_changed_in_another_process_is_symbolic_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new" / "profile.json"
    monkeypatch.setattr(capture.config, "profile", file)

    def program(x: torch.Tensor, n: int, rate: float) -> torch.Tensor:
        return x * n * rate

    def other(x: torch.Tensor) -> torch.Tensor:
        return x.sum()

    calls = [(t(n, 4), n, n / 4) for n in (3, 5, 7)]
    assert graphs_of(program, *calls) == [1, 2, 2]
    capture.reset()  # what is told here of a process is true of the next: all that is kept is in the file
    assert graphs_of(program, *calls) == [1, 1, 1]
    assert graphs_of(other, *[call[:1] for call in calls]) == [1, 2, 2]
    for content in ("", "[", "[1]", '{"a": 1}', '{"a": [[{}]]}', "[" * 100_000):
        file.write_text(content)
        capture.reset()
        assert graphs_of(program, *calls) == [1, 2, 2]
    monkeypatch.setattr(capture.config, "profile", "/proc/none/profile.json")
    capture.reset()
    assert graphs_of(program, *calls) == [1, 2, 2]


class Counter(torch.nn.Module):
    """Numbers of a module, one of which the program writes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0
        self.rate = 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        self.rate *= 0.9
        return x * self.step * self.rate


def test_numbers_of_a_module() -> None:
    module, reference = Counter(), Counter()
    compiled = capture.compile(module)
    for call in range(20):
        if call == 12:
            module.rate = reference.rate = 5.0
        x = torch.randn(3)
        assert torch.equal(compiled(x), reference(x))
        assert (module.step, module.rate) == (reference.step, reference.rate)
    assert compiled.session.report.graph_count == 2


def test_layers_that_differ_from_one_another_stay_static() -> None:
    class Layer(torch.nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, : self.n] * 2

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(Layer(n) for n in (8, 6, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                compile("0", "", "eval")
                x = layer(x)
            return x

    net = Net()
    compiled = capture.compile(net)
    for _ in range(2):
        x = torch.randn(5, 9)
        assert torch.equal(compiled(x), net(x))
    shapes = [
        node.meta["val"].shape
        for g in compiled.session.report.graphs
        for node in g.module.graph.nodes
        if node.op == "placeholder"
    ]
    assert shapes and all(type(size) is int for shape in shapes for size in shape)


def test_numbers_of_globals_and_closures(monkeypatch: pytest.MonkeyPatch) -> None:
    shift = 1

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * SCALE + shift

    compiled = capture.compile(program)
    for call in range(8):
        monkeypatch.setitem(globals(), "SCALE", call * 2)
        shift = call * 3
        x = torch.randn(3)
        assert torch.equal(compiled(x), program(x))
    assert compiled.session.report.graph_count == 2


def test_reset_forgets_what_was_met() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = capture.compile(program)
    compiled(t(3))
    capture.reset()
    for n in (4, 5, 6):
        assert torch.equal(compiled(torch.ones(n)), torch.ones(n) + 1)
    assert compiled.session.report.graph_count == 3  # one before, a static and a symbolic one after


def test_a_number_that_the_program_cannot_go_on_with_is_a_constant_from_then_on() -> None:
    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * len(bytes(n))

    compiled = capture.compile(program, fullgraph=True)
    for n in (2, 3, 4):
        x = torch.randn(3)
        assert torch.equal(compiled(x, n), program(x, n))


def test_recursion_at_the_limit_takes_no_more_frames_than_eager() -> None:
    def program(x: torch.Tensor, left: list[int]) -> torch.Tensor:
        if not left[0]:
            return x
        left[0] -= 1
        compile("0", "", "eval")
        return program(x + 1, left)

    compiled = capture.compile(program)
    assert compiled(torch.zeros(()), [600]).item() == 600


def test_buffers_keep_their_sizes() -> None:
    """With dynamic=True what a module owns is as static as its parameters, until it changes."""

    class Positions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ids", torch.arange(12).unsqueeze(0), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.ids[:, : x.shape[1]]

    module = Positions()
    compiled = capture.compile(module, dynamic=True)
    for n in (5, 7, 12):
        x = t(3, n)
        assert torch.equal(compiled(x), module(x))
    (entry,) = _native.entries(compiled.session.root)
    assert not any("self.ids.size(1) >=" in text for text in entry.guards.texts)
    for n in (20, 30, 31):
        module.ids = torch.arange(n).unsqueeze(0)
        x = t(3, n)
        assert torch.equal(compiled(x), module(x))
    assert compiled.session.report.graph_count == 2


TABLE = torch.randn(6, 3)


def test_symbolic_sizes_of_what_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at in each call, and nothing else that lives on is for their sake."""
    holder = torch.nn.Linear(3, 3)

    def program(x: torch.Tensor) -> torch.Tensor:
        return holder(x) + TABLE[: x.shape[0]] * TABLE.shape[0]

    compiled = capture.compile(program)
    for n, m in ((6, 2), (7, 3), (9, 4), (12, 12), (8, 5), (8, 6)):
        monkeypatch.setattr(sys.modules[__name__], "TABLE", torch.randn(n, 3))
        x = t(m, 3)
        assert torch.equal(compiled(x), program(x))
    entry = _native.entries(compiled.session.root)[-1]
    assert entry.guards.unwatched is None
    before, x = entry.guards.verified, t(4, 3)
    for _ in range(10):
        compiled(x)
    assert entry.guards.verified == before
    TABLE.resize_(3, 3)
    x = t(3, 3)
    assert torch.equal(compiled(x), program(x))
    with pytest.raises(RuntimeError):
        compiled(t(5, 3))


class Holding(torch.nn.Module):
    """Numbers in all kinds of holders; the program reads each."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.step = 2
        self.rate = 0.5
        self.table = {"n": 3, "m": 4.0}
        self.listed = [5, [6.5]]
        self.other = Namespace(inner=Namespace(n=7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x) * self.step + self.rate
        x = x * self.table["n"] + self.table["m"]
        x = x + self.listed[0] * self.listed[1][0]
        return x + self.other.inner.n + GLOBAL_STEP if self.step > 1 else x


GLOBAL_STEP = 1
CHANGES: dict[str, Callable[[Any, Any], None]] = {
    "attribute": lambda module, n: setattr(module, "step", n),
    "float": lambda module, n: setattr(module, "rate", n / 4),
    "entry": lambda module, n: module.table.update(n=n),
    "float entry": lambda module, n: module.table.update(m=n / 4),
    "element": lambda module, n: module.listed.__setitem__(0, n),
    "element of an element": lambda module, n: module.listed[1].__setitem__(0, n / 4),
    "attribute of an attribute": lambda module, n: setattr(module.other.inner, "n", n),
    "global": lambda module, n: setattr(sys.modules[__name__], "GLOBAL_STEP", n),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_number_that_changes_is_all_that_is_looked_at(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "GLOBAL_STEP", 1)
    module = Holding()
    compiled, x = capture.compile(module), t(4, 3)
    with torch.no_grad():
        for n in (10, 11, 12, 13):
            CHANGES[change](module, n)
            assert torch.allclose(compiled(x), module(x))
        entry = _native.entries(compiled.session.root)[0]
        verified = [each.guards.verified for each in _native.entries(compiled.session.root)]
        for n in range(20, 30):
            CHANGES[change](module, n)
            assert torch.allclose(compiled(x), module(x))
        assert compiled.session.report.graph_count == 2 and entry.guards.unwatched is None
        assert verified == [each.guards.verified for each in _native.entries(compiled.session.root)]
        for other in (3, 0, 2**40, True, torch.tensor(2)):  # a bool's or tensor's type is another
            CHANGES[change](module, other)
            assert torch.allclose(compiled(x), module(x)), other
        module.listed = [1, [2]]
        assert torch.allclose(compiled(x), module(x))
        module.listed.append(3)
        module.table = {"n": 9, "m": 9}
        assert torch.allclose(compiled(x), module(x))
        del module.table["n"]
        with pytest.raises(KeyError):
            compiled(x)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.as_strided((x.shape[0],), (x.stride(0),)) * 2,
        lambda x: torch.as_strided(x, (x.shape[0],), (x.stride(0),), 3) * 2,
        lambda x: x[1:].as_strided((x.shape[0] - 1,), (4,)) * 2,
    ],
)
def test_elements_counted_from_the_start_of_memory_depend_on_where_a_tensor_begins(program: Program) -> None:
    memory = t(9, 4)
    calls = [(memory[a:b],) for a, b in ((1, 3), (0, 2), (3, 6), (2, 6), (0, 6))]
    assert graphs_of(program, *calls)[-1] > 2
    capture.reset()
    assert graphs_of(lambda x: x * 2, *calls)[-1] == 2  # where nobody counts so, it does not matter
