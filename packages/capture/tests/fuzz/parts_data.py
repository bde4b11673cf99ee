"""Containers, iterators, enumerations, weak references, caches."""

from __future__ import annotations

from .parts import Part, part

part(Part(
    "table",
    make="H.table = {'a': $v, 'b': $v, 1: $n}",
    places=("H.table['a']", "H.table['b']", "H.table"),
    reads=(
        "for key, item in H.table.items():\n    x = use(x, item) + len(str(key))",
        "out.append(list(H.table))",
        "out.append(('a' in H.table, 'c' in H.table, len(H.table), 1 in H.table.keys()))",
        "x = use(x, H.table.get('c', 4))",
        "H.table['count'] = H.table.get('count', 0) + 1",
        "x = use(x, next(iter(H.table.values())))",
        "x = use(x, {**H.table, 'b': 3})",
        "out.append({k: type(v).__name__ for k, v in H.table.items()})",
        "match H.table:\n    case {'c': v}:\n        x = use(x, v)\n    case {'a': int() as v, **rest}:\n        x = x + v + len(rest)\n    case _:\n        x = x - 1",
        "if H.table:\n    x = x + 1",
        "x = tripled(x, **{k: v for k, v in H.table.items() if k == 'k'})",
        "x = use(x, H.table.setdefault('d', 3))",
        "out.append(H.table.pop('b', None))",
        "for name in sorted(map(str, H.table)):\n    x = x * 0.5 + len(name)",
        "out.append(H.table == {'a': 1, 'b': 2})",
    ),
    changes=(
        "H.table[$k] = $v", "del H.table[$k]", "H.table['a'] = H.table.pop('a')", "H.table.clear()", "H.table.update(c=$v, a=$v)",
        "H.table = dict(reversed(H.table.items()))", "H.table = collections.OrderedDict(H.table)", "H.table = collections.defaultdict(lambda: $v, H.table)",
        "H.table = copy.copy(H.table)", "H.table['c'] = $v", "H.table['k'] = $n", "H.table = type('D', (dict,), {'__missing__': lambda self, key: 3})(H.table)",
        "H.table.pop('b', None)", "H.table.setdefault('z', $v)", "H.table[1.0] = $v", "H.table[True] = $v", "H.table.popitem()", "H.table = {'a': $v}",
        "H.table['a'], H.table['b'] = H.table['b'], H.table['a']", "H.table['self'] = 1; del H.table['self']",
        "H.table = type('D', (dict,), {'__getitem__': lambda self, key: 3})(H.table)",
    ),
))  # fmt: skip

part(Part(
    "items",
    make="H.items = [$v, $v, $n]",
    places=("H.items[0]", "H.items[-1]", "H.items"),
    reads=(
        "for item in H.items:\n    x = use(x, item)",
        "for i, (a, b) in enumerate(zip(H.items, H.items[1:])):\n    x = use(x, a) + i",
        "out.append((len(H.items), H.items[:1], bool(H.items), $n in H.items))",
        "H.items.append(len(H.items))",
        "first, *rest = H.items\nx = use(x, rest)",
        "x = use(x, [v for v in H.items if not callable(v)])",
        "x = functools.reduce(use, H.items, x)",
        "out.append((any(callable(v) for v in H.items), [type(v) for v in H.items]))",
        "H.items[0] = $v",
        "x = use(x, H.items[1:][::-1])",
        "x = use(x, list(reversed(H.items))[0])",
        "try:\n    out.append(H.items.index(2))\nexcept ValueError as error:\n    out.append(str(error))",
        "match H.items:\n    case [int() as a, *_]:\n        x = x + a\n    case [_, _]:\n        x = x * 2\n    case _:\n        x = x - 1",
        "x = use(x, H.items.pop()) if len(H.items) > 2 else x",
        "x = use(x, max([v for v in H.items if isinstance(v, (int, float))], default=1))",
    ),
    changes=(
        "H.items[0] = $v", "H.items[-1] = $v", "H.items.append($v)", "H.items.insert(0, $v)", "del H.items[0]", "H.items[:2] = [$v]", "H.items[1:1] = [$v, $v]",
        "H.items.reverse()", "H.items.clear()", "H.items = tuple(H.items)", "H.items = [$v, $v, $v]", "H.items = copy.copy(H.items)", "H.items.extend([$n, $n])",
        "H.items[0], H.items[1] = H.items[1], H.items[0]", "H.items = type('L', (list,), {'__len__': lambda self: 1})(H.items)", "H.items *= 2",
        "H.items = collections.deque(H.items)", "H.items.sort(key=lambda v: type(v).__name__)", "H.items.pop()", "H.items = Pair($v, $v)", "H.items[0] = H.items[1]",
    ),
))  # fmt: skip

part(Part(
    "ordered",
    make="H.ordered = collections.OrderedDict(a=$v, b=$n, c=$v)",
    places=("H.ordered['a']", "H.ordered"),
    reads=(
        "for key, item in H.ordered.items():\n    x = use(x, item) * 0.5 + len(key)",
        "out.append(list(H.ordered))",
        "x = use(x, next(iter(H.ordered.values())))",
        "x = use(x, list(reversed(H.ordered))[0])",
        "H.ordered.move_to_end('a')",
        "out.append(list(H.ordered.items()) == [('a', 1), ('b', 2), ('c', 3)])",
    ),
    changes=(
        "H.ordered.move_to_end('a')", "H.ordered.move_to_end('c', last=False)", "H.ordered['a'] = $v", "del H.ordered['b']", "H.ordered['d'] = $v",
        "H.ordered.popitem(last=False)", "H.ordered = dict(H.ordered)", "H.ordered['b'] = H.ordered.pop('b')", "dict.__setitem__(H.ordered, 'a', $v)",
        "H.ordered = type('O', (collections.OrderedDict,), {})(H.ordered)", "H.ordered.update(a=$v)",
    ),
))  # fmt: skip

part(Part(
    "tags",
    make="H.tags = {'a', 2}\nH.queue = collections.deque([$v, $v], maxlen=3)\nH.pair = ($v, [$n])",
    places=("H.queue[0]", "H.pair", "H.pair[1][0]", "H.tags"),
    reads=(
        "x = x * (2 if 'a' in H.tags else 3) + len(H.tags)",
        "out.append((2 in H.tags, H.tags == {2, 'a'}, H.tags & {2}, $n in H.tags))",
        "H.tags.add(len(H.tags))",
        "for item in H.queue:\n    x = use(x, item)",
        "H.queue.append(2)",
        "x = use(x, H.queue[-1])",
        "a, b = H.pair\nx = use(x, b)",
        "out.append((len(H.queue), H.queue.maxlen, len(H.pair)))",
        "out.append(frozenset(H.tags) <= {2, 'a', 'b'})",
        "H.pair[1].append(3)",
    ),
    changes=(
        "H.tags.add('b')", "H.tags.discard('a')", "H.tags.clear()", "H.tags |= {$n}", "H.tags = frozenset(H.tags)", "H.tags = {'b'}", "H.queue.append($v)",
        "H.queue.appendleft($v)", "H.queue.rotate()", "H.queue[0] = $v", "H.queue = collections.deque(H.queue, maxlen=2)", "H.pair = ($v, [$n])",
        "H.pair[1][0] = $v", "H.pair[1].append($v)", "H.pair = Pair($v, [$n])", "H.pair = [1, [2]]", "H.tags.remove(2); H.tags.add(2)",
    ),
))  # fmt: skip

part(Part(
    "steps",
    make="H.steps = iter([$n, $n, $n, 5, 6])\nH.stream = (n for n in [1, 2, 3, 4, 5])\nH.counter = itertools.count(2)",
    places=("H.steps",),
    reads=(
        "x = use(x, next(H.steps, 9))",
        "x = use(x, next(H.stream, None))",
        "x = x + next(H.counter)",
        "for item in H.steps:\n    x = use(x, item)\n    break",
        "out.append(list(H.stream))",
        "x = use(x, list(zip(H.steps, [1])))",
    ),
    changes=(
        "next(H.steps)", "H.steps = iter([$v, $v])", "next(H.stream)", "H.stream.close()", "H.stream = (n for n in [$v])", "next(H.counter)",
        "H.steps = iter({'a': 1})", "H.steps = map(lambda v: v, [$v])", "H.stream = iter(range(3))", "H.steps = reversed([$n, $n])",
    ),
))  # fmt: skip

part(Part(
    "record",
    make="H.record = Point($v, $v)\nH.frozen = Frozen($v)\nH.slotted = Slotted($v)\nH.color = Color.RED\nH.level = Level.LOW",
    places=("H.record.v", "H.frozen", "H.slotted.v", "H.color", "H.level", "H.frozen.v"),
    reads=(
        "x = use(x, H.record)",
        "x = use(x, H.frozen.v)",
        "x = use(x, H.slotted.v)",
        "x = x * (2 if H.color is Color.RED else 3)",
        "x = use(x, H.color.value)",
        "x = x + H.level",
        "out.append((H.record == Point(1, 2), H.frozen == Frozen(1), H.color.name, H.level == 1, H.level is Level.LOW, H.color in Color))",
        "try:\n    H.frozen.v = 3\nexcept dataclasses.FrozenInstanceError as error:\n    out.append(str(error))",
        "x = use(x, dataclasses.replace(H.record, w=3))",
        "out.append([c.name for c in Color])",
        "x = use(x, {Color.RED: 2, Color.GREEN: 3}[H.color])",
        "match H.record:\n    case Point(v=1, w=w):\n        x = use(x, w)\n    case Point(3, _):\n        x = x * 3\n    case _:\n        x = x - 1",
        "H.record.w = (H.record.w, 1)[1]",
        "out.append(hasattr(H.slotted, 'w'))",
        "H.slotted.w = 2",
        "x = use(x, H.record.w)",
    ),
    changes=(
        "H.record.v = $v", "H.record.w = $v", "del H.record.w", "H.record = Point($n, $n)", "H.frozen = Frozen($v)", "object.__setattr__(H.frozen, 'v', $v)", "H.slotted.v = $v",
        "del H.slotted.v", "H.slotted.w = $v", "H.slotted = Slotted($v)", "H.color = Color.GREEN", "H.color = 1", "H.level = Level.HIGH", "H.level = 1", "Point.w = $v",
        "Color.RED._value_ = $n", "Slotted.v = property(lambda self: $v)", "Frozen.__eq__ = lambda self, other: False", "Point.__eq__ = lambda self, other: True",
        "Level.__eq__ = lambda self, other: False", "Color.__eq__ = lambda self, other: True", "Point.__match_args__ = ('w',)", "H.record.__class__ = Box", "H.record = copy.deepcopy(H.record)",
    ),
))  # fmt: skip

part(Part(
    "weak",
    make="H.kept = Box($v)\nH.ref = weakref.ref(H.kept)\nH.known = weakref.WeakValueDictionary(a=H.kept)\nH.met = weakref.WeakSet([H.kept])\n"
    "H.method = weakref.WeakMethod(H.kept.get)",
    places=("H.kept.v",),
    reads=(
        "got = H.ref()\nx = x - 5 if got is None else use(x, got.v)",
        "x = x * (2 if 'a' in H.known else 3)",
        "out.append((H.ref() is None, len(H.known), len(H.met), H.method() is None))",
        "x = use(x, getattr(H.known.get('a'), 'v', 8))",
        "out.append(H.ref() is H.known.get('a'))",
        "x = x * 2 if H.method() is None else use(x, H.method()())",
    ),
    changes=(
        "del H.kept; gc.collect()", "H.kept = Box($v)", "H.kept = Box($v); gc.collect(); H.ref = weakref.ref(H.kept)", "H.known['a'] = H.kept", "del H.known['a']",
        "H.met.add(H.kept)", "H.kept.v = $v", "H.ref = lambda: None", "H.ref = weakref.ref(Box)", "H.known.clear()", "H.met.clear()", "H.method = lambda: None",
    ),
))  # fmt: skip

part(Part(
    "cached",
    classes="""
@functools.lru_cache(maxsize=4)
def remembered(n):
    LOG.append(n)
    return (n, $n)
@functools.singledispatch
def kind(v):
    return 2
@kind.register
def _(v: int):
    return 3
""",
    make="H.cached = remembered\nH.wanted = $n",
    places=("H.wanted",),
    reads=(
        "x = use(x, remembered(2))",
        "x = use(x, H.cached(H.wanted))",
        "out.append(H.cached(1) is H.cached(1))",
        "out.append(remembered.cache_info())",
        "x = x * kind(H.wanted)",
    ),
    changes=(
        "remembered.cache_clear()", "remembered(2)", "remembered(5)", "H.wanted = $v", "H.cached = functools.lru_cache(lambda n: n)", "H.cached = remembered.__wrapped__",
        "kind.register(int, lambda v: 7)", "kind.register(float, lambda v: 8)", "remembered.__wrapped__.__code__ = (lambda n: n).__code__",
        "[remembered(n) for n in range(10, 15)]", "H.cached = functools.cache(Box)",
    ),
))  # fmt: skip

part(Part(
    "planned",
    classes="""
@dataclasses.dataclass(frozen=True)
class Plan:
    size: int
    rest: tuple = ()
class ById:
    steps = 0
    def __init__(self, v):
        self.v = v
        ById.steps += 1
    def __hash__(self):
        return id(self)
    def __eq__(self, other):
        return self is other
@functools.lru_cache(maxsize=4)
def planned(plan, *more):
    LOG.append(plan)
    return [plan.size if isinstance(plan, Plan) else 3]
@functools.cache
def simply(plan):
    return plan.size * 2
""",
    make="H.plan = Plan($n)\nH.by_id = ById($v)\nH.plans = {H.by_id: 3}",
    places=("H.plan", "H.by_id.v", "ById.steps", "H.plans"),
    reads=(
        "x = use(x, planned(Plan(2))[0])",
        "x = use(x, planned(H.plan, (H.plan, 'a'))[0])",
        "x = use(x, simply(Plan($n, (1, 'b'))))",
        "out.append(planned.cache_info())",
        "x = use(x, {ById(1): 2, H.by_id: 3}[H.by_id])",
        "x = use(x, planned(H.by_id)[0]) + ById.steps",
        "ById.steps += 1\nout.append((ById.steps, H.by_id.steps, (id(H.by_id), 0) in {(id(H.by_id), 0)}))",
        "x = x * (ById(H).steps % 3)",
    ),
    changes=(
        "planned.cache_clear()", "H.plan = Plan($n)", "object.__setattr__(H.plan, 'size', $n)", "simply(Plan(7))", "ById.steps = $v",
        "[planned(Plan(n)) for n in range(10, 15)]", "ById.__hash__ = lambda self: 3", "ById.__eq__ = lambda self, other: True",
        "Plan.__hash__ = lambda self: 1", "H.by_id.steps = $v", "del ById.__hash__", "H.by_id = ById($v)", "Plan.__eq__ = lambda self, other: False",
    ),
))  # fmt: skip
