"""A call of a module that equals one before it is not evaluated again: the graph and the guards are those that an evaluation
gives, and what differs between layers is seen."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import capture
from capture.evaluator import repeats
from capture.evaluator.examples import planned
from capture.evaluator.repeats import Repeats


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The modules whose `forward` repeated that of another."""
    found: list[str] = []
    repeat: Any = Repeats._repeat

    def counting(self: Repeats, call: Any, module: Any, *rest: Any) -> Any:
        result = repeat(self, call, module, *rest)
        if result is not None and call.function.code.co_name == "forward":
            found.append(module.source.name)
        return result

    monkeypatch.setattr(Repeats, "_repeat", counting)
    monkeypatch.setattr(capture.config, "repeat_equal_calls", True)  # put back, whatever a test sets
    yield found


class Layer(nn.Module):
    """One that reads parts, parameters, a table and a setting of its own."""

    def __init__(self, scale: float = 0.5) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.scale = scale
        self.table = {"flag": True}

    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(x).relu() if self.table["flag"] else x
        return self.norm(y * self.scale + x)


class Stack(nn.Module):
    """Layers, one after the other."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> Any:
        x = x * self.gain  # an argument of the frame is like no result
        for layer in self.layers:
            x = layer(x)
        return x


Found = tuple[Any, list[Any], list[Any], list[str], list[str]]


def _run(model: nn.Module, x: torch.Tensor, how: Callable[[nn.Module], Any], lines: bool = True) -> Found:
    """Results, gradients and buffers of a copy; its graphs and guards in words."""
    own = copy.deepcopy(model)
    capture.reset()  # copies would share one capture
    run = how(own)
    torch.manual_seed(3)
    result = run(x)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
    gradients = [p.grad for p in own.parameters()]
    if run is own:
        return result, gradients, [*own.buffers()], [], []
    told = capture.report(run)
    nodes = [
        f"{n.op} {n.name} {n.target} {n.args} {n.kwargs} {n.meta.get('effect')} {n.meta.get('source') if lines else ''}"
        for graph in told.graphs
        for n in graph.module.graph.nodes
    ]
    return (
        result,
        gradients,
        [*own.buffers()],
        nodes,
        sorted(str(guard) if lines else guard.text for guard in told.guards),
    )


def _check(model: nn.Module, counts: list[str], repeated: int, *, lines: bool = True, **options: Any) -> None:
    """The same as in eager mode, and as where each call is evaluated; so many calls repeat another."""
    x = torch.randn(2, 4)
    expected = _run(model, x, lambda own: own)
    found: list[Found] = []
    for switch in (False, True):
        capture.config.repeat_equal_calls = switch
        counts.clear()
        found.append(_run(model, x, lambda own: capture.compile(own, **options), lines))
    assert len(counts) == repeated, counts
    for one in found:
        torch.testing.assert_close(one[:3], expected[:3])
    assert found[0][3:] == found[1][3:]


def test_equal_layers(counts: list[str]) -> None:
    _check(Stack(*(Layer() for _ in range(5))), counts, 4, fullgraph=True)


def test_without_gradients(counts: list[str]) -> None:
    with torch.no_grad():
        _check(Stack(*(Layer() for _ in range(5))), counts, 4, fullgraph=True)


def test_what_differs_is_evaluated(counts: list[str]) -> None:
    plain, other_dtype, frozen, hooked, bound, other_table = [Layer() for _ in range(6)]
    other_dtype.linear.double()
    frozen.linear.weight.requires_grad_(False)
    hooked.linear.register_forward_hook(lambda module, args, result: result * 2)
    bound.norm.forward = lambda x: x + 1  # type: ignore[method-assign]
    other_table.table["flag"] = False
    for each in (Layer(0.25), frozen, hooked, bound, other_table):
        _check(Stack(plain, each), counts, 0, fullgraph=True)
    with pytest.raises(RuntimeError, match="dtype"):
        capture.compile(Stack(plain, other_dtype))(torch.randn(2, 4))


def test_a_layer_that_changes_later_is_evaluated_then() -> None:
    model, x = Stack(*(Layer() for _ in range(4))), torch.randn(2, 4)
    compiled = capture.compile(model, fullgraph=True)
    last: Any = model.layers[3]
    changes: list[Callable[[], Any]] = [
        lambda: setattr(last, "scale", 3.0),
        lambda: last.table.update(flag=False),
        lambda: setattr(last.norm, "eps", 1.0),
        lambda: last.norm.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
        lambda: setattr(last, "norm", nn.Identity()),
        lambda: setattr(last.linear, "weight", nn.Parameter(torch.eye(4))),
    ]
    torch.testing.assert_close(compiled(x), model(x))
    for change in changes:
        change()
        torch.testing.assert_close(compiled(x), model(x))


def test_layers_that_share(counts: list[str]) -> None:
    one, other = Layer(), Layer()
    _check(Stack(one, one, one), counts, 2)
    other.linear = one.linear
    _check(Stack(one, other), counts, 1)
    tied = [Layer() for _ in range(3)]
    for each in tied[1:]:
        each.linear.weight = tied[0].linear.weight
    _check(Stack(*tied), counts, 2)
    twins = Layer()
    twins.norm.bias = twins.linear.bias
    _check(Stack(Layer(), twins), counts, 0)


def test_shared_parts_come_apart_later() -> None:
    layers = [Layer() for _ in range(3)]
    for each in layers[1:]:
        each.linear = layers[0].linear
    model, x = Stack(*layers), torch.randn(2, 4)
    compiled = capture.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    layers[2].linear = nn.Linear(4, 4)
    torch.testing.assert_close(compiled(x), model(x))


class Numbered(Layer):
    """One that knows its place."""

    def __init__(self, number: int, first: int = 0) -> None:
        super().__init__()
        self.number, self.first = number, first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if self.number >= self.first else x


def test_layers_with_numbers(counts: list[str]) -> None:
    _check(Stack(*(Numbered(number) for number in range(3))), counts, 0)


class Counting(Layer):
    """One that counts its calls."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x) * self.calls


def test_layers_that_change(counts: list[str]) -> None:
    one = Counting()
    _check(Stack(one, one, Counting()), counts, 0)
    model = Stack(*(Counting() for _ in range(3)))
    capture.compile(model)(torch.randn(2, 4))
    assert [layer.calls for layer in model.layers] == [1, 1, 1]


class Noting(Layer):
    """One that notes what it gave, in a list that others hold."""

    def __init__(self, notes: list[Any]) -> None:
        super().__init__()
        self.notes = notes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = super().forward(x) + len(self.notes)
        if len(self.notes) < 2:
            self.notes.append(found)
        return found


def test_layers_that_tell_each_other(counts: list[str]) -> None:
    notes: list[Any] = []
    _check(Stack(*(Noting(notes) for _ in range(5))), counts, 0)  # it holds tensors of the frame's


NOTES: list[Any] = []
HOLDER: dict[str, Any] = {}
SETTING = 1.0


class Looking(Layer):
    """One that looks at what is global."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * SETTING + len(HOLDER.get("notes", ()))


class Telling(Stack):
    """Changes what its layers look at, between them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global SETTING
        mine: list[int] = []
        x = x * self.gain
        HOLDER["notes"] = mine
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number in self.then:
                self.then[number](mine)
        HOLDER.clear()
        return x

    then: dict[int, Any]


def test_what_layers_look_at_is_changed_between_them(counts: list[str]) -> None:
    def rebind(mine: list[int]) -> None:
        global SETTING
        SETTING += 1.0

    def fill(mine: list[int]) -> None:
        mine.append(1)

    def put(mine: list[int]) -> None:
        HOLDER["notes"] = [1, 2, 3]

    for then, repeated in (({}, 2), ({2: fill}, 1), ({2: put}, 1), ({1: fill}, 1)):
        model = Telling(*(Looking() for _ in range(4)))
        model.then = then
        _check(model, counts, repeated)
    model, x = Telling(*(Looking() for _ in range(4))), torch.randn(2, 4)
    model.then = {1: rebind}
    rebind([])
    own = copy.deepcopy(model)
    rebind([])
    expected, back = model(x), globals()
    back["SETTING"] -= 1.0
    torch.testing.assert_close(capture.compile(own)(x), expected)
    back["SETTING"] = 1.0


class Absolute(Layer):
    """One that reads the first layer's parameters, by a way of its own."""

    def __init__(self, way: Callable[[], Any]) -> None:
        super().__init__()
        self.way = [way]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.way[0]() + self.linear(x)


MODEL: Any = None


def _global_way() -> Any:
    return MODEL.layers[0].linear.weight


@pytest.mark.parametrize("as_method", [True, False])
def test_layers_that_come_to_others_by_another_way(as_method: bool) -> None:
    global MODEL
    MODEL = model = Stack(*(Absolute(_global_way) for _ in range(3)))
    x = torch.randn(2, 4)

    def by_global(x: torch.Tensor) -> Any:
        for layer in MODEL.layers:
            x = layer(x)
        return x

    def by_closure(x: torch.Tensor) -> Any:
        for layer in model.layers:
            x = layer(x)
        return x

    for program in (model, by_global, by_closure):
        torch.testing.assert_close(capture.compile(program)(x), program(x))

    def closed_way() -> Any:
        return model.layers[0].linear.weight

    for layer in model.layers:
        layer.way = [closed_way]
    for program in (model, by_global, by_closure):
        torch.testing.assert_close(capture.compile(program)(x), program(x))
    MODEL = None


class WithParent(Layer):
    """One that knows the model that it is part of."""

    def __init__(self) -> None:
        super().__init__()
        self.parents: list[Any] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.parents[0].layers[0].linear.weight + self.linear(x)


def test_layers_that_know_their_model(counts: list[str]) -> None:
    model = Stack(*(WithParent() for _ in range(4)))
    for layer in model.layers:
        layer.parents.append(model)
    x = torch.randn(2, 4)
    torch.testing.assert_close(capture.compile(model)(x), model(x))


class Given(nn.Module):
    """One that is given more than the last one's result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *more: Any, **named: Any) -> torch.Tensor:
        for each in (*more, *named.values()):
            if isinstance(each, tuple):
                x = x + each[0]
            elif isinstance(each, (torch.Tensor, float)):
                x = x * each
            elif isinstance(each, nn.Module):
                x = each(x)
            elif each is not None:
                x = x + len(each)
        return self.linear(x)


class Giving(Stack):
    def __init__(
        self, give: Callable[[Giving, int, torch.Tensor], tuple[tuple[Any, ...], dict[str, Any]]], count: int = 4
    ):
        super().__init__(*(Given() for _ in range(count)))
        self.give = [give]
        self.extra = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.gain
        for number, layer in enumerate(self.layers):
            args, kwargs = self.give[0](self, number, x)
            x = layer(x, *args, **kwargs)
        return x


@pytest.mark.parametrize(
    ("give", "repeated"),
    [
        (lambda m, n, x: ((2.0, None), {"mask": None}), 3),
        (lambda m, n, x: ((2.0 + n,), {}), 0),
        (lambda m, n, x: ((0.0 if n else -0.0,), {}), 2),
        (lambda m, n, x: (((x, 1),), {}), 3),
        (lambda m, n, x: ((x, x), {}), 3),
        (lambda m, n, x: ((x, x) if n else (x, x + 1), {}), 2),
        (lambda m, n, x: ((), {"a": x, "b": 2.0} if n else {"b": 2.0, "a": x}), 2),
        (lambda m, n, x: (([1] * n,), {}), 0),
        (lambda m, n, x: ((m.extra,), {}), 3),
        (lambda m, n, x: ((m.layers[0].linear.weight.sum(),), {}), 3),
        (lambda m, n, x: ((m.layers[n].linear.bias,), {}), 0),
        (lambda m, n, x: ((m.layers[0].linear.bias,), {}), 2),
        (lambda m, n, x: ((x[:1] if n else x,), {}), 2),
        (lambda m, n, x: ((x.t().contiguous().t() if n else x,), {}), 2),
        (lambda m, n, x: ((x.detach() if n else x,), {}), 2),
        (lambda m, n, x: ((torch.tensor(float(n)),), {}), 0),
    ],
)  # fmt: skip
def test_arguments(give: Any, repeated: int, counts: list[str]) -> None:
    # Where an argument is made of the first layer, the lines of its facts are of there.
    _check(Giving(give), counts, repeated, lines=False)


class Several(Layer):
    """One that gives several things, some of which it was given."""

    def forward(self, x: torch.Tensor, kept: Any = None) -> Any:  # type: ignore[override]
        found = super().forward(x)
        return found, (kept if kept is not None else x, None), self.scale, [found, x]


class Unpacking(Stack):
    def forward(self, x: torch.Tensor) -> Any:
        kept, every = x + 1, []
        x = x * self.gain
        for layer in self.layers:
            x, (kept, nothing), scale, both = layer(x, kept)
            assert nothing is None
            both.append(scale)
            every.append(both)
        return x * kept + sum(b[0].sum() * b[2] for b in every) + len(every)


def test_results_that_hold_several(counts: list[str]) -> None:
    _check(Unpacking(*(Several() for _ in range(4))), counts, 3)


class Dropping(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(super().forward(x)) + torch.rand(4)


def test_random_numbers_are_drawn_in_order(counts: list[str]) -> None:
    _check(Stack(*(Dropping() for _ in range(4))), counts, 3)


class Writing(Layer):
    """One that writes to what it is given, and to what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.batch = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.batch(super().forward(x)).add_(self.count)


def test_layers_that_write(counts: list[str]) -> None:
    _check(Stack(*(Writing() for _ in range(4))), counts, 0)


class Inplace(Layer):
    """One that writes to what it made."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5, inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        y.view(-1).add_(1.0)
        return self.drop(y.relu_() * 2.0) + F.dropout(x, 0.25)


class OnGiven(Inplace):
    """One that writes to what it is given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.mul_(2.0))


class OnViews(Inplace):
    """One that writes to what it is given, through a view."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.view(-1)
        y.mul_(2.0)
        return self.linear(x + y.sum())


@pytest.mark.parametrize(("kind", "repeated"), [(Inplace, 3), (OnGiven, 0), (OnViews, 0)])
@pytest.mark.parametrize("gradients", [True, False])
def test_layers_that_write_to_what_they_made(
    kind: Callable[[], nn.Module], repeated: int, gradients: bool, counts: list[str]
) -> None:
    with torch.set_grad_enabled(gradients):
        _check(Stack(*(kind() for _ in range(4))), counts, repeated)


class Deciding(Layer):
    """One with an `if` on data of which nothing is left."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        if y.sum() > 0:
            unused = y.sin()  # noqa: F841
        return y


def test_layers_with_calls_that_were_taken_out(counts: list[str]) -> None:
    _check(Stack(*(Deciding() for _ in range(4))), counts, 0)


class Breaking(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number == 3 and x.sum() > 1e6:
                x = x[:1]
        return x


def test_a_break_after_repeated_calls() -> None:
    model, x = Breaking(*(Layer() for _ in range(6))), torch.randn(2, 4)
    compiled = capture.compile(model)
    torch.testing.assert_close(compiled(x), model(x))
    assert capture.report(compiled).break_count == 1


class Asking(Layer):
    """One in which the graph breaks where data decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = super().forward(x)
        return x * 2 if x.sum() > 1e6 else self.linear(x)


def test_breaks_within_equal_layers() -> None:
    model, x = Stack(*(Asking() for _ in range(3))), torch.randn(2, 4)
    torch.testing.assert_close(capture.compile(model)(x), model(x))


class Switching(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            with torch.set_grad_enabled(number % 2 == 0):
                x = layer(x)
        return x


def test_settings_between_layers(counts: list[str]) -> None:
    _check(Switching(*(Layer() for _ in range(5))), counts, 0)


class Handling(Layer):
    """One that handles what the last of them raises."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return super().forward(x) / self.table["divisor"]
        except KeyError as error:
            return x + len(error.args)


def test_layers_that_handle_exceptions(counts: list[str]) -> None:
    layers = [Handling() for _ in range(4)]
    _check(Stack(*layers), counts, 3)
    layers[2].table["divisor"] = 2.0  # type: ignore[assignment]
    _check(Stack(*layers), counts, 2)


def test_lists_of_layers_within_layers(counts: list[str]) -> None:
    _check(Stack(*(Stack(Layer(), Layer()) for _ in range(3))), counts, 3)


def test_other_sizes_later() -> None:
    model = Stack(*(Layer() for _ in range(4)))
    compiled = capture.compile(model, fullgraph=True)
    for rows in (2, 3, 5, 7):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), model(x))
    assert capture.report(compiled).frames <= 3


def test_a_number_of_one_layer_varies() -> None:
    model, x = Stack(*(Layer() for _ in range(4))), torch.randn(2, 4)
    compiled = capture.compile(model, fullgraph=True)
    for scale in (0.5, 0.75, 1.25, 1.5, 2.5):
        model.layers[2].scale = scale
        torch.testing.assert_close(compiled(x), model(x))
    assert capture.report(compiled).frames <= 3


def test_it_can_be_switched_off(counts: list[str]) -> None:
    capture.config.repeat_equal_calls = False
    model, x = Stack(*(Layer() for _ in range(4))), torch.randn(2, 4)
    torch.testing.assert_close(capture.compile(model)(x), model(x))
    assert not counts


def _check_programs(
    model: nn.Module, counts: list[str], repeated: int, *programs: Callable[[Any, torch.Tensor], Any]
) -> None:
    """The same of functions of a model and a tensor."""
    for program in programs:
        _check(Running(model, program), counts, repeated, lines=False)


class Running(nn.Module):
    """A model, and a program that runs it."""

    model: Any

    def __init__(self, model: nn.Module, program: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.model, self.program = model, [program]

    def forward(self, x: torch.Tensor) -> Any:
        return self.program[0](self.model, x * self.model.gain)  # as in `Stack`


def test_functions_of_the_frame_are_evaluated(counts: list[str]) -> None:
    def by_cell(model: Any, x: torch.Tensor) -> Any:
        factor = 1.0

        def apply(layer: Any, x: torch.Tensor) -> Any:
            return layer.linear(x) * factor

        for layer in model.layers:
            assert layer.training
            x = apply(layer, x)
            factor += 1.0
        return x

    def by_default(model: Any, x: torch.Tensor) -> Any:
        notes: list[int] = []

        def apply(layer: Any, x: torch.Tensor, notes: list[int] = notes) -> Any:
            return layer.linear(x) + len(notes)

        for layer in model.layers:
            assert layer.training
            x = apply(layer, x)
            notes.append(1)
        return x

    _check_programs(Stack(*(Layer() for _ in range(3))), counts, 0, by_cell, by_default)


def _weight_of(given: Any) -> torch.Tensor:
    if isinstance(given, tuple):
        given = given[1]
    if isinstance(given, Stack):
        given = given.layers
    if isinstance(given, nn.ModuleList):
        given = given[0]
    found: torch.Tensor = given.linear.weight if isinstance(given, Layer) else given.weight
    return found


class Reading(Layer):
    """One that reads a module that it is given."""

    def forward(self, x: torch.Tensor, given: Any) -> torch.Tensor:  # type: ignore[override]
        return self.linear(x) @ _weight_of(given)


@pytest.mark.parametrize(
    ("give", "repeated"),
    [
        (lambda m, n, x: ((m,), {}), 0),
        (lambda m, n, x: ((m.layers,), {}), 0),
        (lambda m, n, x: ((m.layers[0],), {}), 2),
        (lambda m, n, x: ((m.layers[0].linear,), {}), 2),
        (lambda m, n, x: ((m.layers[3].linear,), {}), 2),
        (lambda m, n, x: (((1, m.layers[0].linear),), {}), 2),
        (lambda m, n, x: ((m.extra,), {}), 3),
    ],
)  # fmt: skip
def test_arguments_that_are_parts(give: Any, repeated: int, counts: list[str]) -> None:
    model = Giving(give)
    model.layers = nn.ModuleList([Reading() for _ in range(4)])
    _check(model, counts, repeated, lines=False)


def test_a_part_that_all_have_is_compared_with_each(counts: list[str]) -> None:
    class Comparing(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * (2.0 if self in self.table["others"] else 3.0)  # type: ignore[operator]

    model = Stack(*(Comparing() for _ in range(4)))
    for layer in model.layers:
        layer.table["others"] = [model.layers[2]]
    _check(model, counts, 2)


def test_how_often_a_tensor_was_written_to(counts: list[str]) -> None:
    class Asking(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * x._version

    def writing(model: Any, x: torch.Tensor) -> Any:
        for number, layer in enumerate(model.layers):
            x = layer(x)
            for _ in range(number):
                x = x.add_(1)
        return x

    _check_programs(Stack(*(Asking() for _ in range(4))), counts, 0, writing)


class Next(Layer):
    """One that asks what the frame has put within its reach."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        super().__init__()
        self.ask = [ask]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.ask[0](HOLDER["what"])


@pytest.mark.parametrize(
    ("make", "ask", "change"),
    [
        (lambda: iter(range(1, 10)), next, lambda what: None),
        (lambda: iter([1.0, 2.0, 3.0, 4.0]), next, lambda what: None),
        (lambda: torch.tensor(3), lambda what: what.item(), lambda what: what.add_(1)),
        (lambda: torch.zeros(2), lambda what: 2 + what.requires_grad, lambda what: what.requires_grad_()),
        (lambda: type("Made", (), {"k": 1}), lambda what: what.k, lambda what: setattr(what, "k", what.k + 1)),
    ],
)
def test_what_changes_within_reach(make: Any, ask: Any, change: Any, counts: list[str]) -> None:
    def changing(model: Any, x: torch.Tensor) -> Any:
        HOLDER["what"] = what = make()
        for layer in model.layers:
            x = layer(x)
            change(what)
        HOLDER.clear()
        return x

    _check_programs(Stack(*(Next(ask) for _ in range(4))), counts, 0, changing)


class Returning(Layer):
    """One that gives something beside its result."""

    def __init__(self, give: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.give = [give]

    def forward(self, x: torch.Tensor, given: Any = None) -> Any:
        return self.linear(x), self.give[0](self, given)


def test_attributes_that_are_given_unseen(counts: list[str]) -> None:
    layers = [Returning(lambda self, given: self.scale) for _ in range(3)]
    buffered = [Returning(lambda self, given: self.buffer) for _ in range(3)]
    for number, (layer, other) in enumerate(zip(layers, buffered, strict=True)):
        layer.scale = 2.0 + number
        other.register_buffer("buffer", torch.ones(4) * number)

    def taking(model: Any, x: torch.Tensor) -> Any:
        for layer in model.layers:
            x, more = layer(x)
            x = x * more
        return x

    _check_programs(Stack(*layers), counts, 0, taking)
    _check_programs(Stack(*buffered), counts, 0, taking)


def test_attributes_by_a_getter_of_the_class(counts: list[str]) -> None:
    class Getting(Layer):
        def __getattr__(self, name: str) -> Any:
            return self.table["hidden"] if name == "hidden" else super().__getattr__(name)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * self.hidden

    layers = [Getting() for _ in range(4)]
    for number, layer in enumerate(layers):
        layer.table["hidden"] = 1.0 + number // 2  # type: ignore[assignment]
    _check(Stack(*layers), counts, 2)


def test_results_are_as_they_were_given(counts: list[str]) -> None:
    def changing(model: Any, x: torch.Tensor) -> Any:
        found = []
        for layer in model.layers:
            x, (first, second) = layer(x, (1, x))
            first.append(x)
            found += [len(first), len(second), first is second]
        return x * len(found), found

    def comparing(model: Any, x: torch.Tensor) -> Any:
        found = []
        for layer in model.layers:
            given = (1, x)
            x, (first, second) = layer(x, given)
            found += [first is given, first is second, len(first)]
        return x, found

    apart = Stack(*(Returning(lambda self, given: ([1], [1])) for _ in range(3)))
    one = Stack(*(Returning(lambda self, given: (each := [1], each)) for _ in range(3)))
    _check_programs(apart, counts, 2, changing)
    _check_programs(one, counts, 2, changing)
    passed = Stack(*(Returning(lambda self, given: (given, given)) for _ in range(3)))
    made = Stack(*(Returning(lambda self, given: (each := (given, 1), each)) for _ in range(3)))
    _check_programs(passed, counts, 2, comparing)
    _check_programs(made, counts, 2, comparing)


def test_results_with_attributes(counts: list[str]) -> None:
    class Labelling(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.linear(x)
            x.label = 2.0  # type: ignore[attr-defined]
            return x

    def reading(model: Any, x: torch.Tensor) -> Any:
        for layer in model.layers:
            x = layer(x)
            x = x * getattr(x, "label", 3.0)
        return x

    _check_programs(Stack(*(Labelling() for _ in range(3))), counts, 0, reading)


def test_a_module_with_a_number_that_varies_is_called_again() -> None:
    def twice(model: Any, x: torch.Tensor) -> Any:
        for _ in range(3):
            x = model.layers[0](x)
        return x

    model = Running(Stack(Layer()), twice)
    compiled, x = capture.compile(model, fullgraph=True), torch.randn(2, 4)
    for scale in (0.5, 0.75, 1.25):
        model.model.layers[0].scale = scale
        torch.testing.assert_close(compiled(x), model(x))


def test_literals_that_are_equal_and_others(counts: list[str]) -> None:
    text = "one text"

    class Comparing(Layer):
        def forward(self, x: torch.Tensor, given: Any) -> torch.Tensor:  # type: ignore[override]
            return self.linear(x) * (2.0 if given is text else 3.0)

    class Getting(Layer):
        def forward(self, x: torch.Tensor) -> Any:
            return self.linear(x), self.table["text"]

    def giving(model: Any, x: torch.Tensor) -> Any:
        for number, layer in enumerate(model.layers):
            x = layer(x, "".join(["one", " text"]) if number % 2 else text)
        return x

    def taking(model: Any, x: torch.Tensor) -> Any:
        for layer in model.layers:
            x, given = layer(x)
            x = x * (2.0 if given is layer.table["text"] else 3.0)
        return x

    model, x = Running(Stack(*(Comparing() for _ in range(4))), giving), torch.randn(2, 4)
    torch.testing.assert_close(capture.compile(model)(x), model(x))
    layers = [Getting() for _ in range(4)]
    for layer in layers:
        layer.table["text"] = "".join(["another", " text"])  # type: ignore[assignment]
    model = Running(Stack(*layers), taking)
    torch.testing.assert_close(capture.compile(model)(x), model(x))


def test_generators_that_calls_are_given_end_in_time(counts: list[str]) -> None:
    notes: list[str] = []

    def numbers() -> Iterator[float]:
        try:
            yield 1.0
        finally:
            notes.append("end")

    def noting(model: Any, x: torch.Tensor) -> Any:
        for layer in model.layers:
            given: Any = numbers()
            next(given)
            x, _ = layer(x, (given, 1))
            given = None
            notes.append("next")
        return x

    model, x = Running(Stack(*(Returning(lambda self, given: 1) for _ in range(3))), noting), torch.randn(2, 4)
    expected = model(x)
    told = notes[:]
    notes.clear()
    compiled = capture.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(x), expected)
    assert notes == told


def test_code_of_the_program_is_not_run_to_compare() -> None:
    notes: list[Any] = []

    class Plain:
        __slots__ = ("factor",)

        def __init__(self) -> None:
            self.factor = 2.0

    class Noting:
        @property
        def factor(self) -> float:
            notes.append("factor")
            return 3.0

    class Items(list[float]):
        def __getitem__(self, key: Any) -> Any:
            notes.append(key)
            return super().__getitem__(key)

    class Asking(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            table: Any = self.table
            return self.linear(x) * table["setting"].factor * table["items"][0]

    layers: list[Any] = [Asking() for _ in range(4)]
    for number, layer in enumerate(layers):
        layer.table["setting"] = Noting() if number == 2 else Plain()
        layer.table["items"] = Items([2.0]) if number == 3 else [2.0]
    model, x = Stack(*layers), torch.randn(2, 4)
    expected = model(x)
    told = notes[:]
    notes.clear()
    torch.testing.assert_close(capture.compile(model)(x), expected)
    assert notes == told


def test_few_plans_are_made_of_calls_that_none_is_like(counts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def planning(*args: Any) -> Any:
        made.append(args)
        return planned(*args)

    monkeypatch.setattr(repeats, "planned", planning)
    for scales, repeated in (((0.5, None), 23), ((None, None), 16)):
        made.clear()
        counts.clear()
        layers = [Layer(scales[number % 2] or 1.0 + number // 2) for number in range(48)]
        model, x = Stack(*layers), torch.randn(2, 4)
        torch.testing.assert_close(capture.compile(model)(x), model(x))
        assert len(counts) == repeated
        assert len(made) <= 16
