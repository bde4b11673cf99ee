# ruff: noqa
"""Sets and frozen sets: every method and operator, elements of every kind, order where it is seen."""

from __future__ import annotations

import copy
import time

from .registry import program


@program
def set_methods_changing(x):
    s = {1, 2, 3}
    s.update([4], (5,))
    s.intersection_update({2, 3, 4, 5})
    s.difference_update([5])
    s.symmetric_difference_update({3, 9})
    s.remove(9)
    return sorted(s), len(s), x


@program
def set_methods_not_changing(x):
    s = frozenset("abc")
    return (
        s.union("d", ["e"]) == set("abcde"), s.intersection("ab", "bc") == {"b"}, s.difference("a") == set("bc"),
        s.symmetric_difference("cd") == set("abd"), s.issubset("abcd"), s.issuperset("a"), s.isdisjoint("xyz"),
        type(s.union("d")) is frozenset, x,
    )  # fmt: skip


@program
def set_operators_types(x):
    a, b = {1, 2}, frozenset([2, 3])
    return [type(v).__name__ for v in (a | b, b | a, a & b, b - a, a ^ b)], a | b == {1, 2, 3}, x


@program
def set_inplace_operators(x):
    s = t = {1, 2, 3, 4}
    s &= {2, 3, 4}
    s -= {4}
    s |= {7}
    s ^= {2, 8}
    return s is t, sorted(s), x


@program
def set_pop_one(x):
    s = {"only"}
    got = s.pop()
    try:
        s.pop()
    except KeyError as error:
        return got, error.args, s, x


@program
def set_pop_small_integers(x):
    s = {3, 1, 2}
    got = [s.pop(), s.pop()]
    return got, s, x


@program
def set_remove_missing(x):
    s = {1}
    s.discard(5)
    try:
        s.remove(5)
    except KeyError as error:
        return error.args, s, x


@program
def set_comparisons(x):
    a, b = {1, 2}, {1, 2, 3}
    return a < b, a <= a, b > a, a >= b, a == frozenset([2, 1]), a != b, not a < a, x


@program
def set_of_tensors_and_objects(x):
    y = x + 1
    s = {x, y, x}
    return len(s), x in s, (x * 2) in s, y in s


@program
def set_comprehension_membership(x):
    s = {k * k for k in range(5)}
    return 16 in s, 15 in s, len(s), sum(s), max(s), x


@program
def set_of_frozensets(x):
    s = {frozenset([1, 2]), frozenset([2, 1]), frozenset()}
    return len(s), frozenset([1, 2]) in s, {1, 2} in s, x


@program
def set_iterated_small_integers(x):
    return [x + k for k in {3, 1, 2}], list({0, 5, 2}), x


@program
def set_unhashable_element(x):
    try:
        return {[1]}
    except TypeError as error:
        return str(error), x


@program
def set_of_equal_numbers(x):
    s = {1, True, 1.0, 0, False}
    return len(s), 1 in s, x


@program
def set_copy_is_apart(x):
    a = {1, 2}
    b = a.copy()
    b.add(3)
    return len(a), len(b), frozenset(a) == a, x


@program
def set_of_types_and_functions(x):
    s = {int, str, len}
    return int in s, float in s, len in s, type(x) in s


@program
def set_truth(x):
    return bool(set()), bool({0}), not frozenset(), "empty" if not set() else "full", x


@program
def set_sorted_words(x):
    return sorted({"pear", "fig", "apple"}, key=len), max({"aa", "b"}, key=len), min({3, 1, 2}), x


@program
def frozenset_from_frozenset(x):
    f = frozenset("ab")
    return frozenset(f) is f, f | set() == f, hash(f) == hash(frozenset("ba")), x


@program
def set_operators_refuse_lists(x):
    try:
        return {1} | [2]
    except TypeError as error:
        return str(error), x


@program
def a_literal_keeps_its_order_in_breaks(x):
    words = {
        "Alias", "At", "AttributeError", "Build", "Bypass", "Create", "x", "y", "z", "zip", "tuple", "up", "use", "used",
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "accessible",
    }  # fmt: skip
    before = list(words)
    time.sleep(0)
    return before == list(words), words, x + 1


_SEVERAL, _FROZEN = {"b", "a", "c"}, frozenset([3, 1, 2])


@program
def texts_of_sets(x):
    made = {8, 0}
    made.discard(8)
    made |= {8, 16}
    return x + 1, f"{_SEVERAL}", str(_FROZEN), repr(made), f"{set()} {frozenset()} {({1},)!r}"


@program
def sets_with_holes_go_on_in_breaks(x):
    discarded, popped, emptied, reduced, put_back = (
        {1, 2, 3, 4},
        set(range(4)),
        set(range(4)),
        set(range(20)),
        {1, 2, 3},
    )
    discarded -= {1, 2}
    popped.pop()
    while emptied:
        emptied.pop()
    reduced.difference_update([1, 2])
    put_back.remove(2)
    put_back.add(2)
    sets = discarded, popped, emptied, reduced, put_back, set(range(20)) - {3, 4}, {1, 2} ^ {2, 3}
    y = x + 1
    time.sleep(0)
    for each in sets:
        each.update([33, 8, 0, 65, 16, 24])
    return list(map(list, sets)), y


@program
def texts_taken_out_in_breaks(x):
    made = {"a", "b", "c"}
    made.discard("b")
    time.sleep(0)
    made.add("d")
    made.add("e")
    return list(made), x + 1


@program
def sets_without_what_is_discarded_go_on_in_breaks(x):
    made = {5, 13, 21}
    other = made | {1, 5}
    made.discard(16)
    other.discard(16)
    time.sleep(0)
    made.add(33)
    other.add(33)
    return list(made), list(other), x + 1


@program
def a_set_with_holes_is_handed_out(x):
    made = {5, 13, 21}
    made.discard(13)
    return made, x + 1


@program
def deep_copies_of_sets_are_made_as_they_are_gone_through(x):
    made = {5, 13}
    return list(made), list(copy.deepcopy(made)), list(copy.copy(made)), x + 1


@program
def elements_are_taken_from_sets_in_breaks(x):
    small, large = {5, 17, 33, 8, 64}, set(range(0, 300, 7))
    time.sleep(0)
    got = [small.pop(), large.pop(), large.pop()]
    time.sleep(0)
    small.add(99)
    large.add(0)
    got += [small.pop(), large.pop()]
    while len(small) > 2:
        got.append(small.pop())
    large |= {2, 16}
    time.sleep(0)
    return got, list(small), [large.pop() for _ in range(12)], list(large), x + 1


@program
def sets_are_gone_through_after_changes_in_breaks(x):
    made = {5, 17, 33, 8}
    time.sleep(0)
    made.add(49)
    made.discard(17)
    made.update([65, 1])
    got = [each for each in made]
    time.sleep(0)
    return got, list(made), x + 1
