"""Examples about containers and what goes through them."""

CONTAINERS = {
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
    "constant tuple of the code": (
        """
held = [0, 0]
def f(x):
    held[0] = (1, 2)
    return x + 1, held[0]
""",
        ("call(f, torch.ones(3))", "held[1] = held[0]", "call(f, torch.ones(3))"),
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
}
