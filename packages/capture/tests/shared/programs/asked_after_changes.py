"""What is asked of an object for real, after the program has changed it: the answer is of the changed one."""

from __future__ import annotations

import abc
import colorsys
import copy
import copyreg
import enum
import gc
import inspect
import logging
import sys
import types
import typing
import warnings

import torch

from .registry import program

NUMBER = 1
KIND = int
SEEN = []


def annotated(a: int, b: KIND = None, *, only=1):
    return only


def other(first, second):
    return first


class Fields:
    a: int


@program
def annotations_break(x):
    annotated.__annotations__["a"] = str
    try:
        return x + 1, typing.get_type_hints(annotated)["a"], str(inspect.signature(annotated))
    finally:
        annotated.__annotations__["a"] = int


@program
def annotations_of_a_class_break(x):
    Fields.__annotations__["b"] = str
    try:
        return x + 1, typing.get_type_hints(Fields)
    finally:
        del Fields.__annotations__["b"]


@program
def annotations_that_are_texts(x):
    return x + 1, typing.get_type_hints(annotated)


@program
def annotations_that_are_texts_break(x):
    global KIND
    KIND = float
    try:
        return x + 1, typing.get_type_hints(annotated)
    finally:
        KIND = int


@program
def signature_in_its_own_way_breaks(x):
    return x + 1, inspect.signature(annotated, eval_str=True).parameters["b"].annotation


@program
def keyword_defaults_break(x):
    before = annotated(1)
    annotated.__kwdefaults__["only"] = 5
    try:
        return x + 1, before, annotated(1), inspect.getfullargspec(annotated).kwonlydefaults
    finally:
        annotated.__kwdefaults__["only"] = 1


@program
def dictionary_of_a_function_breaks(x):
    other.__dict__["tag"] = 1
    before = other.tag
    other.__dict__["tag"] = 2
    after = other.tag
    del other.__dict__["tag"]
    return x + 1, before, after, hasattr(other, "tag"), getattr(other, "tag", 3)


@program
def wrapped_in_its_dictionary_breaks(x):
    other.__dict__["__wrapped__"] = annotated
    try:
        return x + 1, inspect.unwrap(other) is annotated, len(inspect.signature(other).parameters)
    finally:
        del other.__dict__["__wrapped__"]


@program
def another_module_in_its_place_breaks(x):
    stand_in = types.ModuleType("colorsys")
    sys.modules["colorsys"] = stand_in
    try:
        import colorsys as found

        return x + 1, found is stand_in, hasattr(found, "rgb_to_hsv")
    finally:
        sys.modules["colorsys"] = colorsys


class Told(enum.Enum):
    """Its methods tell of a global."""

    A = 1
    B = 2

    def __hash__(self):
        return hash(NUMBER)

    def __eq__(self, other):
        return NUMBER == 7 or self is other

    def __bool__(self):
        return NUMBER != 7

    def __str__(self):
        return f"told {NUMBER}"

    @enum.property
    def read(self):
        return NUMBER

    @classmethod
    def _missing_(cls, value):
        return cls.B if NUMBER == 7 else cls.A


@program
def methods_of_members_break(x):
    global NUMBER
    NUMBER = 7
    told = (
        hash(Told.A) == hash(7), bool(Told.A), not Told.A, Told.A == 3, Told.B in [5], "%s" % Told.A, f"{Told.A}", Told.A.read,  # noqa: UP031
        {Told.A: 1}.get(Told.A),
    )  # fmt: skip
    NUMBER = 1
    return x + 1, told, hash(Told.A) == hash(1), bool(Told.A), Told.A == 3


@program
def missing_members_break(x):
    global NUMBER
    NUMBER = 7
    found = Told(99)
    NUMBER = 1
    return x + 1, found.name, Told(99).name


class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, asked):
        return bool(SEEN) or NotImplemented


@program
def hooks_of_subclasses_break(x):
    class Fresh:
        pass

    SEEN.append(1)
    found = issubclass(Fresh, Hooked), isinstance(Fresh(), Hooked)
    SEEN.clear()
    return x + 1, found


class Reduced:
    def __init__(self):
        self.state = [1]


@program
def copies_break_by_a_new_rule(x):
    given = Reduced()
    given.state = 5
    copyreg.dispatch_table[Reduced] = lambda value: (Reduced, ())
    made = copy.copy(given).state
    del copyreg.dispatch_table[Reduced]
    return x + 1, made, copy.copy(given).state


ABOVE = logging.getLogger("capture.tests.above")
BELOW = logging.getLogger("capture.tests.above.below")
ABOVE.propagate = False
ABOVE.setLevel(logging.WARNING)


class Noting(logging.Handler):
    def emit(self, record):
        SEEN.append((record.getMessage(), NUMBER))


NOTES = Noting()
ABOVE.addHandler(NOTES)


@program
def level_of_a_parent_breaks(x):
    SEEN.clear()
    before = BELOW.isEnabledFor(logging.DEBUG)
    ABOVE.level = logging.DEBUG
    BELOW._cache.clear()
    BELOW.debug("shown")
    found = BELOW.isEnabledFor(logging.DEBUG)
    ABOVE.level = logging.WARNING
    BELOW._cache.clear()
    BELOW.debug("not shown")
    return x + 1, before, found, BELOW.isEnabledFor(logging.DEBUG), list(SEEN)


@program
def handlers_break_where_they_see_the_program(x):
    global NUMBER
    SEEN.clear()
    NUMBER = 2
    BELOW.error("one")
    NUMBER = 3
    NOTES.level = 100
    BELOW.error("none")
    NOTES.level = 0
    BELOW.error("two")
    NUMBER = 1
    return x + 1, list(SEEN)


@program
def warnings_that_are_raised_break(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if x.sum() > -1e9:
            y = x + 1
        try:
            warnings.warn("now", UserWarning)
        except UserWarning as raised:
            return y, str(raised)


class Mode(str, enum.Enum):  # noqa: UP042
    MEAN = "mean"
    SUM = "sum"

    def __str__(self):
        return self.value


@program
def members_that_are_texts(x):
    loss = torch.nn.functional.l1_loss(x, x * 2, reduction=Mode.SUM)
    return (
        loss,
        Mode("mean") is Mode.MEAN,
        Mode(Mode.SUM) is Mode.SUM,
        f"{Mode.MEAN}",
        Mode.SUM == "sum",
        Mode.MEAN in ("mean",),
    )


@program
def built_in_replaced_breaks(x):
    import builtins

    before, builtins.bin = bin, lambda value: "replaced"
    found = bin(1)
    builtins.bin = before
    return x + 1, found, bin(1)


FALLING = types.ModuleType("falling")
FALLING.__getattr__ = lambda name: (name, NUMBER)


@program
def module_that_falls_back(x):
    global NUMBER
    NUMBER = 7
    found = FALLING.anything, getattr(FALLING, "other", None)
    NUMBER = 1
    return x + 1, found, FALLING.anything


class Meta(type):
    def __hash__(cls):
        return NUMBER

    def __eq__(cls, other):
        return NUMBER == 7

    def __repr__(cls):
        return f"made at {NUMBER}"


class First(metaclass=Meta):
    pass


class Second(metaclass=Meta):
    pass


@program
def classes_that_tell_break(x):
    global NUMBER
    NUMBER = 7
    found = {First: 1}.get(Second), Second in {First}, hash(First), str(First), f"{First}", repr(First), "%s" % First  # noqa: UP031
    NUMBER = 1
    return x + 1, found, {First: 1}.get(Second), str(First)


class Numbered:
    number = 1

    def __hash__(self):
        return hash(self.number * NUMBER)

    def __eq__(self, other):
        return self.number == other.number


NUMBERED = Numbered()


@program
def keys_made_after_their_hash_changed_break(x):
    global NUMBER
    NUMBERED.number = 7
    by_object = {NUMBERED: 1}
    gc.isenabled()
    found = [by_object.get(NUMBERED)]
    NUMBER = 5
    by_object, both = {NUMBERED: 2}, {(NUMBERED, 1)}
    gc.isenabled()
    found += [by_object.get(NUMBERED), (NUMBERED, 1) in both]
    NUMBER = 1
    found += [by_object.get(NUMBERED), (NUMBERED, 1) in both]
    del NUMBERED.number
    return x + 1, found
