"""`dataclass`: the standard library's, of which no more is compiled than is used.

Flows in: a class of annotated fields. Flows out: the class with `__init__`, `__repr__`, `__eq__` and `__hash__`, frozen or not, as
`dataclasses.dataclass` makes it; `fields`, `replace` and `asdict` know it. The standard one compiles five functions a class when it is
imported: of the two hundred in these packages that was two fifths of the time that `import` took, and the rest of its work another tenth.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import reprlib
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, init=True, frozen=False, eq=True, slots=False):
        """Make `cls` a dataclass, or give the decorator that does. The arguments are the standard library's."""
        decorate = functools.partial(_made, init=init, frozen=frozen, eq=eq, slots=slots)
        return decorate if cls is None else decorate(cls)


def fields_of(cls: type) -> Mapping[str, dataclasses.Field[Any]]:
    """The fields of a class of `dataclass`, by name: without what `dataclasses.fields` would make first."""
    found: Mapping[str, dataclasses.Field[Any]] = getattr(cls, _FIELDS)
    return found


def _made(cls: type, init: bool, frozen: bool, eq: bool, slots: bool) -> type:
    every = _collected(cls)
    made: Any = _with_slots(cls, every) if slots else cls
    own = made.__dict__
    standard = _Standard(every, frozen)
    added: dict[str, Any] = {
        _FIELDS: every,
        **{name: _Asked(standard, name) for name in _ASKED},
        "__match_args__": tuple(each.name for each in every.values() if each.init and not each.kw_only),
    }
    if init and "__init__" not in own:
        _check_order(every)
        added["__init__"] = _Init(made, frozen, slots)
    if "__repr__" not in own:
        added["__repr__"] = _representation([each.name for each in every.values() if each.repr])
    if eq:
        same = [each.name for each in every.values() if each.compare]
        if "__eq__" not in own:
            added["__eq__"] = _equality(same)
        if "__hash__" not in own or own["__hash__"] is None:
            hashed = [each.name for each in every.values() if (each.compare if each.hash is None else each.hash)]
            added["__hash__"] = _hash(hashed) if frozen else None
    if frozen:
        names = frozenset(every)
        added |= {"__setattr__": _refusing(made, names, "assign to"), "__delattr__": _refusing(made, names, "delete")}
        if slots:
            state = _state(list(every))
            added |= {name: function for name, function in state.items() if name not in own}
    for name, value in added.items():
        if isinstance(value, FunctionType):
            value.__name__, value.__qualname__, value.__module__ = name, f"{made.__qualname__}.{name}", made.__module__
        setattr(made, name, value)
    kind: type = made
    return kind


def _collected(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """The class's fields after those that it inherits; in their places it is left with the defaults."""
    every: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        own = base.__dict__.get(_FIELDS)
        if own is None and "__dataclass_fields__" in base.__dict__:
            own = {each.name: each for each in dataclasses.fields(base)}
        every |= own or {}
    for name, kind in inspect.get_annotations(cls).items():
        words = "KW_ONLY" if kind is dataclasses.KW_ONLY else kind if isinstance(kind, str) else str(kind)
        word = words.partition("[")[0].strip().rpartition(".")[2]
        if word == "ClassVar":
            continue
        if word in ("InitVar", "KW_ONLY"):
            raise TypeError(f"{cls.__name__}.{name} is {words}, which only the standard library's dataclasses take")
        every[name] = _field(cls, name, kind)
    return every


def _field(cls: Any, name: str, kind: Any) -> dataclasses.Field[Any]:
    default: Any = getattr(cls, name, dataclasses.MISSING)  # of a base, too
    if isinstance(default, MemberDescriptorType):  # the slot of a base
        default = dataclasses.MISSING
    if isinstance(default, dataclasses.Field):
        each = default
        if each.default is dataclasses.MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, each.default)
    else:
        each = dataclasses.field(default=default)
    if each.default.__class__.__hash__ is None:
        raise ValueError(f"mutable default {type(each.default)} for field {name} is not allowed: use default_factory")
    each.name, each.type = name, kind
    if each.kw_only is dataclasses.MISSING:
        each.kw_only = False
    return each


def _check_order(every: Mapping[str, dataclasses.Field[Any]]) -> None:
    """Said with the class: its `__init__` is written at the first call only."""
    given = False
    for each in every.values():
        if each.init and not each.kw_only:
            has = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
            if given and not has:
                raise TypeError(f"non-default argument {each.name!r} follows default argument")
            given = has


def _with_slots(cls: type, every: Mapping[str, Any]) -> type:
    """The class again: what it has slots for is said as it is made."""
    inherited = {name for base in cls.__mro__[1:] for name in _slots_of(base)}
    members = {name: value for name, value in cls.__dict__.items() if name not in every and name not in _BY_INSTANCE}
    members["__slots__"] = tuple(name for name in every if name not in inherited)
    made = type(cls)(cls.__name__, cls.__bases__, members)
    made.__qualname__ = cls.__qualname__
    return made


_BY_INSTANCE = ("__dict__", "__weakref__")


def _slots_of(base: type) -> tuple[str, ...]:
    slots = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


_FIELDS = "_fields_of_record"
"""Where a class has its fields by name, inherited ones too."""
_ASKED = ("__dataclass_fields__", "__dataclass_params__")
"""Where the standard library has them: `fields`, `replace`, `asdict`, and classes of its own that inherit from one of ours."""


class _Standard:
    """What the standard library makes of the same fields, once it asks."""

    def __init__(self, every: Mapping[str, dataclasses.Field[Any]], frozen: bool) -> None:
        self._every, self._frozen = every, frozen

    @functools.cached_property
    def made(self) -> Any:
        kinds = {name: each.type for name, each in self._every.items()}
        members = {
            "__doc__": "Without words the library makes some of the signature.",
            "__annotations__": kinds,
            **self._every,
        }
        decorate = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=self._frozen)
        return decorate(type("Standard", (), members))


class _Asked:
    """Stands for what the standard library keeps in a class."""

    def __init__(self, standard: _Standard, name: str) -> None:
        self._standard, self._name = standard, name

    def __get__(self, instance: object, owner: type) -> Any:
        return getattr(self._standard.made, self._name)


class _Init:
    """Stands for `__init__` until somebody asks for it, and is replaced by it then."""

    def __init__(self, cls: Any, frozen: bool, slots: bool) -> None:
        self._cls, self._frozen, self._slots = cls, frozen, slots

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        function = _written(self._cls, self._frozen, self._slots)
        self._cls.__init__ = function
        return function.__get__(instance, owner)


class _Ungiven:
    """What stands in a signature for a default that is made anew each time."""

    def __repr__(self) -> str:
        return "<factory>"


def _written(cls: Any, frozen: bool, slots: bool) -> Any:
    """The class's `__init__`: that of classes of its form, with its own names."""
    every = fields_of(cls)
    forms: list[_Form] = []
    values: dict[str, Any] = {"_set": object.__setattr__, "_ungiven": _Ungiven()}
    by_place: dict[str, Any] = {}
    by_name: dict[str, Any] = {}
    for place, (name, each) in enumerate(every.items()):
        default: Any = each.default
        if each.default_factory is not dataclasses.MISSING:
            values[f"_new{place}"], default = each.default_factory, values["_ungiven"]
        else:
            values[f"_default{place}"] = default  # which of a field that nobody gives is gone from a class with slots
        if each.init and default is not dataclasses.MISSING:
            (by_name if each.kw_only else by_place)[name] = default
        forms.append(_Form.of(each, slots))
    code = _init_code(tuple(forms), frozen, hasattr(cls, "__post_init__"))
    own = {f"_{place}": name for place, name in enumerate(every)}
    code = code.replace(
        co_varnames=tuple(own.get(name, name) for name in code.co_varnames),
        co_names=tuple(own.get(name, name) for name in code.co_names),
        co_consts=tuple(own.get(value, value) if type(value) is str else value for value in code.co_consts),
        co_qualname=f"{cls.__qualname__}.__init__",
    )
    # As the class's own code: whoever asks where it comes from finds its module.
    module = {"__name__": cls.__module__, "__builtins__": __builtins__}
    closure = tuple(CellType(values[name]) for name in code.co_freevars)
    function = FunctionType(code, module, "__init__", tuple(by_place.values()) or None, closure)
    function.__kwdefaults__ = by_name or None
    function.__annotations__ = {name: each.type for name, each in every.items() if each.init} | {"return": None}
    return function


class _Form(NamedTuple):
    """What of a field its place in an `__init__` depends on."""

    given: bool
    by_name: bool
    made: bool
    has_default: bool

    @classmethod
    def of(cls, each: dataclasses.Field[Any], slots: bool) -> _Form:
        """`slots`: a default that the class has is to be set."""
        made = each.default_factory is not dataclasses.MISSING
        return cls(each.init, bool(each.kw_only), made, slots and each.default is not dataclasses.MISSING)


@functools.cache
def _init_code(forms: tuple[_Form, ...], frozen: bool, goes_on: bool) -> CodeType:
    """Of fields that are called by their places, with what else it takes from around it. Classes have few forms: each is compiled once.

    Args:
        goes_on: by `__post_init__`.
    """
    body, around = [], ["_set", "_ungiven"]
    for place, each in enumerate(forms):
        name = value = f"_{place}"
        if each.made:
            around.append(f"_new{place}")
            value = f"_new{place}() if {name} is _ungiven else {name}" if each.given else f"_new{place}()"
        elif not each.given:
            if not each.has_default:
                continue
            around.append(f"_default{place}")
            value = f"_default{place}"
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if goes_on:
        body.append("self.__post_init__()")
    by_place, by_name = (
        [f"_{at}" for at, each in enumerate(forms) if each.given and each.by_name is kind] for kind in (False, True)
    )
    given = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    lines = "\n  ".join(body or ["pass"])
    text = f"def make({', '.join(around)}):\n def __init__({given}):\n  {lines}\n return __init__"
    module: dict[str, Any] = {}
    exec(text, module)
    code: CodeType = module["make"](*around).__code__
    return code


def _values(names: list[str]) -> Callable[[Any], Any]:
    """What gives the values of these attributes in a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    if not names:
        return lambda self: ()
    get = operator.attrgetter(*names)
    return lambda self: (get(self),)


def _equality(names: list[str]) -> Callable[[Any, Any], Any]:
    get = _values(names)

    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return get(self) == get(other)
        return NotImplemented

    return __eq__


def _hash(names: list[str]) -> Callable[[Any], int]:
    get = _values(names)

    def __hash__(self: Any) -> int:
        return hash(get(self))

    return __hash__


def _representation(names: list[str]) -> Callable[[Any], str]:
    @reprlib.recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refusing(cls: type, names: frozenset[str], what: str) -> Any:
    """`__setattr__` or `__delattr__` of a frozen class: subclasses that are not frozen may have attributes of their own."""

    def refuse(self: Any, name: str, *value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
        inherited: Any = super(cls, self)
        (inherited.__setattr__ if value else inherited.__delattr__)(name, *value)

    return refuse


def _state(names: list[str]) -> dict[str, Callable[..., Any]]:
    """How copies and pickles of frozen classes with slots are made, past `__setattr__`."""

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}
