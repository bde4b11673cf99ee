"""Examples about attributes, slots and names."""

ATTRIBUTES = {
    "submodule hidden by the instance's dictionary": (
        """
net = nn.Module()
net.first = Scale()
def f(x):
    net.first.act = use(x, 2).detach()
    return x
""",
        ("call(f, torch.ones(3))", "net.__dict__['first'] = double", "call(f, torch.ones(3))"),
    ),
    "name that __getattr__ gave is set": (
        """
class Dynamic:
    def __getattr__(self, name):
        return 5
held = Dynamic()
def f(x):
    return x * held.other
""",
        ("call(f, torch.ones(3))", "held.other = 3", "call(f, torch.ones(3))"),
    ),
    "attribute deleted by the program is gone already": (
        """
box = Box(3)
def f(x):
    try:
        del box.v
    except AttributeError as error:
        return str(error)
    return x + 1
""",
        ("call(f, torch.ones(3))", "call(f, torch.ones(3))", "box.v = 2", "call(f, torch.ones(3))"),
    ),
    "attribute that is only overwritten by its deletion is gone": (
        """
held = space(v=1)
def f(x):
    try:
        held.v
    except AttributeError as error:
        return str(error)
    return x + 1
""",
        ("call(f, torch.ones(3))", "del held.v", "call(f, torch.ones(3))"),
    ),
    "property without a name and without a setter": (
        """
box = Box(2)
class Outer:
    class Inner:
        p = property(lambda self: 1)
def f(x):
    out = []
    for held in box, Outer.Inner():
        try:
            held.v = 3
            held.p = 3
        except AttributeError as error:
            out.append(str(error))
    return x + 1, out
""",
        ("call(f, torch.ones(3))", "Box.v = property(lambda self: 'a')", "call(f, torch.ones(3))"),
    ),
    "super() of what is no instance any more": (
        """
class Base:
    def scale(self, x):
        return x * 2
class Left(Base):
    pass
class Right(Base):
    pass
class Leaf(Left):
    pass
leaf = Leaf()
def f(x):
    try:
        x = super(Left, leaf).scale(x)
    except TypeError as error:
        return x, str(error)
    return x
""",
        ("call(f, torch.ones(3))", "Leaf.__bases__ = (Right,)", "call(f, torch.ones(3))"),
    ),
    "plain attribute that becomes a parameter": (
        """
layer, other = Scale(), Scale()
def f(x):
    try:
        layer.k = torch.ones(3)
        other.k = 3
        del other.k
    except (TypeError, AttributeError) as error:
        return x, str(error)
    return x + layer.k
""",
        (
            "call(f, torch.ones(3))",
            "layer.k = nn.Parameter(torch.ones(3))",
            "call(f, torch.ones(3))",
            "layer.k = None; layer._buffers['k'] = layer._parameters.pop('k')",
            "call(f, torch.ones(3))",
            "other.k = nn.Parameter(torch.ones(3))",
            "call(f, torch.ones(3))",
        ),
    ),
    "what a subclass gives for missing keys": (
        """
class Own(dict):
    def __missing__(self, key):
        return 7
held = Own(a=2)
def f(x):
    out = []
    for each in held, collections.Counter('aab'):
        try:
            out.append(each['b'] + each['c'])
        except KeyError as error:
            out.append(str(error))
    return x + 1, out
""",
        (
            "call(f, torch.ones(3))",
            "held['b'] = 3",
            "call(f, torch.ones(3))",
            "Own.__missing__ = lambda self, key: 9",
            "call(f, torch.ones(3))",
            "del Own.__missing__",
            "call(f, torch.ones(3))",
        ),
    ),
    "global written through the module's dictionary": (
        """
factor = 5
def first(x):
    return x * factor
def f(x):
    globals()['factor'] = 2
    return first(x)
def g(x):
    global factor
    own = globals()
    factor = 3
    return x * own['factor']
""",
        ("call(f, torch.ones(3))", "call(f, torch.ones(3))", "call(g, torch.ones(3))"),
    ),
    "method written in C that is read from another class": (
        """
class Right:
    r = torch.Tensor.cos
    act = torch.relu
right = Right()
def f(x):
    x = right.act(x)
    try:
        return x, right.r
    except TypeError as error:
        return x, str(error)
""",
        ("call(f, torch.ones(3))",),
    ),
    "descriptor that sets and does not delete": (
        """
class Setting:
    def __set__(self, instance, value):
        LOG.append(value)
class Deleting:
    def __delete__(self, instance):
        LOG.append('deleted')
class Described:
    setting = Setting()
    deleting = Deleting()
described = Described()
def f(x):
    out = []
    try:
        del described.setting
    except AttributeError as error:
        out.append(str(error))
    try:
        described.deleting = 3
    except AttributeError as error:
        out.append(str(error))
    del described.deleting
    described.setting = 4
    return x + 1, out
""",
        ("call(f, torch.ones(3))",),
    ),
    "attribute of a partial application": (
        """
held = functools.partial(tripled, k=2)
def f(x):
    return x * getattr(held, 'k', 5), functools.partial(held, plus=1).func is held
""",
        ("call(f, torch.ones(3))", "held.k = 3", "call(f, torch.ones(3))", "del held.k", "call(f, torch.ones(3))"),
    ),
    "method written in C that the instance hides": (
        """
class Base:
    k = torch.Tensor.cos
class Own(dict):
    pass
leaf, own = Base(), Own(a=1)
def f(x):
    try:
        x = leaf.k(x)
    except TypeError as error:
        x = x + len(str(error))
    return x * len(list(own.keys()))
""",
        (
            "call(f, torch.ones(3))",
            "leaf.k = double",
            "call(f, torch.ones(3))",
            "own.keys = lambda: [1, 2]",
            "call(f, torch.ones(3))",
        ),
    ),
    "slot that is filled, and emptied": (
        """
class Holding:
    __slots__ = ('v', 'w')
held = Holding()
held.v = [3]
def f(x):
    kept = None
    try:
        kept = held.v
    except AttributeError as error:
        x = x + len(str(error))
    outside(x)
    return x * (2 if hasattr(held, 'w') else 3), kept
""",
        ("call(f, torch.ones(3))", "held.w = 1", "call(f, torch.ones(3))", "del held.v", "call(f, torch.ones(3))"),
    ),
    "attribute that is set and deleted was there, and is not": (
        """
box = Box(1)
def f(x):
    box.v = 2
    del box.v
    return x + 1
""",
        ("call(f, torch.ones(3))", "call(f, torch.ones(3))"),
    ),
    "copy of an object that answers to any name": (
        """
box = Box(1)
def f(x):
    try:
        return x * copy.copy(box).v
    except TypeError as error:
        return x + 1, str(error)
""",
        ("call(f, torch.ones(3))", "Box.__getattr__ = lambda self, name: 3", "call(f, torch.ones(3))"),
    ),
    "attributes of an object whose class reads them in its own way": (
        """
box = Box(1)
def f(x):
    outside(x)
    try:
        del box.v
    except AttributeError as error:
        return x, str(error)
    return x + 1
""",
        ("Box.__getattribute__ = lambda self, name: 4", "call(f, torch.ones(3))"),
    ),
    "name that a module of an own class lacks, and gets": (
        """
lib = types.ModuleType('drawn_lib')
lib.__class__ = type('Own', (types.ModuleType,), {'other': 2})
def f(x):
    try:
        return x * lib.scale
    except AttributeError as error:
        return x + 1, str(error)
""",
        (
            "call(f, torch.ones(3))",
            "lib.scale = 3",
            "call(f, torch.ones(3))",
            "del lib.scale",
            "call(f, torch.ones(3))",
        ),
    ),
    "__getattr__ is asked after a failing class attribute": (
        """
class Described:
    @functools.cached_property
    def once(self):
        return self.v
    def __getattr__(self, name):
        raise AttributeError(name)
described = Described()
def f(x):
    try:
        return x * described.once
    except AttributeError as error:
        return x + 1, str(error)
""",
        ("call(f, torch.ones(3))",),
    ),
    "attribute of an ordered dictionary": (
        """
ordered = collections.OrderedDict(a=1)
def f(x):
    outside(x)
    return x + 1, hasattr(ordered, 'k')
""",
        ("call(f, torch.ones(3))", "ordered.k = 3", "call(f, torch.ones(3))"),
    ),
    "method in C of another class, on what is being handled": (
        """
class Failure(ValueError):
    code = 2
def check(v):
    raise Failure(v)
def f(x):
    out = []
    try:
        try:
            check('text')
        except Failure as error:
            x = x + error.code
        finally:
            x = x * 2
    except TypeError as error:
        out.append(str(error))
    return x, out
""",
        ("call(f, torch.ones(3))", "Failure.code = torch.Tensor.cos", "call(f, torch.ones(3))"),
    ),
    "module that lost all its attributes is called": (
        """
lib = types.ModuleType('drawn_lib')
sys.modules['drawn_lib'] = lib
lib.act = nn.ReLU()
def f(x):
    import drawn_lib
    try:
        return use(x, drawn_lib.act)
    except AttributeError as error:
        return x + 1, str(error)
""",
        ("call(f, torch.ones(3))", "lib.act.__dict__ = {'v': 2}", "call(f, torch.ones(3))"),
    ),
    "iterator has no length": (
        """
steps = iter([1, 2, 3])
def f(x):
    x = x + next(steps, 9)
    try:
        return x, len(steps)
    except TypeError as error:
        return x, str(error)
""",
        ("call(f, torch.ones(3))", "call(f, torch.ones(3))"),
    ),
    "read-only view takes no part in what it shows": (
        """
box = Box(2)
def f(x):
    out = []
    try:
        box.v += 2
    except TypeError as error:
        out.append(str(error))
    try:
        {}[box.v]
    except (KeyError, TypeError) as error:
        out.append(str(error))
    return x + 1, out
""",
        ("call(f, torch.ones(3))", "box.v = types.MappingProxyType({'a': 1})", "call(f, torch.ones(3))"),
    ),
    "name that a member of an enumeration is given": (
        """
color = Color.RED
def f(x):
    return x * getattr(color, 'v', 7)
""",
        ("call(f, torch.ones(3))", "color.v = 2", "call(f, torch.ones(3))", "del color.v", "call(f, torch.ones(3))"),
    ),
    "method that a member of an enumeration hides, where no operator looks": (
        """
class Own(enum.Enum):
    A = 1
    def say(self):
        return 2
    def __call__(self, x):
        return x * 3
    def __len__(self):
        return 2
class Number(enum.IntEnum):
    A = 300
own, number = Own.A, Number.A
def f(x):
    return own(x) + own.say() + len(own), number.bit_length(), number.to_bytes(length=4, byteorder='big')
""",
        (
            "call(f, torch.ones(3))",
            "own.say = lambda: 5",
            "call(f, torch.ones(3))",
            "own.__call__ = own.__len__ = number.bit_length = lambda *args: 9",
            "call(f, torch.ones(3))",
            "del own.say, number.bit_length",
            "call(f, torch.ones(3))",
        ),
    ),
    "function that remembers gets attributes, and other names": (
        """
@functools.lru_cache(None)
def cached(n):
    return n + 1
def f(x):
    return x * getattr(cached, 'v', 3), cached.__name__, cached.__doc__, cached.__module__, cached.__wrapped__
""",
        (
            "call(f, torch.ones(3))",
            "cached.v = 5",
            "call(f, torch.ones(3))",
            "del cached.v",
            "cached.__name__, cached.__doc__ = 'other', 'words'",
            "call(f, torch.ones(3))",
            "cached.__module__, cached.__wrapped__ = 'elsewhere', double",
            "call(f, torch.ones(3))",
        ),
    ),
    "operator that gets an attribute": (
        """
relu, add = torch.ops.aten.relu, torch.ops.aten.add
def f(x):
    return add.Tensor(relu.default(x), x), hasattr(add, 'v'), getattr(relu.default, 'v', 3), add.Tensor.__name__
""",
        (
            "call(f, torch.ones(3))",
            "relu.default.v = 4",
            "call(f, torch.ones(3))",
            "del relu.default.v",
            "call(f, torch.ones(3))",
            "add.v, kept, add.Tensor = 4, add.Tensor, torch.mul",
            "call(f, torch.ones(3))",
            "add.Tensor = kept; del add.v",
            "call(f, torch.ones(3))",
        ),
    ),
    "field of a named tuple that its class has something else for": (
        """
pair, split = Pair(2, 1), 'ab'.split
def f(x):
    out = [pair.v, pair.w, getattr(pair, 'u', 3), pair._fields, pair.count(2), split.__module__, split.__name__]
    try:
        pair.v = 3
    except AttributeError as error:
        out.append(str(error))
    match pair:
        case Pair(v, w):
            out += [v, w]
    return x + 1, out
""",
        (
            "call(f, torch.ones(3))",
            "Pair.v = 11; Pair.u = 12; split.__module__ = 'elsewhere'",
            "call(f, torch.ones(3))",
            "del pair; pair = Pair(3, 4); Pair._fields = ('w', 'v')",
            "call(f, torch.ones(3))",
            "Pair.v, Pair.w = Pair.w, 5",
            "call(f, torch.ones(3))",
        ),
    ),
}
