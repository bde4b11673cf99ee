"""Calls of operators as C++: by the shim's own function for one, else by name through the dispatcher.

Flows in: an `ExternOp` and how to write tensors and numbers. Flows out: lines of C++, and what they import.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sympy
import torch

from inductor._torch import OpOverload
from inductor.codegen.native.shim import Inexpressible, Parameter, own_function, parameters, type_text
from inductor.host import HOST
from inductor.ir.program import ExternOp, StridedView
from symshapes import SYMBOLIC

_LIST = "[]"


class CallPrinter:
    """Prints calls of operators.

    Args:
        view: writes a tensor argument: a variable of type `Tensor`; it may put lines before.
        number: writes an integer, a float or a condition.
        lines: where statements go.
        use: imports a function of the shim: its symbol, its C type; gives the variable that holds its address.
    """

    def __init__(
        self,
        view: Callable[[StridedView], str],
        number: Callable[[Any], str],
        lines: list[str],
        use: Callable[[str, str], str],
    ) -> None:
        self._view = view
        self._number = number
        self._lines = lines
        self._use = use
        self._made = 0

    def call(self, op: ExternOp, into: str | None, results: list[str | None]) -> None:
        """Print the call.

        Args:
            into: the variable that the one result is written into, where it has memory already.
            results: variables of type `Tensor` for the results; None for one that is not read.

        Raises:
            Inexpressible: an argument or a result is of a kind that the shim does not take.
        """
        target = op.target
        if not isinstance(target, OpOverload):
            raise Inexpressible(f"a call of {getattr(target, '__name__', target)}, which is no operator")
        schema = target._schema
        if schema.name.split("::")[0] != "aten":
            raise Inexpressible(f"the operator {target}, which torch does not have by itself")
        self._what = str(target)
        given = list(zip(parameters(schema), self._arguments(op, parameters(schema)), strict=True))
        own = own_function(schema, into is not None)
        if own is not None and all(self._passes(op, parameter, value) for parameter, value in given):
            self._own(*own, schema.name, given, into, results)
        elif into is not None:
            self._by_name(schema.name, "out", [*given, (_OUT, into)], ["Tensor"], [None])
        else:
            returned = [type_text(result.type) for result in schema.returns]
            self._by_name(schema.name, schema.overload_name, given, returned, results)

    def _arguments(self, op: ExternOp, wanted: list[Parameter]) -> list[Any]:
        values = []
        for at, parameter in enumerate(wanted):
            if at < len(op.args):
                value = op.args[at]
            elif parameter.name in op.kwargs:
                value = op.kwargs[parameter.name]
            elif parameter.required:
                raise Inexpressible(f"{op.target} without {parameter.name}")
            else:
                value = parameter.default
            if parameter.type.endswith(_LIST) and value is not None and not isinstance(value, list | tuple):
                value = [value] * (parameter.length or 1)
            values.append(value)
        return values

    @staticmethod
    def _passes(op: ExternOp, parameter: Parameter, value: Any) -> bool:
        """Whether the shim's own function gets the same value: it takes scalars as doubles, which integers' operators refuse."""
        kind = parameter.type
        if kind == "Scalar":
            return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and _floats(op))
        return not (kind in ("int[]?", "Generator?") and value is not None)

    # ---- By the shim's own function

    def _own(
        self,
        symbol: str,
        kind: str,
        name: str,
        given: list[tuple[Parameter, Any]],
        into: str | None,
        results: list[str | None],
    ) -> None:
        args = [] if into is None else [f"{into}.handle"]
        for parameter, value in given:
            args += self._passed(parameter.type, value)
        spare = []
        if into is None:
            for result in results:
                if result is None:
                    result = self._variable("Tensor {};")
                spare.append(result)
                args.append(f"{result}.result()")
        function = self._use(symbol, kind)
        self._lines.append(f"check({function}({', '.join(args)}), {json.dumps(name)});")
        self._lines += [f"{result}.got();" for result in spare]

    def _passed(self, kind: str, value: Any) -> list[str]:
        """The C arguments for one of a schema's."""
        if kind.endswith("?"):
            inner = kind[:-1]
            if value is None:
                return ["nullptr", "0"] if inner.endswith(_LIST) else ["nullptr"]
            if inner == "Tensor":
                return [f"&{self._tensor(value)}.handle"]
            (text,) = self._passed(inner, value)
            return [f"&{self._variable(f'{_C_TYPES[inner]} {{}} = {text};')}"]
        if kind.endswith(_LIST):
            inner = kind[:-2]
            if not value:
                return ["nullptr", "0"]
            items = ", ".join(text for each in value for text in self._passed(inner, each))
            return [self._variable(f"const {_C_TYPES[inner]} {{}}[] = {{{items}}};"), str(len(value))]
        if kind == "Tensor":
            return [f"{self._tensor(value)}.handle"]
        return [self._plain(kind, value)]

    def _tensor(self, value: Any) -> str:
        if not isinstance(value, StridedView):
            raise Inexpressible(f"{self._what}, which takes the number {value} as a tensor")
        return self._view(value)

    def _plain(self, kind: str, value: Any) -> str:
        if kind in ("int", "float", "bool", "Scalar"):
            return self._number(value)
        if kind == "str":
            return json.dumps(value)
        if kind == "ScalarType":
            return f"{self.dtype(value)}()"
        if kind in ("Layout", "MemoryFormat"):
            what = "layout" if kind == "Layout" else "memory_format"
            return f"{self._use(f'aoti_torch_{what}_{_short(value)}', 'int32_t (*{})()')}()"
        raise Inexpressible(f"{self._what}, an argument of which is of type {kind}")

    def dtype(self, value: torch.dtype) -> str:
        """The variable of the function that says what number a dtype has."""
        return self._use(f"aoti_torch_dtype_{_short(value)}", "int32_t (*{})()")

    def _variable(self, declaration: str) -> str:
        self._made += 1
        name = f"a{self._made}"
        self._lines.append(declaration.replace("{}", name, 1))
        return name

    # ---- By name

    def _by_name(
        self,
        name: str,
        overload: str,
        given: list[tuple[Parameter, Any]],
        returned: list[str],
        results: list[str | None],
    ) -> None:
        room = max(len(given), len(returned), 1)
        items = [self._stable(parameter.type, value) for parameter, value in given]
        stack = self._variable(f"Stable {{}}[{room}] = {{{', '.join(items)}}};")
        self._lines.append(f"dispatch({json.dumps(name)}, {json.dumps(overload)}, {stack});")
        if returned == ["Tensor[]"]:
            places = ", ".join("nullptr" if result is None else f"&{result}" for result in results)
            count = len(results)
            listed = self._variable(f"Tensor* {{}}[] = {{{places or 'nullptr'}}};")
            self._lines.append(f"taken_list({stack}[0], {listed}, {count});")
            return
        if any(kind != "Tensor" for kind in returned):
            raise Inexpressible(f"{self._what}, a result of which is no tensor")
        for at, result in enumerate(results):
            self._lines.append(f"{'' if result is None else f'{result} = '}taken({stack}[{at}]);")

    def _stable(self, kind: str, value: Any) -> str:
        if kind.endswith("?"):
            return "0" if value is None else f"stable_some({self._stable(kind[:-1], value)})"
        if kind.endswith(_LIST):
            items = ", ".join(self._stable(kind[:-2], each) for each in value)
            if not items:
                return "stable_list(nullptr, 0)"
            return f"stable_list({self._variable(f'const Stable {{}}[] = {{{items}}};')}, {len(value)})"
        if kind == "Tensor":
            return f"stable_tensor({value if isinstance(value, str) else self._tensor(value)})"
        if kind == "int" or kind == "bool":
            return f"stable({self._number(value)})"
        if kind == "float":
            return f"stable_float({self._number(value)})"
        if kind == "str":
            return f"stable_string({json.dumps(value)}, {len(value.encode())})"
        if kind == "Device":
            if torch.device(value) != HOST:
                raise Inexpressible(f"{self._what} on {value}")
            return "stable_device(shim.cpu(), -1)"
        if kind in ("ScalarType", "Layout", "MemoryFormat"):
            return f"stable_enum({self._plain(kind, value)})"
        raise Inexpressible(f"{self._what}, which takes a {kind}, and the dispatcher's C function does not")


_OUT = Parameter("out", "Tensor", None, None, True, True)
_C_TYPES = {
    "Tensor": "Handle", "int": "int64_t", **dict.fromkeys(("float", "Scalar"), "double"),
    **dict.fromkeys(("bool", "ScalarType"), "int32_t"),
}  # fmt: skip


def _floats(op: ExternOp) -> bool:
    """Whether the results are of a floating dtype, as the shape rules said."""
    value = op.origins[-1].meta.get("val") if op.origins else None
    values = value if isinstance(value, tuple | list) else (value,)
    return all(isinstance(each, torch.Tensor) and each.dtype.is_floating_point for each in values)


def _short(value: Any) -> str:
    return str(value).removeprefix("torch.")


def plain_number(value: Any) -> Any:
    """A number or an expression of an argument, as sympy's or Python's."""
    if isinstance(value, SYMBOLIC):
        return value.node.expr
    if value is None or not isinstance(value, bool | int | float | sympy.Basic):
        raise Inexpressible(f"an argument that is a {type(value).__name__}")
    return value
