"""Sets from outside that hold tensors, modules and other objects: each is read by its turn, and known for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Thing:
    def __init__(self, value: float) -> None:
        self.value = value


class Own:
    """Asks itself for its hash."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.value == self.value


NET = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(4)))
OTHER = torch.nn.Linear(2, 2)


def summed(x: Any, found: Any) -> Any:
    for each in found["parameters"]:
        x = x + each.square().sum()
    return x, len(found["parameters"])


def those_among(x: Any, found: Any) -> Any:
    among = [each in found["parameters"] for each in NET.parameters()]
    return x * sum(p.sum() for p in NET.parameters() if p in found["parameters"]), among


def others_left_out(x: Any, found: Any) -> Any:
    names = [name for name, each in NET.named_parameters() if each not in found["frozen"]]
    return x * len(names), len(names), OTHER.weight in found["frozen"]


def modules_called(x: Any, found: Any) -> Any:
    for each in found["modules"]:
        x = each(x)
    return x


def things(x: Any, found: Any) -> Any:
    for each in found["things"]:
        x = x * each.value
        each.value += 1
    return x


def changed(x: Any, found: Any) -> Any:
    things = found["things"]
    had = len(things), OTHER in things
    things.add(OTHER)
    things.discard(next(iter(found["one"])))
    return x * len(things), had, OTHER in things


def algebra(x: Any, found: Any) -> Any:
    both = found["parameters"] & set(NET[0].parameters())
    return x + len(both) + len(found["parameters"] - both), found["parameters"] >= both


def own_hashes(x: Any, found: Any) -> Any:
    return x * sum(each.value for each in found["own"]), Own(1) in found["own"]


def mixed(x: Any, found: Any) -> Any:
    return x * len(found["mixed"]), 1 in found["mixed"]


def with_a_break(x: Any, found: Any) -> Any:
    for each in found["parameters"]:
        x = x + each.sum()
        open("/dev/null").close()
    return x


WHOLE = [summed, those_among, others_left_out, modules_called, things, changed, algebra]


def given(parameters: int, things: int) -> dict[str, Any]:
    made = [Thing(float(n + 1)) for n in range(things)]
    return {
        "parameters": set(list(NET.parameters())[:parameters]),
        "frozen": frozenset(list(NET.parameters())[parameters:]),
        "modules": {NET[0], NET[1]} if parameters % 2 else {NET[2]},
        "things": set(made),
        "one": {made[0]},
        "own": {Own(n) for n in range(things)},
        "mixed": {1, made[0], NET},
    }


def outcome(program: Callable[..., Any]) -> list[Any]:
    found: list[Any] = []
    kept = given(3, 2)
    for each in (kept, kept, given(3, 2), given(5, 3), given(2, 1), kept):
        result = program(torch.arange(3.0), each)
        left = sorted(thing.value for thing in each["things"] if isinstance(thing, Thing))
        found.append((result, left, len(each["things"])))
    return found


@pytest.mark.parametrize("program", [*WHOLE, own_hashes, mixed, with_a_break], ids=lambda each: each.__name__)
def test_sets_of_objects(program: Any) -> None:
    compiled = capture.compile(program, fullgraph=program in WHOLE)
    torch.testing.assert_close(outcome(compiled), outcome(program))


def test_a_set_that_loses_elements_is_looked_at_again() -> None:
    parameters = set(NET.parameters())

    def program(x: torch.Tensor) -> torch.Tensor:
        for each in parameters:
            x = x + each.sum()
        return x

    compiled = capture.compile(program, fullgraph=True)
    x = torch.ones(3)
    while parameters:
        torch.testing.assert_close(compiled(x), program(x))
        parameters.pop()
    torch.testing.assert_close(compiled(x), program(x))


def test_gradients_reach_the_parameters_in_a_set() -> None:
    net = torch.nn.Linear(3, 3)
    parameters = set(net.parameters())

    def program(x: torch.Tensor) -> torch.Tensor:
        return net(x).sum() + sum(each.square().sum() for each in parameters)  # type: ignore[no-any-return]

    grads = []
    for run in (program, capture.compile(program, fullgraph=True)):
        net.zero_grad()
        run(torch.ones(2, 3)).backward()
        grads.append([each.grad.clone() for each in net.parameters() if each.grad is not None])
    torch.testing.assert_close(grads[1], grads[0])
