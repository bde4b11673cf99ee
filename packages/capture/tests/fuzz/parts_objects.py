"""Objects, classes along the MRO, metaclasses, descriptors, special methods."""

from __future__ import annotations

from .parts import Part, part

part(Part(
    "box",
    make="H.box = Box($v)",
    places=("H.box.v",),
    reads=(
        "x = use(x, H.box.get())",
        "x = H.box.apply(x)",
        "H.box.count = getattr(H.box, 'count', 0) + 1",
        "out.append((type(H.box).__name__, isinstance(H.box, Other), hasattr(H.box, 'w'), Box.get is type(H.box).get))",
        "x = x * getattr(H.box, 'w', 2)",
        "out.append(sorted(vars(H.box)))",
        "match H.box:\n    case Other(w=w):\n        x = x + 20\n    case Box(v=int()):\n        x = x + 10\n    case _:\n        x = x - 10",
        "other = copy.copy(H.box)\nother.v = 3\nx = other.apply(x)",
        "made = type(H.box)($v)\nx = use(x, made)",
    ),
    changes=(
        "H.box = Box($v)",
        "H.box = Other($v)",
        "H.box = space(v=$v, get=lambda: 3, apply=double)",
        "H.box.w = $v",
        "del H.box.w",
        "Box.get = lambda self: $v",
        "Box.get = Other.get",
        "Other.get = Box.get",
        "del Other.get",
        "Other.w = $v",
        "Box.apply = $f",
        "Box.v = property(lambda self: $v)",
        "Box.v = $v",
        "del Box.v",
        "Box.w = $v",
        "H.box.get = lambda: $v",
        "del H.box.get",
        "H.box.apply = $f",
        "Box.__getattr__ = lambda self, name: $v",
        "del Box.__getattr__",
        "Box.__getattribute__ = lambda self, name: 3 if name == 'v' else object.__getattribute__(self, name)",
        "del Box.__getattribute__",
        "H.box.__class__ = Other",
        "H.box.__class__ = Box",
        "H.box.__dict__ = {'v': $v}",
        "H.box.__dict__['v'] = $v",
        "H.box.__dict__.clear()",
        "H.box.__dict__ = dict(reversed(vars(H.box).items()))",
        "H.box = copy.deepcopy(H.box)",
        "Box.__init__ = lambda self, v: setattr(self, 'v', 4)",
        "Box.get.__code__ = (lambda self: 6).__code__",
        "Box.apply.__code__ = (lambda self, x: x - 6).__code__",
        "Other.__bases__ = (Point,)",
        "Other.__bases__ = (Box,)",
        "Box.__call__ = lambda self, x: x * 5",
        "del Box.__call__",
        "Box.__match_args__ = ('v',)",
        "Box.__instancecheck__ = lambda self, other: True",
    ),
))  # fmt: skip

part(Part(
    "leaf",
    classes="""
class Meta(type):
    tag = $v
    def name(cls):
        return cls.__name__
class Base(metaclass=Meta):
    k = $v
    def scale(self, x):
        return use(x, self.k)
    @classmethod
    def made(cls):
        return use_kind(cls)
    @staticmethod
    def plain(x):
        return x * 2
    @property
    def p(self):
        return self.k
class Left(Base):
    def scale(self, x):
        return super().scale(x) * 2
class Right(Base):
    r = $v
    def scale(self, x):
        return super().scale(x) + 1
class Mixin:
    def mixed(self, x):
        return x - 1
class Leaf(Left, Right, Mixin):
    pass
def use_kind(cls):
    return len(cls.__name__) + len(cls.__mro__)
""",
    make="H.leaf = Leaf()",
    places=("H.leaf.k", "H.leaf.r", "Leaf.k", "Right.r", "Base.k", "Left.k"),
    reads=(
        "x = H.leaf.scale(x)",
        "x = H.leaf.plain(x) + H.leaf.made()",
        "x = use(x, H.leaf.p)",
        "x = use(x, Leaf.tag)",
        "x = H.leaf.mixed(x)",
        "out.append((Leaf.name(), isinstance(H.leaf, Right), issubclass(Leaf, Base), isinstance(H.leaf, Mixin)))",
        "out.append([cls.__name__ for cls in type(H.leaf).__mro__])",
        "x = Base.scale(H.leaf, x)",
        "x = super(Left, H.leaf).scale(x)",
        "out.append((hasattr(H.leaf, 'k'), hasattr(Leaf, 'tag'), hasattr(H.leaf, 'tag'), 'k' in vars(Leaf), 'k' in vars(H.leaf)))",
        "x = use(x, getattr(type(H.leaf), $s, 3))",
        "Leaf.calls = getattr(Leaf, 'calls', 0) + 1",
        "class Local(Leaf):\n    k = 3\nx = Local().scale(x)",
        "out.append((Left.scale is Right.scale, Leaf.scale is Left.scale, H.leaf.scale == H.leaf.scale))",
    ),
    changes=(
        "$C.k = $v", "del $C.k", "$C.r = $v", "$C.scale = lambda self, x: use(x, $v)", "del $C.scale", "$C.scale = $D.scale",
        "$C.scale.__code__ = (lambda self, x: x - 8).__code__",
        "$C.k = property(lambda self: $v)", "$C.p = $v", "del $C.p", "$C.plain = classmethod(lambda cls, x: x + len(cls.__name__))",
        "$C.plain = staticmethod($f)", "$C.made = staticmethod(lambda: 4)", "$C.__name__ = 'Renamed'", "$C.mixed = lambda self, x: x * 3",
        "H.leaf.__class__ = $C", "H.leaf.scale = $f", "H.leaf.k = $v", "del H.leaf.k", "del H.leaf.scale", "H.leaf = $C()",
        "Leaf.__bases__ = (Right, Left)", "Leaf.__bases__ = (Right,)", "Leaf.__bases__ = (Left, Right, Mixin)", "Left.__bases__ = (Right,)",
        "Meta.tag = $v", "del Meta.tag", "Leaf.tag = $v", "del Leaf.tag", "Base.tag = $v", "Meta.name = lambda cls: 'n'",
        "Meta.k = property(lambda cls: $v)", "Meta.__getattr__ = lambda cls, name: $v", "del Meta.__getattr__",
        "Meta.__instancecheck__ = lambda cls, other: True", "Meta.__instancecheck__ = lambda cls, other: False", "del Meta.__instancecheck__",
        "Meta.__subclasscheck__ = lambda cls, other: False", "del Meta.__subclasscheck__", "Meta.__getattribute__ = lambda cls, name: type.__getattribute__(cls, name)",
        "$C.__getattr__ = lambda self, name: $v", "$C.__getattribute__ = lambda self, name: object.__getattribute__(self, 'plain' if name == 'mixed' else name)",
        "del $C.__getattribute__", "$C.__setattr__ = lambda self, name, value: None", "$C.__class__ = Meta", "H.leaf = copy.deepcopy(H.leaf)",
        "use_kind.__code__ = (lambda cls: 3).__code__", "Leaf = type('Leaf', (Right,), {'k': $v})", "del Leaf.__init__", "$C.__init__ = lambda self: None",
    ),
))  # fmt: skip

part(Part(
    "special",
    classes="""
class Root_:
    def __len__(self):
        return 2
    def __contains__(self, item):
        return item == 'a'
    def __getitem__(self, key):
        return [3, 4, 4][key] if isinstance(key, int) else 4
class Special(Root_):
    def __init__(self, v):
        self.v = v
    def __iter__(self):
        return iter([1, 2])
    def __call__(self, x):
        return use(x, self.v)
    def __enter__(self):
        return self.v
    def __exit__(self, *exc):
        return None
""",
    make="H.special = Special($v)",
    places=("H.special.v", "H.special[0]"),
    reads=(
        "x = H.special(x)",
        "x = x + len(H.special)",
        "out.append(('a' in H.special, 3 in H.special, bool(H.special)))",
        "for item in H.special:\n    x = use(x, item)",
        "x = use(x, H.special['a'])",
        "with H.special as got:\n    x = use(x, got)",
        "out.append((H.special == H.special, H.special != 3, callable(H.special), hasattr(H.special, '__add__')))",
        "try:\n    x = use(x, H.special + 1)\nexcept TypeError:\n    x = x - 3",
        "try:\n    x = use(x, 2 * H.special)\nexcept TypeError:\n    x = x - 3",
        "try:\n    x = x * float(H.special) + int(H.special)\nexcept TypeError:\n    x = x - 3",
        "try:\n    x = x[H.special]\nexcept (TypeError, IndexError) as error:\n    x = x - 3",
        "try:\n    out.append((H.special < 3, -H.special))\nexcept TypeError:\n    x = x - 3",
        "out.append({H.special: 1}[H.special])",
        "x = x + (1 if H.special else 2)",
        "a, *b = H.special\nx = use(x, b)",
        "out.append(f'{H.special}' == 'special')",
        "H.special['a'] = 1",
        "added = H.special\nadded += 1\nx = use(x, added)",
        "out.append(list(reversed(H.special)))",
        "x = use(x, H.special.missing)",
    ),
    changes=(
        "$S.__len__ = lambda self: 0", "$S.__len__ = lambda self: 5", "del $S.__len__", "$S.__bool__ = lambda self: False", "del $S.__bool__",
        "$S.__iter__ = lambda self: iter([3])", "del $S.__iter__", "$S.__contains__ = lambda self, item: True", "del $S.__contains__",
        "$S.__getitem__ = lambda self, key: [5, 6][key]", "del $S.__getitem__", "$S.__call__ = lambda self, x: x * 4", "del $S.__call__",
        "$S.__eq__ = lambda self, other: False", "$S.__hash__ = lambda self: 5", "$S.__hash__ = None", "del $S.__eq__", "$S.__ne__ = lambda self, other: False",
        "$S.__add__ = lambda self, other: 8", "del $S.__add__", "$S.__radd__ = lambda self, other: 9", "$S.__rmul__ = lambda self, other: 10",
        "$S.__float__ = lambda self: 2.5", "$S.__int__ = lambda self: 2", "$S.__index__ = lambda self: 1", "del $S.__index__",
        "$S.__lt__ = lambda self, other: True", "$S.__neg__ = lambda self: 3", "$S.__str__ = lambda self: 'special'", "$S.__format__ = lambda self, spec: 'special'",
        "$S.__repr__ = lambda self: 'special'", "$S.__iadd__ = lambda self, other: 6", "$S.__setitem__ = lambda self, key, value: None",
        "$S.__getattr__ = lambda self, name: 5", "$S.__missing__ = lambda self, key: 5", "$S.__reversed__ = lambda self: iter([7])",
        "$S.__enter__ = lambda self: $v", "$S.__exit__ = lambda self, *exc: True", "del $S.__exit__", "$S.__getattribute__ = lambda self, name: 4",
        "H.special.__len__ = lambda: 9", "H.special.__call__ = double", "H.special.v = $v", "H.special = Special($v)", "H.special.__class__ = Root_",
        "$S.__len__.__code__ = (lambda self: 7).__code__", "Special.__bases__ = (Box,)",
    ),
))  # fmt: skip

part(Part(
    "described",
    classes="""
class Data:
    def __init__(self, factor):
        self.factor = factor
    def __set_name__(self, owner, name):
        self.name = '_' + name
    def __get__(self, instance, owner):
        return self if instance is None else [getattr(instance, self.name, 1), self.factor]
    def __set__(self, instance, value):
        setattr(instance, self.name, value)
class Plain:
    def __get__(self, instance, owner):
        return 6
class Described:
    data = Data($n)
    plain = Plain()
    def __init__(self, v):
        self.v = v
    @property
    def p(self):
        return self.v
    @p.setter
    def p(self, value):
        self.v = [value]
    @functools.cached_property
    def once(self):
        LOG.append('once')
        return self.v
    @functools.cached_property
    def tensor(self):
        return torch.ones(3) * 2
    def __getattr__(self, name):
        if name.startswith('dyn'):
            return len(name)
        raise AttributeError(name)
""",
    make="H.described = Described($v)",
    places=("H.described.v", "H.described.p", "H.described.data", "H.described.plain", "H.described.once"),
    reads=(
        "H.described.p = $n",
        "H.described.data = $n",
        "x = use(x, H.described.dynamic)",
        "x = use(x, H.described.tensor)",
        "out.append((hasattr(H.described, 'dyn'), hasattr(H.described, 'other'), getattr(H.described, 'other', 3)))",
        "try:\n    x = use(x, H.described.other)\nexcept AttributeError as error:\n    out.append(str(error))",
        "x = x + Described.data.factor",
        "out.append('once' in vars(H.described))",
    ),
    changes=(
        "Described.data.factor = $n", "Data.__get__ = lambda self, instance, owner: $n", "del Data.__set__", "Plain.__get__ = lambda self, instance, owner: $v",
        "Plain.__set__ = lambda self, instance, value: None", "del Plain.__get__", "H.described.plain = $v", "vars(H.described)['data'] = $v", "vars(H.described)['p'] = $v",
        "Described.p = property(lambda self: $v)", "Described.p = $v", "del Described.p", "Described.p = Described.p.setter(lambda self, value: setattr(self, 'v', 3))",
        "del H.described.once", "del H.described.tensor", "H.described.once = $v", "H.described.v = $v", "Described.plain = $v", "Described.data = $v", "Described.data = Data($n)",
        "Described.__getattr__ = lambda self, name: $v", "del Described.__getattr__", "H.described.dynamic = $v", "Described.dynamic = $v", "Described.other = $v",
        "Described.p.fget.__code__ = (lambda self: 8).__code__", "Described.once = 3", "H.described = Described($v)",
    ),
))  # fmt: skip
