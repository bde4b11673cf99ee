"""Sets with the same elements in the same places, now and later."""

import random
import sys

import pytest

from capture._native import placed, same_places


@pytest.mark.parametrize("seed", range(60))
def test_a_placed_set_goes_on_as_the_other(seed):
    draw, elements = random.Random(seed), set()
    objects = [object() for _ in range(draw.choice([3, 8, 30, 200]))]
    for _ in range(300):
        what = draw.random()
        if what < 0.5:
            elements.add(draw.choice(objects))
        elif what < 0.7 and elements:
            elements.pop()
        else:
            elements.discard(draw.choice(objects))
    other = placed(elements)
    assert same_places(elements, other)
    assert list(elements) == list(other)
    for _ in range(20):
        for each in (elements, other):
            each.add(objects[0])
        assert elements.pop() is other.pop()
        assert same_places(elements, other)


def test_where_pop_goes_on_counts():
    one, other = {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}
    one.pop()
    one.clear()
    other.clear()
    for each in (one, other):
        each.update([0, 1, 2, 3])
    assert list(one) == list(other)
    assert not same_places(one, other)


def test_a_placed_set_holds_its_elements():
    objects = [object() for _ in range(50)]
    elements = {*objects, *range(3)}
    counts = [sys.getrefcount(each) for each in objects]
    made = placed(elements)
    assert [sys.getrefcount(each) - 1 for each in objects] == counts
    del made
    assert [sys.getrefcount(each) for each in objects] == counts
    with pytest.raises(TypeError):
        placed(frozenset())
