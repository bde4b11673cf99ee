"""``with torch.device(...)`` in the program: what is made there lies there, in the graph as well."""

import pytest
import torch

import capture


def nested(x):
    with torch.device("meta"):
        a = torch.zeros(3)
        with torch.device("cpu"):
            b = torch.tensor([1.0, 2.0])
        c = torch.ones(2, device=None) + 1
        d = torch.zeros(1, device="cpu")
    return a, b, c, d, torch.zeros(4)


def left_by_an_exception(x):
    try:
        with torch.device("meta"):
            a = torch.arange(3)
            raise KeyError(a.device.type)
    except KeyError as error:
        return a, str(error), torch.zeros(2)


def made(*sizes):
    return torch.empty(sizes), torch.rand_like(torch.zeros(sizes)), torch.get_default_device()


def within_a_call(x):
    with torch.device("meta") as device:
        return *made(2, 3), device, x + 1


def asked_by_hand(x):
    device = torch.device("meta")
    device.__enter__()
    a = torch.full((2,), 0.5)
    device.__exit__(None, None, None)
    return a, torch.zeros(2)


def told(value):
    return [(each.device, each.shape, each.dtype) if isinstance(each, torch.Tensor) else each for each in value]


@pytest.mark.parametrize("function", [nested, left_by_an_exception, within_a_call, asked_by_hand])
def test_where_tensors_are_made(function):
    compiled = capture.compile(function, fullgraph=True)
    for _ in range(2):
        assert told(compiled(torch.ones(2))) == told(function(torch.ones(2)))
        assert torch.get_default_device() == torch.device("cpu")


def test_a_break_within():
    def broken(x):
        with torch.device("meta"):
            a = torch.zeros(3)
            open("/dev/null").close()
            b = torch.zeros(2)
        return a, b, torch.zeros(1)

    assert told(capture.compile(broken)(torch.ones(2))) == told(broken(torch.ones(2)))


def set_and_unset(x):
    torch.set_default_device("meta")
    a = torch.zeros(3)
    torch.set_default_device(torch.device("cpu"))
    b = torch.zeros(2), torch.get_default_device()
    torch.set_default_device(None)
    return a, *b, torch.ones(1)


def blocks_within(x):
    torch.set_default_device("meta")
    try:
        with torch.device("cpu"):
            a = torch.zeros(3)
        return a, torch.zeros(2)
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("function", [set_and_unset])
def test_the_default_device_is_set(function):
    compiled = capture.compile(function, fullgraph=True)
    for _ in range(3):
        assert told(compiled(torch.ones(2))) == told(function(torch.ones(2)))
        assert torch.get_default_device() == torch.device("cpu")


def left_set(x):
    torch.set_default_device("meta")
    return torch.zeros(3)


def set_within(x):
    with torch.device("meta"):
        torch.set_default_device("cpu")
        a = torch.zeros(3)
        torch.set_default_device(None)
        return a, torch.zeros(2)


@pytest.mark.parametrize("function", [left_set, set_within, blocks_within])
def test_a_default_device_that_is_left_or_goes_beneath_others(function):
    def outcome(run):
        try:
            made = run(torch.ones(2))
            found = told(made) if isinstance(made, tuple) else made.device, torch.get_default_device()
        except Exception as error:
            found = str(error)
        torch.set_default_device(None)
        return found

    compiled = capture.compile(function)
    for _ in range(2):
        assert outcome(compiled) == outcome(function)
