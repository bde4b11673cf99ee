# ruff: noqa
"""What objects say of themselves, and copies of them: the program's own methods are run, not computed ahead."""

from __future__ import annotations

import collections
import copy
import enum
import functools

import torch

from .registry import program

COUNT = [0]


class Formatted(enum.Enum):
    A = 1

    def __format__(self, spec):
        return f"<{self.name}{spec}>"


class Counted(enum.Enum):
    A = 1

    def __str__(self):
        COUNT[0] += 1
        return f"{self._name_}{COUNT[0]}"


class Copied(enum.Enum):
    A = 1

    def __deepcopy__(self, memo):
        return "copied"


class Ordered(collections.OrderedDict):
    pass


@program
def member_that_formats_itself(x):
    return x + 1, f"{Formatted.A}", format(Formatted.A, ">"), f"{Formatted.A:>9}", str(Formatted.A)


@program
def member_whose_text_counts(x):
    COUNT[0] = 0
    return x + 1, f"{Counted.A}", str(Counted.A), repr(Counted.A)


@program
def break_at_a_member_that_copies_itself(x):
    return x + 1, copy.deepcopy(Copied.A), copy.deepcopy(Formatted.A) is Formatted.A, copy.deepcopy(int) is int


@program
def deep_copy_that_is_refused(x):
    try:
        return x + 1, copy.deepcopy(torch.finfo(torch.float32))
    except TypeError as error:
        return x + 2, str(error)


@program
def break_at_the_copy_of_a_subclass(x):
    made = Ordered(a=1)
    return x + 1, type(made.copy()).__name__, type(copy.copy(made)).__name__


@program
def list_while_it_is_sorted(x):
    items, seen = [3, 1, 2], []
    items.sort(key=lambda v: (seen.append(len(items)), v)[1])
    return x + 1, items, seen


@program
def list_changed_while_it_is_sorted(x):
    items = [3, 1, 2]
    try:
        items.sort(key=lambda v: (items.append(v), v)[1])
    except ValueError as error:
        return x + 1, str(error), items


@program
def keywords_of_a_partial_application(x):
    def scaled(x, n=0, **more):
        return x * n, more

    made = functools.partial(scaled, x, n=2)
    shown = made.keywords
    shown["n"] = 3
    made.keywords["other"] = 5
    again = functools.partial(made, n=4)
    return made(), again(), made.keywords is shown


HELD = functools.partial(lambda x, n=0: x * n, n=2)


@program
def keywords_of_a_partial_application_from_outside(x):
    HELD.keywords["n"] = 2
    HELD.keywords["n"] += 1
    return HELD(x), dict(HELD.keywords)


@program
def break_before_the_text_of_a_member(x):
    COUNT[0] = 0
    x.sum() > -1e9 and None  # what is captured from here on must not ask for it
    return x + 1, f"{Counted.A}", str(Counted.A)
