# ruff: noqa
"""What CPython's own tests found: whom attributes, `super()` and classes are asked of, and in which order."""

from __future__ import annotations

import abc
import contextlib
import enum
import gc
import operator
import sys
import types
import typing
import weakref

import torch

from .changed_meanwhile import Changing
from .registry import outcome, program
from .values_at_limits import Five


class Base(metaclass=abc.ABCMeta):
    def __le__(self, other):
        return ("base", type(other).__name__)

    def __ge__(self, other):
        return ("base>=", type(other).__name__)


@Base.register
class Virtual:
    def __le__(self, other):
        return ("virtual", type(other).__name__)

    def __ge__(self, other):
        return ("virtual>=", type(other).__name__)


@program
def virtual_subclass_is_not_asked_first(x):
    return Base() <= Virtual(), Virtual() <= Base(), x


class Started:
    made: list = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.calls = []


class Between:
    def __init_subclass__(cls, between, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.calls += [between]


class Ended(Started):
    def __init_subclass__(cls, ended="ended", **kwargs):
        super().__init_subclass__(**kwargs)
        cls.calls += [ended]


@program
def subclasses_made_in_a_diamond_break(x):
    class Made(Started, Between, Ended, between="between"):
        pass

    return Made.calls, x


def _without_arguments():
    return super()


@program
def super_without_a_class(x):
    return outcome(_without_arguments), outcome(lambda y=1: super()), x


class Meta(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, ("set", value))

    def plain(cls):
        return super(Meta, Meta).__repr__(cls)


@program
def super_through_a_class_breaks(x):
    Under = _UNDER
    return super(Meta, Under).__repr__() == repr(Under), Under.plain() == type.__repr__(Under), x


_UNDER = Meta("Under", (), {})


class Noting:
    """Notes what is read of it, its class too."""

    def __getattribute__(self, name):
        _NOTED.append(name)
        return object.__getattribute__(self, name)

    def __iter__(self):
        return iter((1, 2))


class NotingModule(types.ModuleType):
    def __getattribute__(self, name):
        _NOTED.append(name)
        return super().__getattribute__(name)


_NOTED = []
_NOTING, _NOTING_MODULE = Noting(), NotingModule("noting")


@program
def only_the_program_reads_attributes_break(x):
    _NOTED.clear()
    _NOTING_MODULE.a = 1
    found = [*_NOTING, _NOTING is x, _NOTING_MODULE.a, {_NOTING: 1}[_NOTING], isinstance(_NOTING, int)]
    return found, _NOTED, x + 1


class Getting:
    def __init__(self):
        self.asked = 0

    def __get__(self, owner, cls=None):
        def get(name):
            self.asked += 1
            raise AttributeError(name)

        return get


class Given:
    def __call__(self, *args):
        return args


class ByObject:
    __getattr__ = Given()


class ByClass:
    @classmethod
    def __getattr__(cls, name):
        return cls.__name__, name


class ByNobody:
    @staticmethod
    def __getattribute__(name):
        return name


@program
def attributes_are_asked_of_descriptors_break(x):
    asked = Getting()

    class First:
        __getattribute__ = asked

    class Second:
        __getattr__ = asked

    class Both:
        __getattribute__ = asked
        __getattr__ = asked

    counts = [(outcome(lambda: cls().a), asked.asked) for cls in (First, Second, Both)]
    return counts, ByObject().a, ByClass().a, ByNobody().a, x + 1


class Leaving:
    def __getattribute__(self, name):
        raise AttributeError(f"no {name}")

    def __getattr__(self, name):
        return "left", name


_LEAVING = Leaving()


@program
def attributes_that_are_left_to_getattr(x):
    return _LEAVING.a, Leaving().b, getattr(_LEAVING, "c", 1), x


class Guarding:
    def __getattr__(self, name):
        sys.stdout = sys.__stdout__
        raise RuntimeError(f"premature {name}")


@program
def printing_to_what_refuses_break(x):
    with contextlib.redirect_stdout(Guarding()):
        found = outcome(lambda: print("said"))
    return found, x + 1


class Peculiar(type):
    @property
    def __module__(cls):
        raise ZeroDivisionError("no module")


_PECULIAR = Peculiar("Odd", (), {"a": 1})


@program
def classes_whose_metaclass_tells_their_place_break(x):
    return (
        outcome(lambda: _PECULIAR.a),
        outcome(lambda: type(_PECULIAR())),
        outcome(lambda: _PECULIAR.__module__),
        x + 1,
    )


class Referred:
    def __len__(self):
        return 3


_REFERRED = Referred()
_PROXIES = [weakref.proxy(_REFERRED), weakref.proxy(_REFERRED, _NOTED.append)]


@program
def proxies_of_an_argument_break(x, referred=_REFERRED):
    return len(referred), len(_PROXIES[0]), x + 1


def _yields():
    yield 1
    return (yield 2)


async def _awaits():
    pass


@program
def classes_that_objects_tell(x):
    generator, coroutine = _yields(), _awaits()
    values = (
        None,
        1,
        2.5,
        "a",
        ...,
        NotImplemented,
        generator,
        range(3),
        slice(1),
        zip(),
        map(str, []),
        iter([]),
        [].append,
    )
    told = [v.__class__ is type(v) for v in (*values, coroutine, types.MappingProxyType({}))]
    coroutine.close()
    return told, types._GeneratorWrapper(generator).__await__() is generator, x + 1


@program
def super_after_the_first_argument_changed(x):
    class Changing(Base):
        def dropped(self):
            del self
            return super()

        def replaced(self, other):
            self = other
            return super().__le__(1)

    return outcome(Changing().dropped), Changing().replaced(Changing()), x + 1


@program
def dictionaries_of_exceptions_are_replaced_break(x):
    error, own, held = ValueError(), Five(), {"c": 3}
    error.__dict__ = {"a": 1}
    error.__dict__ = held
    own.__dict__ = held
    held["d"] = 5
    return error.c, outcome(lambda: error.a), own.d, x + 1


@program
def types_of_members_that_the_frame_made_break(x):
    class Made(enum.IntEnum):
        A = 0
        B = 1

    found = typing.Literal[Made.A], typing.Literal[(Made.A, Made.B)]
    gc.isenabled()
    return [found[0].__args__[0] is Made.A, found[1].__args__[1] is Made.B, found[0] == typing.Literal[Made.A]], x + 1


@program
def bound_methods_stay_bound_break(x):
    first, second = Changing(), Changing()
    return (
        first.__hash__.__get__(second, Changing)() == hash(first),
        first.__hash__.__get__(None, Changing).__self__ is first,
        x,
    )


class _Plain:
    pass


class _ReadsByType(type):
    def __getattribute__(cls, name):
        return super().__getattribute__(name)


class _ReadByType(metaclass=_ReadsByType):
    pass


@program
def attributes_by_what_is_no_name(x):
    asks = (
        lambda: type.__getattribute__(list, type),
        lambda: super(_ReadsByType, _ReadByType).__getattribute__(3),
        lambda: object.__getattribute__(_Plain(), 3),
        lambda: object.__setattr__(_Plain(), 3, 4),
        lambda: object.__delattr__(_Plain(), 3),
        lambda: _Plain().__getattribute__(None),
        lambda: operator.attrgetter(3),
        lambda: operator.attrgetter("real", 3),
        lambda: operator.methodcaller(3, 4),
        lambda: __import__([]),
    )
    told = []
    for ask in asks:
        try:
            told.append(ask())
        except Exception as error:
            told.append((type(error), error.args))
    return x + 1, told


@program
def module_attributes_by_what_is_no_name_break(x):
    try:
        return torch.nn.Module().__setattr__(3, 4)
    except TypeError as error:
        return x + 1, error.args
