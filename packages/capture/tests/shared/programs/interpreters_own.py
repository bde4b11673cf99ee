"""What CPython's own tests of the language look at: keys that act as they are compared, built-ins that are replaced, iterators' types."""

import abc
import builtins
import collections
import enum
import functools
import gc
import itertools
import sys
import types
import typing
import warnings
import weakref
from typing import runtime_checkable

from .registry import outcome, program


class Acting:
    """A key of the hash of a text, that notes when it is compared."""

    def __init__(self, text, asked):
        self.hash = hash(text)
        self.asked = asked

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        self.asked.append(other)
        return False


@program
def keys_that_act_in_an_object_break(x):
    class Holder:
        attr = 1

    asked = []
    holder = Holder()
    holder.__dict__[Acting("attr", asked)] = 0
    return holder.attr, len(asked), holder.attr, len(asked), x + 1


@program
def keys_that_act_in_a_class_break(x):
    asked = []
    made = type("Made", (), {Acting("attr", asked): 0, "attr": 2})
    return made.attr, made().attr, set(asked), x + 1  # how often is the cache of look-ups' to say


class Asking(types.ModuleType):
    log = []

    def __getattribute__(self, name):
        Asking.log.append(name)
        return super().__getattribute__(name)


@program
def a_modules_class_is_asked_no_more_than_it_is_break(x):
    made = Asking("a")
    made.foo = 12
    Asking.log.clear()
    found = made.foo
    del made.foo
    return found, list(Asking.log), x + 1


@program
def a_modules_class_is_not_asked_by_what_remembers_it_break(x):
    made = Asking("a")
    made.foo = 12
    gc.isenabled()
    Asking.log.clear()
    gc.isenabled()
    found = made.foo
    gc.isenabled()
    del made.foo
    return found, list(Asking.log), x + 1


class AskingAnywhere:
    log = []

    def __getattribute__(self, name):
        AskingAnywhere.log.append(name)
        return super().__getattribute__(name)


@program
def an_objects_class_is_asked_no_more_than_it_is_break(x):
    made = AskingAnywhere()
    made.foo = 12
    gc.isenabled()
    AskingAnywhere.log.clear()
    gc.isenabled()
    made.foo
    gc.isenabled()
    return list(AskingAnywhere.log), x + 1


@program
def a_table_that_notices_in_a_generic_function_break(x):
    class Noticing(collections.UserDict):
        def __getitem__(self, key):
            asked.append(key)
            return super().__getitem__(key)

    asked = []
    table = Noticing()
    kept, weakref.WeakKeyDictionary = weakref.WeakKeyDictionary, lambda: table
    try:
        chosen = functools.singledispatch(lambda value: "any")
        gc.isenabled()
        return chosen(1), list(table), chosen(2), asked, x + 1
    finally:
        weakref.WeakKeyDictionary = kept


@program
def a_replaced_built_in_break(x):
    counted = []
    kept = builtins.len

    def counting(value):
        counted.append(value)
        return kept(value)

    try:
        builtins.len = counting
        gc.isenabled()
        return [len("abc"), len("ab")], counted, x + 1
    finally:
        builtins.len = kept


@program
def iterators_of_texts_break(x):
    ended = iter("ab")
    list(ended)
    begun = iter(b"abc")
    next(begun)
    made = [iter("abc"), iter(b"abc"), iter("ü"), iter(range(2**70, 2**70 + 2)), iter(""), ended, begun]
    within = [type(each).__name__ for each in made]
    gc.isenabled()
    return (
        within,
        [type(each).__name__ for each in made],
        [each.__reduce__()[1:] for each in made[:-2]],
        [*map(list, made)],
        x,
    )


@program
def reading_iterators_of_texts(x):
    made = iter("abc")
    return type(made).__name__, next(made), list(made), next(made, 0), x + 1


class Planet(enum.Enum):
    EARTH = 1
    MARS = 2

    def __init__(self, number):
        self.moons = number
        self.seen = []


@program
def what_members_hold(x):
    known = Planet.EARTH.moons, len(Planet.EARTH.seen), Planet.EARTH.__dict__ is vars(Planet.EARTH), Planet.MARS.moons
    Planet.EARTH.seen.append(1)
    later = len(Planet.EARTH.seen)
    Planet.EARTH.seen.clear()
    return known, later, x + 1


@program
def what_members_are_given_break(x):
    before = Planet.EARTH.moons
    Planet.EARTH.__dict__["moons"] = before + 1
    after = Planet.EARTH.moons
    Planet.EARTH.moons = 1
    return before, after, Planet.EARTH.moons, x + 1


@runtime_checkable
class Sized(typing.Protocol):
    size: int


class Asked:
    def __init__(self):
        self.size = 1


@program
def rules_of_typing_break(x):
    asked = Asked()
    return (
        outcome(lambda: isinstance(42, typing.Any)),
        outcome(lambda: isinstance(42, Sized)),
        outcome(lambda: isinstance("a", typing.SupportsIndex)),
        outcome(lambda: isinstance(1, typing.SupportsIndex)),
        isinstance(asked, Sized),
        x + 1,
    )


@program
def rules_of_typing_for_classes_of_the_frame_break(x):
    class Own:
        def __init__(self):
            self.size = 1

    class Plain:
        pass

    return isinstance(Own(), Sized), isinstance(Plain(), Sized), x + 1


@program
def what_is_no_base_break(x):
    def made(base):
        class Made(base):
            pass

        return Made.__name__

    return [outcome(lambda: made(each)) for each in (typing.ClassVar, typing.Union, typing.TypeVar("T"))], x + 1


class Descriptor:
    def __init__(self, function):
        self.function = function

    @property
    def __isabstractmethod__(self):
        return getattr(self.function, "__isabstractmethod__", False)


@program
def abstract_by_what_a_descriptor_says_break(x):
    class Made(abc.ABC):
        @Descriptor
        @abc.abstractmethod
        def method(self):
            return 3

    return outcome(Made)[0], x + 1


class NoTruth:
    def __bool__(self):
        raise ValueError("no truth")


@program
def abstract_by_what_has_no_truth_break(x):
    def made():
        class Made(abc.ABC):
            def method(self):
                return 3

            method.__isabstractmethod__ = NoTruth()

        return Made

    return outcome(made), x + 1


def _made_of_itself(value):
    made = type(value)
    try:
        made(value)
        return "made"
    except TypeError:
        return "refused"


@program
def classes_without_instances_break(x):
    return _made_of_itself(sys.flags), _made_of_itself(sys.version_info), x + 1


class Formatted:
    def __format__(self, spec):
        return f"given {spec}"


@program
def formats_that_are_no_texts(x):
    try:
        return format(Formatted(), None), x + 1
    except TypeError as error:
        return format(Formatted(), "a"), str(error), x + 1


def _nth(function, n):
    made = function.__code__.co_positions()
    return next(itertools.islice(made, n, None))[0], next(iter(function.__code__.co_lines()))[2]


@program
def iterators_of_what_does_not_change_break(x):
    return [_nth(outcome, n) for n in (2, 2, 5, 2)], _nth(_made_of_itself, 1), x + 1


class NoHash(type):
    __hash__ = None


class Unhashable(metaclass=NoHash):
    pass


@program
def hashes_of_unions_break(x):
    made = int | Unhashable
    return outcome(lambda: hash(made))[0], hash(int | str) == hash(str | int), x + 1


@program
def what_an_asynchronous_generator_never_gives_break(x):
    async def numbers():
        yield 1

    told = []
    for ask in ("asend", "athrow", "aclose"):
        made = numbers()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            if ask == "asend":
                made.asend(None)
            elif ask == "athrow":
                made.athrow(ValueError())
            else:
                made.aclose()
            gc.collect()
        told.append([str(each.message) for each in seen])
    return told, x + 1
