"""Examples about calls, cells, operators and words of errors."""

CALLS = {
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
    "number in a tensor that counts no writes": (
        """
held = Box(torch.tensor(2.0))
def f(x, held):
    if held.v == 1:
        return x + 1
    if held.v == 3:
        return x + 2
    return x - 1
""",
        (
            "call(f, torch.ones(3), held)",
            "with torch.inference_mode(): call(f, torch.ones(3), held)",
            "with torch.inference_mode(): held.v.add_(1); call(f, torch.ones(3), held)",
            "call(f, torch.ones(3), held)",
        ),
    ),
    "numbers that a graph gets are not written to in inference mode": (
        """
n = 2
def f(x):
    x = F.dropout(x, 0.5) * n
    outside(x)
    return x
""",
        (
            "call(f, torch.ones(3))",
            "n = 3",
            "call(f, torch.ones(3))",
            "n = 4",
            "with torch.inference_mode(): call(f, torch.ones(3))",
        ),
    ),
    "a character of a text is one object, after a break too": (
        """
items = ['a', 'bc']
def f(x):
    it, first = items[0], items[0]
    it, other = it[0], items[1][1]
    pair = [it, other]
    outside(x)
    return x + 1, [it[0] is it, other[0] is other, pair[0] is it, pair[1] is items[1][1], first[0] is first, it is first]
""",
        ("call(f, torch.ones(3))", "items[0] = 'abc'[0]", "call(f, torch.ones(3))", "call(f, torch.ones(3))"),
    ),
    "what is awaited comes from outside, as what has to be given by a method": (
        """
@types.coroutine
def marked():
    yield 1
def plain():
    yield 1
async def waits(given):
    return await given
class Gives:
    def __await__(self):
        return self.given
async def iterates(given):
    async for each in given:
        return each
class Turns:
    def __aiter__(self):
        return self
    def __anext__(self):
        return self.given
def told(made):
    try:
        return made.send(None)
    except (TypeError, RuntimeError) as error:
        return str(error)
    finally:
        made.close()
make = [marked]
def f(x):
    out = []
    for main, owner in ((waits, None), (waits, Gives()), (iterates, Turns())):
        given = make[0]()
        outside(given)
        if owner is not None:
            owner.given = given
        out.append(told(main(owner or given)))
        given.close()
    return x + 1, out
""",
        (
            "call(f, torch.ones(3))",
            "make[0] = plain",
            "call(f, torch.ones(3))",
            "make[0] = marked",
            "call(f, torch.ones(3))",
            "make[0] = lambda: waits(plain())",
            "call(f, torch.ones(3))",
            "make[0] = lambda: waits(marked())",
            "call(f, torch.ones(3))",
        ),
    ),
}
