"""Which builder a real value gets: by the class that it has, not by one that it claims."""

import collections
import enum
import types
import unittest.mock

import pytest
import torch

import capture
from capture import driver  # noqa: F401  (all builders are registered)
from capture.sources import Attr
from capture.variables import building, enums, modules, named_tuples
from capture.variables.building import builder_of, builds

Pair = collections.namedtuple("Pair", "left right")


class Colour(tuple, enum.Enum):
    RED = (1, 0, 0)


class Table(dict):
    pass


@pytest.mark.parametrize(
    ("value", "family"),
    [
        (Colour.RED, enums),
        (Pair(1, 2), named_tuples),
        (torch.nn.Linear(1, 1), modules),
        (capture.compile(torch.nn.Linear(1, 1)), modules),
        (Table(), None),
        (object(), None),
        (unittest.mock.Mock(spec=types.FunctionType), None),
    ],
    ids=lambda given: getattr(given, "__name__", type(given).__name__),
)
def test_by_class(value, family):
    builder = builder_of(type(value))
    assert (builder and builder.__module__) == (family and family.__name__)


class Celsius:
    def __init__(self, degrees):
        self.degrees = degrees


def test_a_family_of_its_own(monkeypatch):
    """The recipe: a builder registered from outside decides what values of a class are."""
    monkeypatch.setattr(building, "_EXACT", dict(building._EXACT))

    @builds(Celsius)
    def _build_celsius(m, value, source):
        m.guards.of_type(source, Celsius)
        return m.builder.wrap(value.degrees, Attr(source, "degrees"))

    compiled = capture.compile(lambda x, t: x * t, backend=lambda graph, inputs: graph)
    x = torch.arange(3.0)
    for degrees in (2.0, 2.0, 3.0):
        assert torch.equal(compiled(x, Celsius(degrees)), x * degrees)
