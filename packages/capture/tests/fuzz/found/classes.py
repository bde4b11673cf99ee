"""Examples about classes, patterns, enumerations and modules."""

CLASSES = {
    "what is looked for and not there": (
        """
held = [1, 2]
queue = collections.deque([1])
def f(x):
    out = []
    for look in lambda: held.index('b'), lambda: queue.index(3), lambda: queue.remove(3), lambda: held.remove(3), lambda: (1,).index(3):
        try:
            look()
        except ValueError as error:
            out.append(str(error))
    return x + 1, out
""",
        ("call(f, torch.ones(3))",),
    ),
    "class pattern over what is not there, or claims to be": (
        """
class Claims(type):
    def __instancecheck__(cls, other):
        return True
class Any(metaclass=Claims):
    __match_args__ = ('v',)
box = Box(2)
def f(x):
    out = []
    for held in box, Box('a'):
        try:
            match held:
                case Box(v=int()):
                    x = x + 10
                case Any(v):
                    out.append(v)
                case _:
                    x = x - 10
        except AttributeError as error:
            out.append(str(error))
    return x, out
""",
        (
            "call(f, torch.ones(3))",
            "del box.v",
            "call(f, torch.ones(3))",
            "box.v = 'b'",
            "call(f, torch.ones(3))",
            "Any.__match_args__ = ('get',)",
            "call(f, torch.ones(3))",
        ),
    ),
    "import of what a module does not have": (
        """
sys.modules['drawn_lib'] = space(act=double)
sys.modules['drawn_lib.sub'] = space()
def f(x):
    out = []
    try:
        import drawn_lib.sub as sub
        out.append(type(sub).__name__)
    except (AttributeError, ImportError) as error:
        out.append(type(error).__name__)
    try:
        from drawn_lib import other
    except ImportError as error:
        out.append(type(error).__name__)
    return x + 1, out
""",
        ("call(f, torch.ones(3))", "del sys.modules['drawn_lib.sub']", "call(f, torch.ones(3))"),
    ),
    "patterns ask a class whether it is a sequence": (
        """
held = memoryview(b'ab')
def f(x):
    match held:
        case [v, *_]:
            return x + v
        case _:
            return x * 3
""",
        ("call(f, torch.ones(3))",),
    ),
    "enumeration member that is given another class": (
        """
color = Color.RED
def f(x):
    try:
        return x * len(color.name)
    except AttributeError as error:
        return x + 1, str(error)
""",
        ("call(f, torch.ones(3))", "color.__class__ = Other", "call(f, torch.ones(3))"),
    ),
    "enumeration whose members become callable": (
        """
held = (Color.RED, Color.GREEN)
def f(x):
    return x * (2 if callable(held[0]) else 3), '{!r:.4}'.format(held[1])
""",
        (
            "call(f, torch.ones(3))",
            "Color.__call__ = lambda self, x: x",
            "call(f, torch.ones(3))",
            "Color.GREEN.__class__ = Other",
            "call(f, torch.ones(3))",
        ),
    ),
    "member of an enumeration that lost its name": (
        """
color = Color.RED
def f(x):
    try:
        return x + 1, '{!r:.3}'.format(color)
    except AttributeError as error:
        return x + 2, str(error)
""",
        ("call(f, torch.ones(3))", "color.__dict__ = {'v': 3}", "call(f, torch.ones(3))"),
    ),
    "what an enumeration has beside its members": (
        """
Color.DEFAULT = Color.RED
def f(x):
    return x * getattr(Color, 'DEFAULT', Color.GREEN).value, Color.RED, getattr(Color, 'LAST', 7)
""",
        (
            "call(f, torch.ones(3))",
            "Color.DEFAULT = Color.GREEN",
            "call(f, torch.ones(3))",
            "del Color.DEFAULT",
            "call(f, torch.ones(3))",
            "Color.LAST = 5",
            "call(f, torch.ones(3))",
            "type.__setattr__(Color, 'RED', Color.GREEN)",
            "call(f, torch.ones(3))",
        ),
    ),
    "enumeration that gets more members": (
        """
class Given(enum.Enum):
    A = 1
    B = 2
def f(x):
    out = [list(Given), len(Given), list(reversed(Given)), Given['B'], Given(1), Given.A in Given, dict(Given.__members__), bool(Given)]
    for look in lambda: Given['C'], lambda: Given(9), lambda: Given(value=9), lambda: Given.C, lambda: Given.value:
        try:
            out.append(look())
        except (AttributeError, KeyError, ValueError) as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out
""",
        (
            "call(f, torch.ones(3))",
            "call(f, torch.ones(3))",
            "Given._member_names_.append('C'); Given._member_map_['C'] = Given.A",
            "call(f, torch.ones(3))",
            "Given._value2member_map_[9] = Given.B",
            "call(f, torch.ones(3))",
            "Given._value2member_map_[1] = Given.B",
            "call(f, torch.ones(3))",
            "type.__setattr__(Given, 'C', Given.B)",
            "call(f, torch.ones(3))",
        ),
    ),
    "arguments of an alias of a class": (
        """
from typing import Generic, TypeVar
T = TypeVar('T')
class Held(Generic[T]):
    pass
class Inner(Held):
    pass
alias = Held[int]
def f(x):
    made = alias()
    return x + len(alias.__args__), alias.__origin__, type(made), made.__orig_class__ is alias
""",
        (
            "call(f, torch.ones(3))",
            "alias.__args__ = (int, float)",
            "call(f, torch.ones(3))",
            "alias.__origin__ = Inner",
            "call(f, torch.ones(3))",
        ),
    ),
    "member of an enumeration that gets another value, or loses it": (
        """
class Flags(enum.Flag):
    A = 1
    B = 2
class Number(enum.IntEnum):
    ZERO = 0
flag, number, color = Flags.A, Number.ZERO, Color.RED
def f(x):
    out = []
    for ask in (lambda: bool(flag), lambda: not number, lambda: bool(color), lambda: Flags.B in flag, lambda: list(flag), lambda: {flag: 1, color: 3}[flag]):
        try:
            out.append(ask())
        except AttributeError as error:
            out.append(str(error))
    return x + 1, out
""",
        (
            "call(f, torch.ones(3))",
            "flag._value_ = 3",
            "call(f, torch.ones(3))",
            "flag._value_, number._value_ = 0, 1",
            "call(f, torch.ones(3))",
            "del flag._value_",
            "call(f, torch.ones(3))",
            "flag._value_ = 1; color._name_ = 'other'",
            "call(f, torch.ones(3))",
            "del color._name_",
            "call(f, torch.ones(3))",
        ),
    ),
    "reversed asks a class with items for its length": (
        """
class Rows:
    def __len__(self):
        return 2
    def __getitem__(self, key):
        return [3, 4][key]
class Bare:
    pass
made = [Rows(), Bare()]
def f(x):
    out = []
    for each in made:
        try:
            out.append(list(reversed(each)))
        except TypeError as error:
            out.append(str(error))
    return x + 1, out
""",
        (
            "call(f, torch.ones(3))",
            "length = Rows.__len__; del Rows.__len__",
            "call(f, torch.ones(3))",
            "Rows.__len__ = length",
            "call(f, torch.ones(3))",
            "Bare.__getitem__ = Rows.__getitem__",
            "call(f, torch.ones(3))",
            "del Rows.__getitem__",
            "call(f, torch.ones(3))",
            "Rows.__reversed__ = lambda self: iter([5])",
            "call(f, torch.ones(3))",
        ),
    ),
}
