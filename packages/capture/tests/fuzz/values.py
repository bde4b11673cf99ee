"""Values as source text, by the letter that stands for them in templates: ``$n`` a number, ``$f`` a function, ..."""

from __future__ import annotations

NUMBERS = ("2", "3", "2.0", "True", "0", "0.5", "-1", "False", "-0.0", "float('inf')", "10**20", "1000")
STRINGS = ("'a'", "'bb'", "'relu'", "''", "'v'")
TENSORS = (
    "torch.tensor([1.0, 2.0, 3.0])", "torch.tensor(2.0)", "torch.tensor(3)", "torch.ones(3, dtype=torch.float64)",
    "torch.tensor([1.0, 2.0, 3.0], requires_grad=True)", "nn.Parameter(torch.ones(3))", "torch.arange(6.0)[::2]",
    "torch.zeros(())", "torch.ones(3).half()", "torch.arange(9.0).view(3, 3)[1]", "nn.Parameter(torch.ones(3), False)",
)  # fmt: skip
FUNCTIONS = (
    "F.relu", "F.silu", "torch.tanh", "torch.Tensor.cos", "torch.relu", "double", "tripled", "lambda x: x * 7",
    "functools.partial(tripled, k=4)", "functools.partial(torch.mul, other=2.0)", "adder(2)", "adder(3)", "Op(2)", "Op(3)",
    "Op(2).method", "Box(2).apply", "Other(2).apply", "disguised", "nn.ReLU()", "nn.Tanh()", "Scale(3.0)", "Shift()",
    "functools.wraps(double)(lambda x: x - 9)", "operator.neg", "nn.Sequential(nn.ReLU(), Scale())",
    "functools.partial(tripled, plus=torch.ones(3))", "functools.partial(functools.partial(tripled, k=2), plus=1)",
    "nn.ReLU().forward", "math.sqrt", "torch.nn.Identity()", "types.MethodType(use, torch.ones(3))",
)  # fmt: skip
CONTAINERS = (
    "[1, 2.0]", "(1, 2)", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", "[]", "{}", "()", "{1, 2}", "frozenset({3})",
    "collections.OrderedDict(a=1, b=2)", "collections.OrderedDict(b=2, a=1)", "collections.deque([1, 2], maxlen=3)",
    "range(3)", "Pair(1, 2)", "Pair(2, 1)", "{'a': [1, 2], 'b': {'a': 3}}", "[F.relu, torch.tanh]", "[[1], [2]]",
    "collections.defaultdict(int, a=1)", "{'a': F.relu}", "(torch.ones(3), 2)", "[torch.ones(3), torch.zeros(3)]",
    "[Box(1), Box(2)]", "{1: 2, 'a': 3}", "types.MappingProxyType({'a': 1})", "collections.Counter('aab')",
    "collections.ChainMap({'a': 1}, {'b': 2})", "nn.ModuleList([Scale(), nn.ReLU()])", "nn.ModuleDict({'a': Scale()})",
    "nn.ParameterList([torch.ones(3)])", "memoryview(b'ab')", "bytearray(b'ab')", "torch.Size([1, 2])",
)  # fmt: skip
OBJECTS = (
    "None", "Box(2)", "Box(3)", "Other(2)", "Box([1, 2])", "Color.RED", "Color.GREEN", "Level.HIGH", "Point(1, 2)",
    "Point(2)", "Frozen(1)", "Frozen(2)", "Slotted(2)", "space(v=2)", "space(v=[1])", "int", "float", "Box", "Other",
    "torch.float64", "torch.float32", "slice(0, 2)", "b'ab'", "2j", "Ellipsis", "object", "Box.get", "weakref.ref(Box)",
    "torch.device('cpu')", "property(lambda self: 5)", "staticmethod(double)", "Scale", "NotImplemented", "KeyError('a')",
)  # fmt: skip

VALUES = {
    "n": NUMBERS,
    "s": STRINGS,
    "t": TENSORS,
    "f": FUNCTIONS,
    "c": CONTAINERS,
    "o": OBJECTS,
    "k": ("'a'", "'b'", "0", "1", "-1", "'v'", "2"),  # keys
    "m": ("v", "w", "k", "extra"),  # attribute names
}
#: ``$v`` is a value of any of these kinds.
ANY = "nnffcctos"
