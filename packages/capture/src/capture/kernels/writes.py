"""Which of its parameters a kernel writes through, found in its syntax tree.

In: a kernel's function, which parameters are tensors, and what is known of its constants. Out: names of parameters, or None where something is not understood,
so that all of them must be taken to be written to.

Pointers are followed through assignments without regard to order: a variable may point wherever anything assigned to it may.
A value read from memory is no pointer, unless the code makes pointers of integers: such a kernel may write to what it was not
even given, and is refused.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from capture.errors import Unsupported

from .description import is_jit_function
from .references import MISSING, Code, is_of_triton

#: Of `triton.language`, what only computes: its result points where its arguments do, if anywhere.
_PURE = frozenset(
    {
        "program_id", "num_programs", "arange", "full", "zeros", "zeros_like", "broadcast", "broadcast_to",
        "trans", "permute", "cat", "join", "split", "view", "item", "reshape", "expand_dims", "cast", "dot",
        "dot_scaled", "make_block_ptr", "advance", "where", "add", "sub", "mul", "minimum", "maximum", "clamp",
        "reduce", "associative_scan", "histogram", "gather", "debug_barrier", "multiple_of", "max_contiguous",
        "max_constancy", "assume", "static_print", "static_assert", "device_print", "device_assert", "range",
        "static_range", "constexpr", "tensor", "to", "to_tensor", "cdiv", "sigmoid", "softmax", "ravel",
        "swizzle2d", "max", "argmax", "min", "argmin", "sum", "xor_sum", "reduce_or", "cumsum", "cumprod",
        "sort", "topk", "flip", "interleave", "squeeze", "unsqueeze", "umulhi", "exp", "exp2", "log", "log2",
        "cos", "sin", "sqrt", "sqrt_rn", "rsqrt", "abs", "fdiv", "div_rn", "erf", "floor", "ceil", "fma",
        "philox", "philox_impl", "randint", "randint4x", "rand", "rand4x", "randn", "randn4x",
        "uint_to_uniform_float", "pair_uniform_to_normal", "bfloat16", "float16", "float32", "float64", "int1",
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    }
)  # fmt: skip
#: Pure, and what it gives points nowhere.
_READS = frozenset({"load"})
_WRITES = frozenset(
    {
        "store", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
        "atomic_xchg", "atomic_xor",
    }
)  # fmt: skip
#: Of the language.
_BUILTINS = frozenset({"range", "min", "max", "int", "float", "bool", "len", "abs", "print", "isinstance", "getattr"})
#: Makes pointers out of integers.
_CASTS = ("pointer_type", "PointerType")
_DEEPEST = 16


def refuse_casts(name: str, texts: Iterable[str]) -> None:
    """Raise ``Unsupported`` if the sources of a kernel and its helpers make pointers of integers."""
    if any(word in text for text in texts for word in _CASTS):
        raise casts(name)


def casts(name: str) -> Unsupported:
    """Why such a kernel is refused."""
    return Unsupported(f"the Triton function {name}, which makes pointers of other values")


class _Puzzled(Exception):
    """Something is not understood."""


Points = frozenset[str]
NOWHERE: Points = frozenset()


def written_by(
    function: types.FunctionType, tensors: Collection[str], constants: Mapping[str, Any]
) -> frozenset[str] | None:
    """Those of the parameters `tensors` that a kernel may write through; `constants` are those of known value. None: it may be any.

    Raises ``Unsupported`` where it may write anywhere."""
    code = Code(function)
    try:
        walk = _Walk(code, {name: frozenset({name}) for name in tensors}, constants, 0)
        walk.run()
    except _Puzzled:
        return None
    return frozenset(walk.written)


class _Walk:
    """One function: where its variables may point, by names of the kernel's parameters, and which of them it writes through."""

    def __init__(self, code: Code, points: dict[str, Points], constants: Mapping[str, Any], depth: int) -> None:
        if depth > _DEEPEST:
            raise _Puzzled
        self.code = code
        self.points = points
        assigned = {n.id for n in ast.walk(code.tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        self.constants = {name: value for name, value in constants.items() if name not in assigned}
        self.depth = depth
        self.written: set[str] = set()
        self.returned = NOWHERE

    def run(self) -> None:
        while True:
            before = (dict(self.points), set(self.written), self.returned)
            self.block(self.code.tree.body)
            if before == (self.points, self.written, self.returned):
                return

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets, value):
                self.assign(targets, self.value(value))
            case ast.AnnAssign(target, _, value):
                self.assign([target], NOWHERE if value is None else self.value(value))
            case ast.AugAssign(target, _, value):
                self.assign([target], self.value(value))
            case ast.Expr(value):
                self.value(value)
            case ast.Return(value):
                self.returned |= NOWHERE if value is None else self.value(value)
            case ast.If(test, then, otherwise):
                self.value(test)
                known = self.known(test)
                if known is not False:
                    self.block(then)
                if known is not True:
                    self.block(otherwise)
            case ast.For(target, over, body, otherwise):
                self.assign([target], self.value(over))
                self.block(body + otherwise)
            case ast.While(test, body, otherwise):
                self.value(test)
                self.block(body + otherwise)
            case ast.Assert(test):
                self.value(test)
            case ast.Pass() | ast.Break() | ast.Continue():
                pass
            case _:
                raise _Puzzled

    def assign(self, targets: list[ast.expr], points: Points) -> None:
        for target in targets:
            match target:
                case ast.Name(name):
                    self.points[name] = self.points.get(name, NOWHERE) | points
                case ast.Tuple(parts) | ast.List(parts):
                    self.assign(parts, points)
                case _:
                    raise _Puzzled

    def known(self, test: ast.expr) -> bool | None:
        """Whether a condition holds, where constants alone say it."""
        match test:
            case ast.Name(name) if name in self.constants:
                return bool(self.constants[name])
            case ast.UnaryOp(ast.Not(), operand):
                inner = self.known(operand)
                return None if inner is None else not inner
            case ast.Compare(ast.Name(name), [ast.Is() | ast.IsNot() as how], [ast.Constant(None)]) if (
                name in self.constants
            ):
                return (self.constants[name] is None) is isinstance(how, ast.Is)
        return None

    def value(self, node: ast.expr) -> Points:
        """Where an expression's value may point; calls in it are looked at."""
        match node:
            case ast.Call():
                return self.call(node)
            case ast.Name(name):
                return self.points.get(name, NOWHERE)
            case ast.Attribute(owner, "element_ty"):
                self.value(owner)
                return NOWHERE
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.NamedExpr():
                raise _Puzzled
            case ast.Await() | ast.Yield() | ast.YieldFrom() | ast.Starred():
                raise _Puzzled
        return self.union(*(each for each in ast.iter_child_nodes(node) if isinstance(each, (ast.expr, ast.Slice))))

    def union(self, *nodes: ast.expr) -> Points:
        return NOWHERE.union(*map(self.value, nodes))

    def call(self, node: ast.Call) -> Points:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(keyword.arg is None for keyword in node.keywords):
            raise _Puzzled
        function = self.code.resolve(node.func)
        if function is MISSING:
            return self.unresolved(node, given)
        if is_jit_function(function) and not is_of_triton(function):
            return self.helper(function, node)
        module = str(getattr(function.fn if is_jit_function(function) else function, "__module__", ""))
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(function, "__name__", "")
        if not module.startswith("triton.") or getattr(function, "__name__", name) != name:
            raise _Puzzled
        if "libdevice" in module:
            return self.union(*given)
        return self.known_call(name, [], given, node)

    def unresolved(self, node: ast.Call, given: list[ast.expr]) -> Points:
        """A built-in of the language, or a method of a value."""
        match node.func:
            case ast.Name(name) if name in _BUILTINS and name not in self.code.locals:
                return self.union(*given)
            case ast.Attribute(owner, name) if self.code.resolve(owner) is MISSING:
                return self.known_call(name, [owner], [owner, *given], node)
        raise _Puzzled

    def known_call(self, name: str, owner: list[ast.expr], given: list[ast.expr], node: ast.Call) -> Points:
        """A function of `triton.language`, or the method of that name."""
        points = self.union(*given)
        if name in _WRITES:
            named = [keyword.value for keyword in node.keywords if keyword.arg == "pointer"]
            target = self.union(*(owner or node.args[:1] or named))
            if not target:
                raise _Puzzled
            self.written |= target
            return NOWHERE
        if name in _READS:
            return NOWHERE
        if name in ("to", "cast") and self.union(*(given[1:] if given else ())):
            raise casts(self.code.function.__name__)
        if name not in _PURE:
            raise _Puzzled
        return points

    def helper(self, function: Any, node: ast.Call) -> Points:
        """A call of another function of the program's."""
        code = Code(function.fn)
        tree = code.tree.args
        if tree.vararg or tree.kwarg or len(node.args) > len(code.parameters):
            raise _Puzzled
        points = dict.fromkeys(code.parameters, NOWHERE)
        constants = {}
        pairs = [*zip(code.parameters, node.args, strict=False), *((k.arg or "", k.value) for k in node.keywords)]
        for name, value in pairs:
            points[name] = self.value(value)
            if isinstance(value, ast.Constant):
                constants[name] = value.value
            elif isinstance(value, ast.Name) and value.id in self.constants:
                constants[name] = self.constants[value.id]
        walk = _Walk(code, points, constants, self.depth + 1)
        walk.run()
        self.written |= walk.written
        return walk.returned
