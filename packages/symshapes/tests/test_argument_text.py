"""Arguments as text: alike where they are the same, and told apart where they are not."""

import collections
import itertools

import pytest
import torch
from torch import fx

from symshapes import argument_text

Pair = collections.namedtuple("Pair", "a b")


def plain(value):
    if type(value) not in (int, float, str, bool, type(None)):
        raise LookupError(f"a {type(value).__name__}")
    return value.hex() if type(value) is float else repr(value)


def test_what_holds_others_is_written_by_its_kind():
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    numbers = {x: 0, y: 1}
    node = graph.call_function(torch.cat, ([x, (y, 2)],), {"dim": slice(None, 3), "more": {"a": [0.5]}})
    texts = [argument_text(each, numbers, plain) for each in (node.args, node.kwargs)]
    assert texts == [
        "tuple(list(%0, tuple(%1, 2)))",
        "{'dim': slicetuple(None, 3, None), 'more': {'a': list(0x1.0000000000000p-1)}}",
    ]


def test_what_is_not_the_same_is_told_apart():
    values = [
        (1,),
        [1],
        1,
        "1",
        True,
        torch.Size([1]),
        {1: 1},
        slice(1),
        slice(1, None),
        slice(None, None, 1),
        [[1]],
        [],
        (),
    ]
    texts = [argument_text(value, {}, plain) for value in values]
    assert all(one != other for one, other in itertools.combinations(texts, 2))
    immutable = fx.immutable_collections
    assert argument_text(immutable.immutable_list([1]), {}, plain) == texts[1]
    assert argument_text(immutable.immutable_dict({1: 1}), {}, plain) == texts[6]


@pytest.mark.parametrize("value", [Pair(1, 2), collections.OrderedDict(a=1), {3 + 1j: 1}, [range(3)]])
def test_what_is_of_a_class_of_its_own_is_the_leaves_to_write(value):
    with pytest.raises(LookupError):
        argument_text(value, {}, plain)
