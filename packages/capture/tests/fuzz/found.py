"""Examples that once gave something else, as short as they can be told: a state, and steps that call and change it."""

FOUND = {
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
    "entry that is only passed on is gone": (
        """
table = {'a': [1]}
def f(x):
    try:
        outside(table['a'])
    except KeyError as error:
        return str(error)
    return x + 1
""",
        ("call(f, torch.ones(3))", "del table['a']", "call(f, torch.ones(3))"),
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
    "words of operators": (
        """
box = Box(2)
def f(x):
    out = []
    for change in range(3):
        try:
            if change == 0:
                box.v += 2
            elif change == 1:
                box.v = box.v * 'a'
            else:
                box.v **= 2
        except TypeError as error:
            out.append(str(error))
    return x + 1, out
""",
        (
            "call(f, torch.ones(3))",
            "box.v = double",
            "call(f, torch.ones(3))",
            "box.v = Box()",
            "call(f, torch.ones(3))",
        ),
    ),
    "calls with arguments that are not taken": (
        """
table = {'a': 1}
def f(x):
    out = []
    for call in (lambda: table.get(), lambda: [].append(), lambda: (1,).index(), lambda: weakref.ref(Box)(x),
                 lambda: operator.neg(x, inplace=False), lambda: len(), lambda: {1}.add(1, 2)):
        try:
            call()
        except TypeError as error:
            out.append(str(error))
    return x + 1, out
""",
        ("call(f, torch.ones(3))",),
    ),
    "format that looks into an object": (
        """
layer = nn.Tanh()
def f(x):
    return x + 1, ['{!r:.3}'.format(layer), '{:5}|'.format(2), '{0!r:>10}'.format([1]), '{.training}'.format(layer), '{}'.format((1, 'a'))]
""",
        ("call(f, torch.ones(3))",),
    ),
    "names of classes made in C": (
        """
held = space(v=2)
def f(x):
    out = []
    for get in (lambda: held.other, lambda: collections.OrderedDict().other, lambda: collections.deque().other):
        try:
            get()
        except AttributeError as error:
            out.append(str(error))
    return x + 1, out
""",
        ("call(f, torch.ones(3))",),
    ),
    "iteration of an ordered dictionary that a break cuts short": (
        """
ordered = collections.OrderedDict(a=2, b=3, c=5)
def f(x):
    for key, item in ordered.items():
        outside(x)
        x = use(x, item) * 0.5 + len(key)
    kept = ordered.values()
    outside(x)
    return x, list(kept), type(iter(kept)).__name__
""",
        ("call(f, torch.ones(3))", "ordered.move_to_end('c', last=False)", "call(f, torch.ones(3))"),
    ),
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
    "what was only read before a break dies": (
        """
kept = Box(3)
known = weakref.WeakValueDictionary(a=kept)
def f(x):
    return x + hasattr(kept, 'w')
""",
        (
            "call(f, torch.ones(3))",
            "del kept; gc.collect()",
            "LOG.append(len(known))",
            "kept = Box(2)",
            "call(f, torch.ones(3))",
        ),
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
    "functions called with other arguments than they take": (
        """
class Holder:
    def one(self):
        return 1
def several(a, b, /, c=1, *, d, **rest):
    return a
def f(x):
    out = []
    for call in (lambda: Holder().one(2), lambda: double(), lambda: double(x, x), lambda: several(1), lambda: several(1, 2), lambda: tripled(x, 1, 2),
                 lambda: tripled(x, other=3), lambda: tripled(x, x=3), lambda: several(1, 2, 3, 4, d=5), lambda: Holder.one(), lambda: use(), lambda: (lambda *a, k: a)(1)):
        try:
            call()
        except TypeError as error:
            out.append(str(error))
    return x + 1, out
""",
        ("call(f, torch.ones(3))", "double.__defaults__ = (1,)", "call(f, torch.ones(3))"),
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
    "cell that is only deleted is empty already": (
        """
def made():
    wanted = 2
    def f(x):
        nonlocal wanted
        with torch.no_grad():
            x = x * 2
        try:
            del wanted
        except NameError as error:
            return x, str(error)
        return x
    return f
f = made()
""",
        ("call(f, torch.ones(3))", "call(f, torch.ones(3))"),
    ),
    "cell that is deleted twice": (
        """
def made():
    wanted = 2
    def f(x):
        nonlocal wanted
        del wanted
        try:
            del wanted
        except NameError as error:
            return x + 1, type(error), str(error)
    return f
f = made()
""",
        ("call(f, torch.ones(3))",),
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
    "deque: no slices, a limit, iterators that notice": (
        """
queue = collections.deque([torch.ones(3), nn.ReLU()], maxlen=3)
def f(x):
    out = []
    for item in queue:
        x = use(x, item)
        outside(x)
    def more():
        for item in queue:
            queue.append(3)
    for act in more, lambda: queue[:1], lambda: queue['a'], lambda: queue[10]:
        try:
            out.append(act())
        except (RuntimeError, TypeError, IndexError) as error:
            out.append(str(error))
    out.append(queue == [3, 3, 3])
    queue.rotate(1)
    queue.extendleft([4, 5])
    held = queue
    held += [1]
    out.append((queue.maxlen, queue * 2, queue == collections.deque([5, 3, 1])))
    return x, out
""",
        ("call(f, torch.ones(3))", "call(f, torch.ones(3))"),
    ),
    "iterator over a deque that goes on after a break": (
        """
queue = collections.deque([1, 2, 3])
def f(x):
    items = iter(queue)
    x = x * next(items)
    outside(x)
    return x * next(items), items
""",
        ("call(f, torch.ones(3))",),
    ),
    "words for what cannot be subscripted, unpacked, looked into": (
        """
def unpacked(value):
    a, b = value
def f(x):
    out = []
    for act in lambda: [1]['a'], lambda: (1,)['a'], lambda: unpacked(3), lambda: vars(3):
        try:
            act()
        except TypeError as error:
            out.append(str(error))
    return x + 1, out
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
    "a function's __call__ is not the function": (
        """
def first(x, a=3):
    return x + a
first.tag = 3
entered = first.__call__
def f(x):
    x = first.__call__(entered(x), 2)
    return x, type(entered).__name__, hasattr(entered, 'tag')
""",
        ("call(f, torch.ones(3))",),
    ),
    "a function of another name says that it takes no such argument": (
        """
@functools.wraps(F.relu)
def named(x, a):
    return x
def f(x):
    try:
        return named(x)
    except TypeError as error:
        return x + 1, str(error)
""",
        ("call(f, torch.ones(3))", "named.__qualname__ = 'other'", "call(f, torch.ones(3))"),
    ),
    "attribute of a partial application": (
        """
held = functools.partial(tripled, k=2)
def f(x):
    return x * getattr(held, 'k', 5), functools.partial(held, plus=1).func is held
""",
        ("call(f, torch.ones(3))", "held.k = 3", "call(f, torch.ones(3))", "del held.k", "call(f, torch.ones(3))"),
    ),
    "what a called object held dies with it": (
        """
class Holding:
    def __init__(self):
        self.kept = Box(1)
        self.seen = weakref.ref(self.kept)
    def __call__(self, x):
        return x + 1
f = Holding()
""",
        ("call(f, torch.ones(3))", "f.kept = 3; gc.collect()", "call(f, torch.ones(3))"),
    ),
    "global that is nowhere, and comes": (
        """
lib = types.ModuleType('drawn_lib')
exec('def run(x):\\n    return x * scale', vars(lib))
def f(x):
    try:
        return lib.run(x)
    except NameError as error:
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
    "unpacked dictionary of a class that reads in its own way": (
        """
class Own(dict):
    def __getitem__(self, key):
        return 3
class Listed(dict):
    def __iter__(self):
        return iter(['a'])
    def __getitem__(self, key):
        return 4
own, listed = Own(a=1, b=2), Listed(a=1, b=2)
def f(x):
    return x + sum({**own}.values()), {**listed}, dict(own), dict(listed)
""",
        ("call(f, torch.ones(3))",),
    ),
    "words for what takes no arguments, cannot be reversed, is not ordered": (
        """
def f(x):
    out = []
    for act in lambda: object(3), lambda: reversed({1}), lambda: type(types.SimpleNamespace()).get:
        try:
            act()
        except (TypeError, AttributeError) as error:
            out.append(str(error))
    return x + 1, out
""",
        ("call(f, torch.ones(3))",),
    ),
    "ordered dictionaries compare values in the order they came in": (
        """
ordered = collections.OrderedDict(a=torch.ones(3), b=2)
ordered.move_to_end('a')
def f(x):
    try:
        return x + 1, ordered == collections.OrderedDict(a=1, b=3)
    except RuntimeError as error:
        return x + 2, str(error)
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
    "constant tuple of the code": (
        """
held = [0, 0]
def f(x):
    held[0] = (1, 2)
    return x + 1, held[0]
""",
        ("call(f, torch.ones(3))", "held[1] = held[0]", "call(f, torch.ones(3))"),
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
    "the left operand is asked first": (
        """
box = Box(1)
Box.__eq__ = lambda self, other: True
Level.__eq__ = lambda self, other: False
Level.__hash__ = int.__hash__
level = Level.LOW
def f(x):
    return x + 1, box == level, level == box, box != level
""",
        ("call(f, torch.ones(3))",),
    ),
    "words for what is no iterator, no mapping, an empty slot": (
        """
class Holding:
    __slots__ = ('v',)
held, box = Holding(), Box(1)
def emptied():
    del held.v
def f(x):
    out = []
    for act in lambda: next(box, 9), lambda: {**'a'}, emptied, lambda: functools.reduce(use, 3.0, x):
        try:
            act()
        except (AttributeError, TypeError) as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out
""",
        ("call(f, torch.ones(3))", "held.v = 3", "call(f, torch.ones(3))", "call(f, torch.ones(3))"),
    ),
    "what a kernel refuses is caught by the program": (
        """
def f(x, n):
    out = []
    for act in F.silu, lambda v: F.softmax(v, -1), lambda v: v - True, lambda v: v @ n, lambda v: v.lerp(v, 0.5), F.relu:
        try:
            out.append(act(x))
        except (RuntimeError, NotImplementedError) as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out
""",
        (
            "call(f, torch.ones(3), torch.ones(3).half())",
            "call(f, torch.arange(3), torch.ones(3).half())",
            "call(f, torch.ones(3).bfloat16(), torch.ones(3).bfloat16())",
        ),
    ),
    "call that fails in a loop, within a call of a method": (
        """
@capture.disable
def failing(x):
    raise RuntimeError('no')
def f(x):
    out = []
    for act in failing, F.silu, failing, F.relu:
        try:
            out.append(act(x))
        except RuntimeError as error:
            out.append(type(error).__name__)
    return out
""",
        ("call(f, torch.ones(3))",),
    ),
    "parameter under a name of the class": (
        """
class Own(nn.Module):
    k = 3
own, weight = Own(), nn.Parameter(torch.ones(3))
def f(x):
    try:
        own.k = weight
    except KeyError as error:
        return x, str(error)
    return x * own.k
""",
        ("call(f, torch.ones(3))", "del Own.k", "call(f, torch.ones(3))"),
    ),
    "kernel's refusal while an exception is handled": (
        """
def f(x):
    try:
        try:
            raise ValueError('first')
        except ValueError:
            return x - True
    except RuntimeError as error:
        return x, type(error.__context__).__name__
""",
        ("call(f, torch.ones(3))",),
    ),
    "one float in two places, or two": (
        """
items = [0.5, 1, 0.5]
items[2] = items[0]
def f(x):
    return x + 1, items[0] is items[2], items[1] is 1
""",
        (
            "call(f, torch.ones(3))",
            "items[2] = float('0.5')",
            "call(f, torch.ones(3))",
            "items[2] = items[0]",
            "call(f, torch.ones(3))",
        ),
    ),
    "list whose class tells another length": (
        """
class Told(list):
    def __len__(self):
        return 1
items = Told([1, 2])
def f(x):
    try:
        del items[-1]
    except IndexError as error:
        return x, str(error)
    return x + 1
""",
        ("call(f, torch.ones(3))", "call(f, torch.ones(3))", "call(f, torch.ones(3))"),
    ),
    "the built-in operand is asked when the other does not know": (
        """
counted = collections.Counter('aab')
def f(x):
    return x + 1, counted == {'a': 2, 'b': 1}, {'a': 2} == counted, counted != {'a': 2, 'b': 1}
""",
        ("call(f, torch.ones(3))", "counted['a'] = 5", "call(f, torch.ones(3))"),
    ),
    "function written in C under another name": (
        """
class Own:
    k = torch.tanh
    c = torch.Tensor.cos
class Mine(torch.Tensor):
    other = torch.Tensor.cos
own = Own()
def f(x):
    return own.k(x) * len(own.k.__name__)
""",
        ("call(f, torch.ones(3))", "Own.k = torch.relu", "call(f, torch.ones(3))"),
    ),
    "dictionaries compare values until one differs": (
        """
table = {'a': torch.ones(3), 'd': 3}
def f(x):
    try:
        return x + 1, table == {'a': 1, 'b': 2}
    except RuntimeError as error:
        return x + 2, str(error)
""",
        (
            "call(f, torch.ones(3))",
            "table['e'] = 3",
            "call(f, torch.ones(3))",
            "table.pop('a')",
            "call(f, torch.ones(3))",
        ),
    ),
    "deque whose elements are replaced under its iterator": (
        """
queue = collections.deque([1, 2, 3], maxlen=4)
def f(x):
    queue[0] = 5
    for item in queue:
        x = x * item
        outside(x)
    return x
def g(x):
    queue.append(7)
    for item in queue:
        x = x * item
        outside(x)
    return x
""",
        ("call(f, torch.ones(3))", "call(g, torch.ones(3))"),
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
}
