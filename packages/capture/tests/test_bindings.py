"""Equal modules share what is captured: a capture is about what is true of a module, not about which one it is."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from equal_blocks import WAYS, Block, Counting, in_turn, made, own_graphs, pause, results
from torch import nn

import capture


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("copied", [False, True], ids=["made", "copied"])
def test_equal_blocks_share_captures(way: Any, copied: bool) -> None:
    blocks, x = made(copied), torch.randn(2, 4)
    expected = results(blocks, in_turn(blocks), x)
    backend = Counting()
    run = way(blocks, backend)
    for _ in range(3):
        torch.testing.assert_close(results(blocks, run, x), expected, rtol=0, atol=0)
    assert backend.graphs == 2  # the first input needs no gradient, those of the others do


def test_a_block_made_later_is_bound(way: Any) -> None:
    backend, x = Counting(), torch.randn(2, 4, requires_grad=True)
    kept = []
    for _ in range(3):
        blocks: list[nn.Module] = [Block(), Block()]
        expected = in_turn(blocks)(x)
        kept.append(run := way(blocks, backend))
        torch.testing.assert_close(run(x), expected, rtol=0, atol=0)
    assert backend.graphs == 1 + own_graphs(way)


def _hooked(block: nn.Module) -> None:
    block.first.register_forward_hook(lambda module, args, out: out * 2)  # type: ignore[operator, union-attr]


def _tied(block: Any) -> None:
    block.second.weight = block.first.weight


def _without_norm(block: Any) -> None:
    block.norm = nn.Identity()


def _swapped(block: Any) -> None:
    block.first, block.second = block.second, block.first


def _act(block: Any) -> None:
    block.act = torch.sin


class Other(nn.Linear):
    pass


CHANGES: dict[str, Callable[[Any], object]] = {
    "attribute": lambda block: setattr(block.norm, "eps", 0.1),
    "mode": lambda block: block.eval(),
    "hook": _hooked,
    "dtype": lambda block: block.double(),
    "shared parameter": _tied,
    "module replaced": _without_norm,
    "function replaced": _act,
    "closure": lambda block: setattr(block, "act", Block(0.25).act),
    "requires no grad": lambda block: block.first.requires_grad_(False),
    "frozen bias": lambda block: block.second.bias.requires_grad_(False),
    "no bias": lambda block: block.first.register_parameter("bias", None),
    "class": lambda block: setattr(block.first, "__class__", Other),
    "forward of its own": lambda block: setattr(block.norm, "forward", lambda x: x + 1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_blocks_that_differ_are_captured_apart(way: Any, what: str) -> None:
    blocks = made(copied=False, count=6)
    for block in blocks[::2]:
        CHANGES[what](block)
    dtype = torch.float64 if what == "dtype" else torch.float32
    chosen = blocks[::2] if what == "dtype" else blocks
    x = torch.randn(2, 4, dtype=dtype, requires_grad=True)
    expected = results(chosen, in_turn(chosen), x)
    backend = Counting()
    run = way(chosen, backend)
    for _ in range(2):
        torch.testing.assert_close(results(chosen, run, x), expected, rtol=0, atol=0)
    # A mode that nothing asks for is no difference.
    assert backend.graphs == (1 if what in ("dtype", "mode") else 2) + own_graphs(way)


@pytest.mark.parametrize("what", [what for what in CHANGES if what != "dtype"])  # its input would have to change, too
def test_one_of_the_bound_changes(way: Any, what: str) -> None:
    blocks, x = made(copied=True, count=4), torch.randn(2, 4, requires_grad=True)
    run = way(blocks, Counting())
    run(x)
    twins = copy.deepcopy(blocks)
    for twin in twins:
        twin.__dict__.pop("forward", None)
    for each in blocks[2], twins[2]:
        CHANGES[what](each)
    torch.testing.assert_close(run(x), in_turn(twins)(x), rtol=0, atol=0)


def test_the_report_tells_of_what_is_shared() -> None:
    backend, x = Counting(), torch.randn(2, 4)
    first, second = (capture.compile(Block(), backend) for _ in range(2))
    first(x), second(x)
    mine, theirs = first.session.report, second.session.report
    assert (mine.frames, mine.shared, theirs.frames, theirs.shared) == (1, 0, 0, 1)
    assert theirs.graphs == mine.graphs and "1 capture shared" in str(theirs)


def test_a_child_replaced_by_its_equal_is_no_capture() -> None:
    block, x, backend = Block(), torch.randn(2, 4), Counting()
    compiled = capture.compile(block, backend)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), block(x), rtol=0, atol=0)
        block.first = nn.Linear(4, 4)
    assert backend.graphs == 1


def test_swapped_children() -> None:
    block, x = Block(), torch.randn(2, 4)
    compiled = capture.compile(block)
    compiled(x)
    _swapped(block)
    torch.testing.assert_close(compiled(x), block(x), rtol=0, atol=0)


class Two(nn.Module):
    def __init__(self, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.left, self.right = left, right


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0


def test_modules_that_become_one() -> None:
    """What a program says of two modules is not said of one in both places."""

    def counts(two: Two, x: torch.Tensor) -> Any:
        two.left.count += 1  # type: ignore[operator]
        two.right.count += 10  # type: ignore[operator]
        return x + two.left.count, two.left is two.right, len({two.left, two.right})

    one = Counter()
    compiled = capture.compile(counts)
    for pair in ((Counter(), Counter()), (one, one), (Counter(), Counter()), (one, one)):
        twin = copy.deepcopy(Two(*pair))
        assert repr(compiled(Two(*pair), torch.zeros(1))) == repr(counts(twin, torch.zeros(1)))
        for real, expected in zip(pair, (twin.left, twin.right), strict=True):
            assert real.count == expected.count


def test_objects_hashed_by_identity_that_become_one() -> None:
    class Plain:
        pass

    def count(a: Any, b: Any, x: torch.Tensor) -> torch.Tensor:
        return x * len({a, b})

    compiled, x, a, b = capture.compile(count), torch.ones(1), Plain(), Plain()
    for second in (b, a, b):
        assert torch.equal(compiled(a, second, x), count(a, second, x))
    for second in (x, x.clone(), x):
        assert torch.equal(compiled(x, second, x), count(x, second, x))


def test_an_identity_that_was_asked_for_counts() -> None:
    wanted = [Counter(), Counter()]

    def known(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if module is wanted[0] else x + id(module) % 7

    compiled, x = capture.compile(known), torch.zeros(1)
    for module in (*wanted, Counter(), *wanted):
        assert torch.equal(compiled(module, x), known(module, x))


def test_the_limit_counts_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "recompile_limit", 2)
    backend = Counting()

    def call(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return block(x)

    compiled = capture.compile(call, backend)
    blocks = [*made(False, 6), *(Block(0.25) for _ in range(6))]
    x = torch.randn(2, 4)
    for block in [*blocks, *blocks]:
        torch.testing.assert_close(compiled(block, x), block(x), rtol=0, atol=0)
    assert backend.graphs == 2


def test_what_is_captured_alike_is_shared_only_by_equal_backends() -> None:
    first, second, x = Counting(), Counting(), torch.randn(2, 4)
    kept = [capture.compile(Block(), backend) for backend in (first, second, first)]
    for compiled in kept:
        compiled(x)
    assert (first.graphs, second.graphs) == (1, 1)
    dynamic = capture.compile(Block(), first, dynamic=True)
    dynamic(x)
    assert first.graphs == 2


def test_functions_of_one_code_with_other_globals() -> None:
    code = compile("def f(x):\n    return helper(x) * len([1, 2])\n", "made", "exec").co_consts[0]
    spaces = [{"helper": lambda x: x + 1}, {"helper": lambda x: x - 1}, {"helper": abs, "len": lambda _: 7}]
    functions = [type(pause.__wrapped__)(code, space) for space in spaces]
    calls, x = [capture.compile(function) for function in functions], torch.tensor([-1.0, 2.0])
    for _ in range(2):
        for call, function in zip(calls, functions, strict=True):
            assert torch.equal(call(x), function(x))


def test_backends_with_what_may_be_changed_share_nothing() -> None:
    def backend(graph: torch.fx.GraphModule, inputs: list[Any], seen: list[int]) -> Callable[..., Any]:
        seen.append(1)
        return graph.forward

    x = torch.randn(2, 4)
    first: list[int] = []
    second: list[int] = []
    kept = [capture.compile(Block(), functools.partial(backend, seen=seen)) for seen in (first, second, first)]
    for compiled in kept:
        compiled(x)
    assert (len(first), len(second)) == (2, 1)


def test_backends_that_are_written_alike_share_nothing() -> None:
    """A subclass of partial calls in its own way; an argument may be a tuple of what another argument is made of."""

    class Doubling(functools.partial):  # type: ignore[type-arg]
        def __call__(self, *args: Any) -> Any:
            graph = super().__call__(*args)
            return lambda *inputs: tuple(2 * result for result in graph(*inputs))

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return graph.forward

    def told(how: Any, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = (
            backend(graph, inputs) if isinstance(how, tuple) else Doubling(backend)(graph, inputs)
        )
        return made

    def increment(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.zeros(2)
    for plain, doubling in (
        (functools.partial(backend), Doubling(backend)),
        (functools.partial(told, (backend, (), ())), functools.partial(told, functools.partial(backend))),
    ):
        kept = [capture.compile(increment, each) for each in (plain, doubling)]
        assert [call(x).tolist() for call in kept] == [[1.0, 1.0], [2.0, 2.0]]


def _with_names(module: nn.Module, args: Any, names: dict[str, Any], out: torch.Tensor) -> torch.Tensor:
    return out * 3 + len(names)


def _doubled(module: nn.Module, args: Any, out: torch.Tensor) -> torch.Tensor:
    return out * 2


def _register(module: nn.Module, *hooks: Any) -> None:
    for hook in hooks:
        module.register_forward_hook(hook, with_kwargs=hook is _with_names)


def _told_names_without_a_hook(module: nn.Module) -> None:
    _register(module, _doubled)
    module._forward_hooks_with_kwargs[10**9] = True


def _another_number_of_that_value(module: nn.Module) -> None:
    _register(module, _with_names)
    (number,) = module._forward_hooks
    module._forward_hooks_with_kwargs.clear()
    module._forward_hooks_with_kwargs[int(str(number))] = True


HOOKED: list[Callable[[nn.Module], None]] = [
    lambda module: _register(module, _with_names),
    lambda module: _register(module, _doubled, _with_names),
    lambda module: _register(module, _with_names, _doubled),
    lambda module: _register(module, _doubled, _doubled),
    _told_names_without_a_hook,
    _another_number_of_that_value,
]


@pytest.mark.parametrize("first", range(3))
def test_hooks_that_take_keywords_are_found_by_place(first: int) -> None:
    """Which of its hooks are told keywords a module keeps under the numbers of these, which its equals have not."""
    backend, x = Counting(), torch.randn(2, 4)
    compiled = capture.compile(lambda module, x: module(x), backend)
    modules = [nn.Linear(4, 4) for _ in range(4 + len(HOOKED))]
    for at, module in enumerate(modules):
        HOOKED[first if at < 4 else at - 4](module)
    for module in modules[:4]:
        torch.testing.assert_close(compiled(module, x), module(x), rtol=0, atol=0)
    assert backend.graphs == 1
    for module in (*modules, *modules):
        torch.testing.assert_close(compiled(module, x), module(x), rtol=0, atol=0)
