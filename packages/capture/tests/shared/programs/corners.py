# ruff: noqa
"""What CPython's own tests found: order in which methods are asked, changes while something is iterated or compared, calls that are refused."""

from __future__ import annotations

import abc
import collections
import contextlib
import enum
import functools
import gc
import operator
import sys
import types
import typing
import warnings
import weakref

from .registry import program


def _outcome(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


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


class Refusing:
    def __add__(self, other):
        return "added"

    __iadd__ = None
    __contains__ = None

    def __iter__(self):
        return iter([1])


@program
def none_for_a_method_refuses_break(x):
    r = Refusing()

    def add():
        nonlocal r
        r += 1
        return r

    return _outcome(lambda: r + 1), _outcome(add), _outcome(lambda: 1 in r), x


class Dying:
    log: list = []

    def __init__(self, name):
        self.name = name

    def __del__(self):
        self.log.append(self.name)


@program
def objects_with_finalizers_break(x):
    def drop():
        Dying("a")

    Dying.log.clear()
    y = x + 1
    drop()
    return list(Dying.log), y


@program
def set_changed_while_iterated(x):
    s = {1, 2, 3}

    def go():
        for v in s:
            s.add(v + 10)

    return _outcome(go), x + 1


@program
def ordered_dict_changed_while_iterated(x):
    d = collections.OrderedDict(a=1, b=2)

    def go():
        for k in d:
            del d[k]
            d[k] = 0

    return _outcome(go), x + 1


class Mutating:
    def __init__(self, target):
        self.target = target

    def __eq__(self, other):
        self.target.clear()
        return False


@program
def deque_changed_while_compared(x):
    d = collections.deque([1, 2])
    e = collections.deque([1, 2])
    return _outcome(lambda: Mutating(d) in d), _outcome(lambda: e.count(Mutating(e))), x


@program
def lists_changed_while_compared(x):
    a, b = [1, 2], [1, 2]
    a[0] = Mutating(b)
    return a == b, len(b), x


@program
def frozen_sets_made_anew(x):
    f = frozenset([1])
    return f.copy() is f, frozenset(f) is f, f.union() is f, f.intersection() == f, f | set() is f if False else 1, x


@program
def keywords_refused_break(x):
    calls = (
        lambda: bool(x=1), lambda: list(sequence=[]), lambda: tuple(sequence=()), lambda: float(x=1.0), lambda: int(x=1),
        lambda: set(iterable=()), lambda: complex(real=1, imag=2), lambda: enumerate(), lambda: reversed(), lambda: next(),
        lambda: {}.get(), lambda: super(int, int, int), lambda: dict({}, {}),
    )  # fmt: skip
    return [_outcome(call) for call in calls], x


class Backwards(dict):
    def __iter__(self):
        return iter(list(self.keys())[::-1])

    def keys(self):
        return list(super().keys())[::-1]


@program
def dict_of_a_dict_with_an_order_of_its_own(x):
    b = Backwards(a=x, b=2)
    return list(dict(b)), list({**b})


class Counting:
    def __init__(self):
        self.asked = 0

    def __hash__(self):
        self.asked += 1
        return 7

    def __eq__(self, other):
        return self is other


@program
def hashes_are_asked_once(x):
    keys = [Counting(), Counting()]
    d = dict.fromkeys(keys)
    s = set(d)
    dict.fromkeys(s)
    return [k.asked for k in keys], len(s), x


class Changing:
    def __init__(self):
        self.fail = False

    def __hash__(self):
        if self.fail:
            raise ValueError("fails")
        return 42


@program
def hash_that_changes_break(x):
    c = Changing()
    d = {c: 1}
    c.fail = True
    return _outcome(lambda: d.pop(c)), list(d.values()), x


@program
def unpacking_asks_for_no_more(x):
    asked = []

    def numbers():
        for i in range(10):
            asked.append(i)
            yield i

    it = numbers()

    def go():
        a, b = it

    return _outcome(go), asked, next(it), x


@program
def membership_stops_early(x):
    asked = []

    def numbers():
        for i in range(10):
            asked.append(i)
            yield i

    it = numbers()
    return 2 in it, asked, next(it), x


class Subclass(int):
    def __index__(self):
        return 5


@program
def index_of_an_integer_is_itself(x):
    return [1, 2, 3][Subclass(1)], range(Subclass(2)), x


@program
def dictionary_of_an_object_with_other_keys_break(x):
    o = Dying.__new__(Mutating)
    o.__dict__[1] = 2
    return sorted(map(str, o.__dict__)), x


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
    return _outcome(_without_arguments), _outcome(lambda y=1: super()), x


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


@program
def tuples_that_stay_themselves(x):
    t = (x, 1)
    return t * 1 is t, t[:] is t, t + () is t, () + t is t, t[0:] is t, t[:1] is t, t * 2 is t, tuple(t) is t


def _names_of_mine(a, b):
    c = a
    found = locals()
    del found["b"]
    return found


@program
def locals_of_an_inner_function_break(x):
    return sorted(_names_of_mine(1, 2)), _names_of_mine(x, 0)["c"] is x, x + 1


@program
def slices_without_a_step(x):
    a = [1, 2, 3]

    def put():
        a[::0] = [1]

    def drop():
        del a[::0]

    return _outcome(lambda: (1, 2)[::0]), _outcome(lambda: a[1:2:0]), _outcome(put), _outcome(drop), "ab"[::1], x


class Keys:
    a = b = "same"


@program
def mapping_pattern_with_a_key_twice(x):
    def go():
        match {"same": 1}:
            case {Keys.a: one, Keys.b: two}:
                return one

    return _outcome(go), x


class Five:
    def __index__(self):
        return 5


@program
def limits_of_deques(x):
    asked = []

    def letters():
        asked.append(1)
        yield "a"

    limits = (-1, -2, True, Five(), 1.5, "a", 2**70, None, Subclass(1))
    return [_outcome(lambda: (list(d := collections.deque(letters(), limit)), d.maxlen)) for limit in limits], asked, x


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

    counts = [(_outcome(lambda: cls().a), asked.asked) for cls in (First, Second, Both)]
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
        found = _outcome(lambda: print("said"))
    return found, x + 1


class SaysTrue:
    def __index__(self):
        return True

    __int__ = __trunc__ = __index__


class Truncated:
    def __trunc__(self):
        return 3


class Halves(float):
    def __float__(self):
        return Halves(0.5)


@program
def numbers_of_which_python_warns_break(x):
    def told(function):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = _outcome(function)
        return found, [(w.category.__name__, str(w.message)) for w in seen]

    calls = (
        lambda: operator.index(SaysTrue()), lambda: int(SaysTrue()), lambda: int(Truncated()), lambda: float(Halves(1)),
        lambda: [1, 2, 3][SaysTrue()], lambda: range(SaysTrue()), lambda: complex(Halves(1)), lambda: "a" * SaysTrue(),
    )  # fmt: skip
    return [told(call) for call in calls], x + 1


_LARGE = 10**6000


@program
def integers_too_long_to_be_written_break(x):
    return _LARGE > x.shape[0], x.shape[0] * _LARGE > _LARGE, _LARGE // 7 % 1000, _outcome(lambda: str(_LARGE)), x + 1


@program
def integers_too_long_among_sizes(x, n=_LARGE + 1):
    return n - x.shape[0] > _LARGE, _outcome(lambda: len(range(_LARGE))), x + 1


class Peculiar(type):
    @property
    def __module__(cls):
        raise ZeroDivisionError("no module")


_PECULIAR = Peculiar("Odd", (), {"a": 1})


@program
def classes_whose_metaclass_tells_their_place_break(x):
    return (
        _outcome(lambda: _PECULIAR.a),
        _outcome(lambda: type(_PECULIAR())),
        _outcome(lambda: _PECULIAR.__module__),
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
def views_are_not_changed_in_place(x):
    held = {"a": 0}
    view = types.MappingProxyType(held)

    def join(other):
        nonlocal view
        view |= other

    return (
        _outcome(lambda: join({"b": 1})),
        _outcome(lambda: join([("b", 1)])),
        dict(view),
        view | {"c": 2},
        held,
        x + 1,
    )


@program
def super_after_the_first_argument_changed(x):
    class Changing(Base):
        def dropped(self):
            del self
            return super()

        def replaced(self, other):
            self = other
            return super().__le__(1)

    return _outcome(Changing().dropped), Changing().replaced(Changing()), x + 1


@program
def dictionaries_of_exceptions_are_replaced_break(x):
    error, own, held = ValueError(), Five(), {"c": 3}
    error.__dict__ = {"a": 1}
    error.__dict__ = held
    own.__dict__ = held
    held["d"] = 5
    return error.c, _outcome(lambda: error.a), own.d, x + 1


@program
def lists_changed_while_sorted(x):
    items = []

    def put_in_and_out(a, b):
        items.append(3)
        items.pop()
        return a - b

    def cleared(a, b):
        items.append(3)
        del items[:]
        return a - b

    def untouched(a, b):
        items.clear()
        items.extend(())
        items.reverse()
        return a - b

    found = []
    for compared in (put_in_and_out, cleared, untouched):
        items[:] = [2, 1]
        found.append((_outcome(lambda: items.sort(key=functools.cmp_to_key(compared))), list(items)))
    return found, x + 1


@program
def list_changed_and_emptied_while_sorted_outside_break(x):
    items = [2, 1]

    def compared(a, b):
        items.append(3)
        items.pop()
        gc.isenabled()
        return a - b

    return _outcome(lambda: items.sort(key=functools.cmp_to_key(compared))), items, x + 1


@program
def types_of_members_that_the_frame_made_break(x):
    class Made(enum.IntEnum):
        A = 0
        B = 1

    found = typing.Literal[Made.A], typing.Literal[(Made.A, Made.B)]
    gc.isenabled()
    return [found[0].__args__[0] is Made.A, found[1].__args__[1] is Made.B, found[0] == typing.Literal[Made.A]], x + 1


@program
def what_closing_gives(x):
    def returning():
        try:
            yield 1
        except GeneratorExit:
            return 5

    begun, fresh, ended = returning(), returning(), returning()
    next(begun)
    list(ended)
    return begun.close(), begun.close(), fresh.close(), ended.close(), x + 1


@program
def bound_methods_stay_bound_break(x):
    first, second = Changing(), Changing()
    return (
        first.__hash__.__get__(second, Changing)() == hash(first),
        first.__hash__.__get__(None, Changing).__self__ is first,
        x,
    )


class Overridden(str):
    def __str__(self):
        return "overridden"


class Refused:
    __format__ = None


@program
def texts_that_tell_themselves_break(x):
    own = Overridden("xxx")
    told = [
        "%s" % own,
        "%r" % own,
        "%s" % (own,),
        f"{own}",
        "{}".format(own),
        str(object="a"),
        str(object=b"a", encoding="ascii"),
    ]
    return told, _outcome(lambda: f"{Refused()}"), _outcome(lambda: "{}".format(Refused())), x + 1
