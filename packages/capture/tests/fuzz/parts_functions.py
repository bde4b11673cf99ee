"""Functions, closures, partials, modules of functions, patched libraries, exceptions."""

from __future__ import annotations

from .parts import Part, part

part(Part(
    "fn",
    classes="""
factor = $n
def first(x, a=$v, *, b=$v):
    return use(use(x, a), b) * factor
def second(x, a=3, *, b=4):
    return x - a - b
first.tag = $v
""",
    make="H.fn = first",
    places=("H.fn", "H.fn.tag", "factor"),
    reads=(
        "x = H.fn(x)",
        "x = H.fn(x, 2)",
        "x = first(x, b=3)",
        "x = use(x, H.fn)",
        "x = use(x, first.__defaults__)",
        "x = use(x, first.__kwdefaults__)",
        "out.append((H.fn is first, H.fn.__name__, H.fn.__module__, H.fn.__doc__, callable(H.fn), hasattr(H.fn, 'extra')))",
        "x = x * factor",
        "first.calls = getattr(first, 'calls', 0) + 1",
        "x = use(x, vars(H.fn).get('tag'))",
        "out.append(H.fn.__code__.co_name)",
        "out.append(len(inspect.signature(H.fn).parameters))",
        "x = list(map(H.fn, [x]))[0]",
        "globals()['factor'] = 2",
        "x = H.fn.__get__(x)()",
    ),
    changes=(
        "first.__defaults__ = ($v,)", "first.__defaults__ = None", "first.__kwdefaults__ = {'b': $v}", "first.__kwdefaults__['b'] = $v", "first.__kwdefaults__ = None",
        "first.__code__ = second.__code__", "first.__code__ = (lambda x, a=1, *, b=2: x * 9).__code__", "first.tag = $v", "del first.tag", "first.__dict__ = {'tag': $v}",
        "first.__name__ = 'renamed'", "first.__doc__ = 'doc'", "first.__module__ = 'torch'", "first.extra = $v", "H.fn = second", "H.fn = $f", "factor = $v", "del factor",
        "H.fn = functools.partial(first, a=$v)", "H.fn = functools.wraps(first)(lambda x, a=1: x * a)", "H.fn = types.FunctionType(first.__code__, {'use': use, 'factor': 3}, 'first', (1,))",
        "first = second", "second.__code__ = first.__code__", "first.__wrapped__ = second", "first.__signature__ = inspect.signature(double)", "H.fn = H.fn.__get__(torch.ones(3))",
        "use.__code__ = (lambda x, v, depth=3: x * 2).__code__", "use.__defaults__ = (1,)", "double.__code__ = (lambda x: x * 5).__code__", "H.fn = first.__call__", "H.fn = F.silu",
        "first.__kwdefaults__.clear()", "H.fn = types.FunctionType(first.__code__, globals(), 'first', ($v,))",
    ),
))  # fmt: skip

part(Part(
    "cells",
    classes="""
def shared(n, f):
    def get(x):
        return f(use(x, n))
    def put(value):
        nonlocal n
        n = value
    def count(x):
        nonlocal n
        n = n + 1 if isinstance(n, int) else 1
        return x + n
    return get, put, count
""",
    make="H.get, H.put, H.count_up = shared($v, $f)",
    places=("H.get.__closure__[1].cell_contents", "H.get.__closure__[0].cell_contents"),
    reads=(
        "x = H.get(x)",
        "x = H.count_up(x)",
        "H.put($v)",
        "out.append(H.get.__closure__[0] is H.count_up.__closure__[0])",
        "one, two, three = shared($n, H.get)\ntwo(3)\nx = three(one(x))",
        "out.append(len(H.get.__closure__))",
    ),
    changes=(
        "H.put($v)", "H.put($v)", "H.get.__closure__[1].cell_contents = $v", "H.get.__closure__[0].cell_contents = $f", "del H.get.__closure__[1].cell_contents", "H.count_up(torch.ones(3))",
        "H.get, H.put, H.count_up = shared($v, $f)", "H.get = shared($v, $f)[0]", "H.get.__code__ = (lambda f, n: lambda x: f(x) + 2 + (n is None))(1, 2).__code__", "H.get = $f", "H.put = lambda value: None",
        "H.get = types.FunctionType(H.get.__code__, globals(), 'get', None, (types.CellType($f), types.CellType($v)))",
    ),
))  # fmt: skip

part(Part(
    "bound",
    make="H.bound = Op(2).method\nH.part = functools.partial(tripled, k=$n)\nH.act = $f\nH.op = Op($n)\nH.chain = [$f, $f]",
    places=("H.act", "H.bound", "H.part", "H.op.k", "H.chain[0]"),
    reads=(
        "x = H.bound(x)",
        "x = H.part(x)",
        "x = H.act(x)",
        "x = H.op(x)",
        "for step in H.chain:\n    x = step(x)",
        "x = use(x, H.part.keywords)",
        "out.append((H.act is F.relu, H.act == torch.tanh, H.bound.__self__ is H.op, H.part.func is tripled))",
        "x = H.part(x, plus=2)",
        "out.append(isinstance(H.act, nn.Module))",
        "x = (H.act if H.act is not F.relu else H.bound)(x)",
        "x = H.bound.__func__(H.op, x)",
        "x = functools.reduce(lambda t, step: step(t), H.chain, x)",
        "H.op.k += 1",
    ),
    changes=(
        "H.act = $f", "H.act = $f", "H.act = F.relu", "H.bound = Op($n).method", "H.bound = H.op.method", "H.bound.__self__.k = $n", "Op.method = lambda self, x: x - self.k", "Op.__call__ = lambda self, x: x * 4",
        "H.part = functools.partial(tripled, k=$n)", "H.part = functools.partial($f)", "H.part.keywords['k'] = $n", "H.part.extra = 1", "H.part.__setstate__((double, (), {}, {}))", "H.op.k = $v", "H.op = $f",
        "tripled.__kwdefaults__ = {'plus': $n}", "tripled.__code__ = (lambda x, k=3, *, plus=0: x + k).__code__", "H.chain[0] = $f", "H.chain.append($f)", "H.chain.reverse()", "H.chain = [$f]",
        "H.op.__call__ = double", "Op.__init__ = lambda self, k: setattr(self, 'k', 1)", "H.op.method = $f",
    ),
))  # fmt: skip

part(Part(
    "lib",
    classes="""
lib = types.ModuleType('drawn_lib')
sys.modules['drawn_lib'] = lib
lib.scale = $v
lib.act = $f
lib.sub = types.ModuleType('drawn_lib.sub')
sys.modules['drawn_lib.sub'] = lib.sub
lib.sub.k = $v
exec('def run(x):\\n    return use(x, scale)', vars(lib))
lib.use = use
""",
    make="H.module = lib",
    places=("lib.scale", "lib.act", "H.module.scale", "lib.sub.k"),
    reads=(
        "import drawn_lib\nx = use(x, drawn_lib.scale)",
        "from drawn_lib import act as acting\nx = acting(x)",
        "import drawn_lib.sub as sub\nx = use(x, sub.k)",
        "from drawn_lib.sub import k\nx = use(x, k)",
        "x = lib.run(x)",
        "try:\n    from drawn_lib import other\n    x = use(x, other)\nexcept ImportError as error:\n    out.append(str(error))",
        "out.append((hasattr(lib, 'other'), 'drawn_lib' in sys.modules, lib.__name__))",
        "x = use(x, getattr(lib, 'other', 3))",
        "lib.calls = getattr(lib, 'calls', 0) + 1",
        "x = x * len([1, 2]) + abs(-2)",
        "from math import sqrt\nx = x * sqrt(4)",
        "import math as numbers\nx = x * numbers.floor(2.5)",
    ),
    changes=(
        "lib.scale = $v", "del lib.scale", "lib.act = $f", "lib.other = $v", "del lib.other", "lib.__getattr__ = lambda name: $v", "del lib.__getattr__", "lib.__class__ = type('M', (types.ModuleType,), {'other': $v})",
        "lib.sub.k = $v", "lib.sub = space(k=$v)", "sys.modules['drawn_lib'] = types.ModuleType('drawn_lib')", "sys.modules['drawn_lib'] = lib", "sys.modules['drawn_lib'] = space(scale=$v, act=$f)",
        "del sys.modules['drawn_lib.sub']", "len = lambda v: $n", "del len", "abs = lambda v: 7", "del abs", "patch(math, 'sqrt', lambda v: 3.0)", "patch(math, 'floor', lambda v: 5)", "lib.len = lambda v: 3",
        "lib.run = $f", "lib.use = lambda x, v: x + 100", "lib.run.__code__ = double.__code__", "H.module = space(scale=$v)", "isinstance = lambda v, t: False", "del isinstance",
        "callable = lambda v: False", "del callable", "patch(builtins, 'abs', lambda v: 9)", "getattr = lambda o, n, d=None: d", "del getattr",
    ),
))  # fmt: skip

part(Part(
    "patched",
    make="H.relu = F.relu\nH.layer = nn.Linear(3, 3)\nH.drop = nn.Dropout(0.5)",
    reads=(
        "x = F.relu(x)",
        "x = H.relu(x) + torch.sin(x)",
        "x = H.layer(x)",
        "x = torch.relu(x).abs()",
        "x = nn.ReLU()(x)",
        "x = H.drop(x)",
        "x = F.dropout(x, 0.5, training=True)",
        "x = x.relu() + math.sqrt(4)",
        "x = F.linear(x, torch.ones(3, 3))",
        "x = x.double().float()",
        "x = F.gelu(x, approximate='tanh')",
        "x = torch.nn.functional.softmax(x, dim=-1)",
        "out.append((F.relu is H.relu, hasattr(torch, 'extra'), hasattr(torch.Tensor, 'extra'), nn.Linear.__name__))",
        "x = F.layer_norm(x, (3,))",
    ),
    changes=(
        "patch(F, 'relu', F.silu)", "patch(F, 'relu', $f)", "patch(torch, 'relu', lambda x: x * 6)", "patch(torch, 'sin', torch.cos)", "patch(nn.Linear, 'forward', lambda self, x: x * 2)", "patch(nn.ReLU, 'forward', lambda self, x: x + 8)",
        "patch(torch, 'extra', 1)", "patch(torch.Tensor, 'extra', 1)", "patch(F, 'linear', lambda x, w, b=None: x - 3)", "patch(nn.Module, '__call__', lambda self, x: x * 13)", "patch(F, 'dropout', lambda x, p=0.5, training=True, inplace=False: x)",
        "patch(torch.Tensor, 'abs', torch.Tensor.neg)", "patch(torch.Tensor, 'relu', lambda self: self * 2)", "patch(torch.Tensor, 'double', lambda self: self)", "patch(nn.Dropout, 'forward', lambda self, x: x)", "unpatch()", "unpatch()", "unpatch()",
        "H.layer.bias = None", "H.layer.weight = nn.Parameter(torch.eye(3))", "H.layer = nn.Linear(3, 3, bias=False)", "H.drop.p = 0.0", "H.drop.eval()", "H.drop.train()", "H.relu = F.silu", "patch(F, 'softmax', lambda x, dim: x)",
        "patch(F, 'gelu', lambda x, approximate='none': x)", "patch(torch.nn, 'functional', space(relu=double, softmax=lambda x, dim: x))", "patch(nn, 'ReLU', nn.Tanh)", "patch(torch.nn.functional, 'layer_norm', lambda x, s: x)",
    ),
))  # fmt: skip

part(Part(
    "failing",
    classes="""
class Failure(ValueError):
    code = $n
class Worse(Failure):
    pass
def check(x, v):
    if isinstance(v, str):
        raise Worse(v)
    if v is None:
        raise KeyError('none')
    return x
""",
    make="H.checked = $v\nH.caught = Failure\nH.failure = Worse('stored')",
    places=("H.checked", "Failure.code"),
    reads=(
        "try:\n    x = check(x, H.checked)\nexcept H.caught as error:\n    x = use(x, error.code)",
        "try:\n    x = check(x, 'text')\nexcept Worse as error:\n    x = x + error.code\nfinally:\n    x = x * 2",
        "try:\n    x = check(x, H.checked)\nexcept (KeyError, Failure) as error:\n    out.append((type(error).__name__, str(error), error.args))\nelse:\n    x = x + 1",
        "try:\n    raise H.failure\nexcept Failure as error:\n    out.append(str(error))",
        "try:\n    raise H.failure from KeyError('cause')\nexcept ValueError as error:\n    out.append(repr(error.__cause__))",
        "x = check(x, H.checked)",
        "assert H.checked is not None, 'message'",
        "try:\n    x = use(x, {}[H.checked])\nexcept LookupError as error:\n    out.append(str(error))\nexcept TypeError as error:\n    out.append(str(error))",
        "try:\n    check(x, None)\nexcept BaseException as error:\n    out.append(error)",
    ),
    changes=(
        "H.checked = $v", "H.checked = 'bad'", "H.checked = None", "Failure.code = $v", "Worse.code = $v", "del Failure.code", "H.caught = KeyError", "H.caught = (Failure, KeyError)", "H.caught = Worse", "H.caught = int",
        "Worse.__bases__ = (KeyError,)", "Worse.__str__ = lambda self: 'told'", "Failure.__init__ = lambda self, *args: setattr(self, 'code', 9)", "H.failure = KeyError('k')", "H.failure = Worse", "check.__code__ = (lambda x, v: x * 2).__code__",
        "Worse = KeyError", "H.failure.args = ('other',)", "H.failure.add_note('note')",
    ),
))  # fmt: skip
