# ruff: noqa
"""copy, dataclasses, enum, weakref, typing, abc: objects that say how they are made."""

from __future__ import annotations

import abc
import collections.abc
import copy
import dataclasses
import enum
import inspect
import types
import typing
import weakref

import torch

from .registry import program


@program
def deep_copies(x):
    shared = [x, 1]
    data = {"a": shared, "b": shared, "t": (shared, {1, 2}), "n": None}
    made = copy.deepcopy(data)
    made["a"].append(2)
    return made, shared, made["a"] is made["b"], made["t"][0] is made["a"], made["a"][0] is x


@program
def deep_copy_of_tensor(x):
    y = copy.deepcopy(x)
    y.add_(1)
    return y, x


class _Own:
    def __init__(self, v):
        self.v = v

    def __copy__(self):
        return type(self)(("copy", self.v))

    def __deepcopy__(self, memo):
        return type(self)(("deep", copy.deepcopy(self.v, memo)))


@program
def copies_of_own(x):
    o = _Own([1])
    return x, copy.copy(o).v, copy.deepcopy(o).v, copy.deepcopy([o, o])[0].v


class _Cycle:
    pass


@program
def deep_copy_of_cycle(x):
    c = _Cycle()
    c.me, c.t, c.items = c, x * 2, []
    c.items.append(c.items)
    d = copy.deepcopy(c)
    return d.me is d, d is not c, d.t, d.items[0] is d.items


class _Renamed:
    """Reads and writes some attributes under another name, as configurations do."""

    names = {"width": "size"}

    def __init__(self, size, parts=()):
        self.size = size
        self.parts = list(parts)

    def __getattribute__(self, name):
        names = super().__getattribute__("names")
        return super().__getattribute__(names.get(name, name))

    def __setattr__(self, name, value):
        super().__setattr__(self.names.get(name, name), value)


_RENAMED = _Renamed(3, [_Renamed(4), None])


@program
def copies_of_what_reads_its_attributes_itself(x):
    a, b = copy.deepcopy(_RENAMED), copy.copy(_RENAMED)
    a.width = 5
    a.parts[0].width = 6
    del b.size
    return (
        x * a.size,
        _RENAMED.width,
        _RENAMED.parts[0].size,
        a.parts[0].size,
        b.parts is _RENAMED.parts,
        hasattr(b, "width"),
    )


class _Asked:
    """Answers for every name that it does not have."""

    def __init__(self):
        self.data = {"k": [1]}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.data[name]


@program
def deep_copy_of_what_answers_for_all_names(x):
    a = _Asked()
    b = copy.deepcopy(a)
    b.k.append(2)
    return x, a.k, b.k


class _Layer(abc.ABC):
    def __init__(self):
        self.keys = []

    @abc.abstractmethod
    def update(self, x): ...


class _FullLayer(_Layer):
    def update(self, x):
        self.keys.append(x)


@program
def copies_of_an_abstract_class(x):
    a = _FullLayer()
    a.update(x)
    b, c = copy.copy(a), copy.deepcopy(a)
    b.update(x + 1)
    c.update(x + 2)
    return [len(each.keys) for each in (a, b, c)], a.keys, c.keys


class _Slotted:
    __slots__ = ("keys",)


class _OfSlotted(_Slotted):
    __slots__ = ()


@program
def break_at_copies_of_slots(x):
    a = _OfSlotted()
    a.keys = [x]
    return copy.copy(a).keys, copy.deepcopy(a).keys[0] is not x


class _Numbered:
    made = []

    def __new__(cls):
        _Numbered.made.append(None)
        self = super().__new__(cls)
        self.number = self.born = len(_Numbered.made)
        return self


@program
def copies_are_made_by_new(x):
    _Numbered.made.clear()
    a = _Numbered()
    del a.born
    b, c = copy.copy(a), copy.deepcopy(a)
    return x, (a.number, b.number, c.number), (hasattr(a, "born"), b.born, c.born), len(_Numbered.made)


class _Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4, bias=False)
        self.register_buffer("b", torch.ones(4))
        torch.nn.init.constant_(self.a.weight, 0.5)
        self.names = ["n"]

    def forward(self, x):
        return self.a(x) + self.b


_NET = _Net()


@program
def break_at_deep_copy_of_module(x):
    net = copy.deepcopy(_NET)
    with torch.no_grad():
        net.a.weight.mul_(2)
    net.names.append("m")
    return net(x), _NET(x), _NET.names, net.names, type(net).__name__, [n for n, _ in net.named_parameters()]


@dataclasses.dataclass
class _Point:
    a: int
    b: list = dataclasses.field(default_factory=list)
    c: float = dataclasses.field(default=0.5, repr=False, compare=False)
    d: int = dataclasses.field(init=False)
    k: dataclasses.InitVar[int] = 3
    always: typing.ClassVar[int] = 9

    def __post_init__(self, k):
        self.d = self.a * k


@dataclasses.dataclass(order=True)
class _Sub(_Point):
    e: int = dataclasses.field(default=1, kw_only=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Frozen:
    a: int
    b: str = "b"


@program
def dataclass_fields(x):
    p = _Point(2, [x])
    q = _Sub(1, e=5)
    return (
        p.d, p.b[0], repr(q), q == _Sub(1, c=9.0, e=5), q < _Sub(2), p.always,
        [f.name for f in dataclasses.fields(p)], dataclasses.is_dataclass(p), dataclasses.is_dataclass(_Point), dataclasses.is_dataclass(3),
        _Point(1).b is not _Point(1).b, _Sub.__match_args__,
    )  # fmt: skip


@program
def dataclass_converted(x):
    q = _Sub(1, [{"k": 2}, (3,)], e=5)
    d = dataclasses.asdict(q)
    d["b"][0]["k"] = 3
    r = dataclasses.replace(q, a=4, k=2)
    return x, d, q.b, dataclasses.astuple(q), r.d, r.e, r.b is q.b


@program
def dataclass_frozen(x):
    f = _Frozen(1)
    out = []
    try:
        f.a = 2
    except dataclasses.FrozenInstanceError as e:
        out.append(str(e))
    try:
        del f.b
    except dataclasses.FrozenInstanceError as e:
        out.append(str(e))
    g = dataclasses.replace(f, b="c")
    return x * f.a, out, repr(g), hash(f) == hash(_Frozen(1)), hasattr(f, "__dict__")


@program
def dataclass_matched(x):
    match _Frozen(1, "z"):
        case _Frozen(2, b):
            return x
        case _Frozen(1, b):
            return x * 2, b


class _Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    @property
    def shout(self):
        return self.name + "!"

    @classmethod
    def first(cls):
        return cls.RED


class _Level(enum.IntEnum):
    LOW = enum.auto()
    HIGH = enum.auto()


class _Perm(enum.Flag):
    R = enum.auto()
    W = enum.auto()
    X = enum.auto()
    RW = R | W


class _Name(enum.StrEnum):
    A = enum.auto()
    B = "bee"


@program
def enum_members(x):
    return (
        x, _Color.RED.shout, _Color.CRIMSON is _Color.RED, _Color(2).name, _Color["GREEN"].value, [c.name for c in _Color], len(_Color),
        list(_Color.__members__), _Color.RED in _Color, _Color.first(), repr(_Color.RED), str(_Color.GREEN), isinstance(_Color.RED, _Color),
        {_Color.RED: 1}[_Color(1)], _Color.RED == _Color.GREEN, _Color.RED.__class__ is _Color,
    )  # fmt: skip


@program
def enum_errors(x):
    out = []
    for f in (lambda: _Color(9), lambda: _Color["NO"], lambda: _Color.NO):
        try:
            f()
        except (ValueError, KeyError, AttributeError) as e:
            out.append((type(e).__name__, str(e)))
    return x, out


@program
def enum_numbers(x):
    return (
        x * _Level.HIGH, _Level.LOW < _Level.HIGH, _Level.HIGH + 1, sorted([_Level.HIGH, _Level.LOW])[0].name, [1, 2, 3][_Level.LOW],
        _Level(2), max(_Level).name, f"{_Level.LOW}", _Name.A + "!", _Name.B.upper(), _Name("bee").name, [*range(_Level.HIGH)],
    )  # fmt: skip


@program
def enum_flags(x):
    rw = _Perm.R | _Perm.W
    return (
        x, rw is _Perm.RW, _Perm.R in rw, _Perm.X in rw, (rw & _Perm.R).name, bool(_Perm.R & _Perm.X), (rw ^ _Perm.R).name, (~_Perm.R).value,
        [p.name for p in rw], len(rw), _Perm(5).value, rw.value,
    )  # fmt: skip


class _Bits(enum.IntFlag):
    A = 1
    B = 2


@program
def numbers_of_classes_of_their_own(x):
    both = _Bits.A | _Bits.B
    return x * both + _Bits.B, x.sum(dim=_Level.LOW - 1), both.name


class _Held:
    def __init__(self, v):
        self.v = v

    def f(self):
        return self.v


_HELD = _Held(5)
_REF = weakref.ref(_HELD)
_PROXY = weakref.proxy(_HELD)
_BY_VALUE = weakref.WeakValueDictionary({"k": _HELD})
_BY_KEY = weakref.WeakKeyDictionary({_HELD: "found"})


@program
def weak_references(x):
    return x * _REF().v, _REF() is _HELD, _PROXY.v, _PROXY.f()


@program
def break_at_weak_mappings(x):
    return x, _BY_VALUE["k"].v, _BY_KEY[_HELD], "no" in _BY_VALUE, _BY_KEY.get(_HELD), len(_BY_VALUE)


class _Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @property
    @abc.abstractmethod
    def name(self): ...

    def twice(self):
        return self.area() * 2


class _Square(_Shape):
    def __init__(self, s):
        self.s = s

    def area(self):
        return self.s * self.s

    @property
    def name(self):
        return "square"


@program
def abstract_classes(x):
    s = _Square(x)
    out = []
    try:
        _Shape()
    except TypeError as e:
        out.append(str(e))
    return s.twice(), s.name, isinstance(s, _Shape), out


class _Seq(collections.abc.Sequence):
    def __init__(self, *items):
        self.items = items

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)


class _Map(collections.abc.MutableMapping):
    def __init__(self):
        self.d = {}

    def __getitem__(self, k):
        return self.d[k]

    def __setitem__(self, k, v):
        self.d[k] = v

    def __delitem__(self, k):
        del self.d[k]

    def __iter__(self):
        return iter(self.d)

    def __len__(self):
        return len(self.d)


@program
def abstract_collections(x):
    s, m = _Seq(1, 2, 2), _Map()
    m["a"] = x
    m.update(b=2, c=3)
    return (
        list(s), 2 in s, s.count(2), s.index(2), list(reversed(s)), m.pop("a"), m.setdefault("z", 9), sorted(m.items()), m.get("no", 0),
        "b" in m, dict(m), m.popitem()[0], len(m), m == {"c": 3, "z": 9}, isinstance(m, collections.abc.Mapping), [*m.keys()],
    )  # fmt: skip


class _Box:
    def __init__(self, item):
        self.item = item

    def map(self, f):
        return _Box(f(self.item))


UserId = typing.NewType("UserId", int)


class _Pair(typing.NamedTuple):
    left: int
    right: str = "r"


class _Options(typing.TypedDict, total=False):
    width: int


class _Sized(typing.Protocol):
    def size_of(self) -> int: ...


@program
def typing_forms(x):
    b = _Box(3).map(lambda v: x * v)
    o: _Options = _Options(width=2)
    p = _Pair(1)
    return (
        b.item, UserId(5), typing.cast(int, "s"), p, p.right, p._replace(left=2), p._asdict(), o, typing.get_origin(list[int]),
        typing.get_args(dict[str, int]), list[int](range(2)), list[int].__args__,
    )  # fmt: skip


@program
def inspected(x):
    def f(a, b=2, *args, c, d=4, **kw):
        return a

    sig = inspect.signature(f)
    return (
        x, str(sig), list(sig.parameters), sig.parameters["b"].default, inspect.isfunction(f), inspect.isclass(_Box), inspect.ismethod(_Square(1).area),
        inspect.isgeneratorfunction(f), inspect.isbuiltin(len), inspect.ismodule(inspect), inspect.getdoc(_Box.map),
    )  # fmt: skip


@program
def signature_bound(x):
    def f(a, b=2, *, c=3):
        return a

    bound = inspect.signature(f).bind(x, c=5)
    bound.apply_defaults()
    return list(bound.arguments), bound.args[1], bound.kwargs


@program
def types_module(x):
    n = types.SimpleNamespace(a=1, t=x)
    n.b = 2
    view = types.MappingProxyType({"k": 1})
    m = types.MethodType(lambda self, k: self.a + k, n)
    return (
        n.t,
        n.a + n.b,
        view["k"],
        dict(view),
        m(5),
        isinstance(len, types.BuiltinFunctionType),
        isinstance(n, types.SimpleNamespace),
        "k" in view,
    )


class CallsItself:
    pass


CallsItself.__call__ = CallsItself()


@program
def an_object_that_is_its_own_call_breaks(x):
    try:
        CallsItself()()
    except RecursionError:
        return x + 1


@program
def made_wrongly_breaks(x):
    seen = []
    for made in (object.__new__, lambda: super(int), lambda: types.ModuleType.__new__(types.ModuleType).missing):
        try:
            seen.append(type(made()))
        except (TypeError, AttributeError) as error:
            seen.append(str(error))
    return seen, x + 1


class Counted:
    def __init__(self):
        self.asked = 0

    def __get__(self, owner, cls=None):
        self.asked += 1
        return lambda *args: iter([])


COUNTED = Counted()


class Reversible:
    __reversed__ = __iter__ = COUNTED


@program
def methods_asked_of_descriptors_once(x):
    before = COUNTED.asked
    made = Reversible()
    list(made)
    reversed(made)
    return COUNTED.asked - before, x + 1


class Plain:
    pass


class TakesByInit:
    def __init__(self, *args):
        object.__init__(self, *args[1:])


class TakesByNew:
    def __new__(cls, *args):
        return object.__new__(cls, *args[1:])


@program
def arguments_that_object_refuses(x):
    seen = []
    for make in (
        lambda: object.__new__(Plain, 5),
        lambda: object.__init__(Plain(), 5),
        lambda: Plain(1),
        lambda: TakesByInit(1),
        lambda: TakesByInit(1, 2),
        lambda: object.__new__(TakesByInit, 5),
        lambda: TakesByNew(1),
        lambda: TakesByNew(1, 2),
        lambda: object.__init__(TakesByNew(1), 5),
    ):
        try:
            seen.append(type(make()).__name__)
        except TypeError as error:
            seen.append(str(error))
    return seen, x + 1


class Pretends:
    def __init__(self, inner):
        self._inner = inner

    def __getattribute__(self, name):
        return object.__getattribute__(self, name) if name == "_inner" else getattr(self._inner, name)


@program
def classes_claimed_break(x):
    return isinstance(Pretends([]), list), isinstance(Pretends([]), collections.abc.Sized), x + 1


class OnlySets:
    def __set__(self, owner, value):
        pass


class OfMeta(type):
    pass


class ReadPastMeta(metaclass=OfMeta):
    own = 42


OfMeta.own = OnlySets()
NAMELESS = types.ModuleType("nameless")


class OtherModule(types.ModuleType):
    extra = 1


@program
def a_metaclass_that_only_sets(x):
    return ReadPastMeta.own, x + 1


@program
def class_of_a_module_breaks(x):
    seen = [hasattr(NAMELESS, "extra")]
    NAMELESS.__class__ = OtherModule
    seen.append((hasattr(NAMELESS, "extra"), "__class__" in vars(NAMELESS)))
    NAMELESS.__class__ = types.ModuleType
    return seen, x + 1


class IteratesItself(collections.abc.Iterator):
    def __next__(self):
        raise StopIteration


@program
def an_iterator_is_itself(x):
    made = IteratesItself()
    return iter(made) is made, made is iter(made), x + 1


class TellsNoWayToCopy:
    def __getattribute__(self, name):
        if name.startswith("__reduce"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)


@program
def copies_refused_break(x):
    seen = []
    for way in (copy.copy, copy.deepcopy):
        try:
            seen.append(way(TellsNoWayToCopy()))
        except copy.Error as error:
            seen.append(type(error))
    return seen, x + 1
