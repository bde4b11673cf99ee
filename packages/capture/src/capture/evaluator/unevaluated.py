"""Operations that the compiler emits and no evaluation takes: why, in words, for the report of a break.

What is in neither this table nor among the handlers is of the interpreter itself, and in no code object.
"""

from __future__ import annotations

_INTERACTIVE = "a statement that shows its value, of an interactive session"
_PARAMETERS = "a type parameter, of which the interpreter makes an object"

#: By name of the operation.
UNEVALUATED = {
    "IMPORT_STAR": "an import of all names of a module",
    "PRINT_EXPR": _INTERACTIVE,
    "END_ASYNC_FOR": "asynchronous code",
}  # fmt: skip

#: By number of the operation of one operand that a CALL_INTRINSIC_1 is.
UNEVALUATED_UNARY = {
    1: _INTERACTIVE,
    2: "an import of all names of a module",
    4: "asynchronous code",
    7: _PARAMETERS,
    8: _PARAMETERS,
    9: _PARAMETERS,
    10: "a class with type parameters",
    11: "a type statement",
}

#: The same of the operations of two operands.
UNEVALUATED_BINARY = {
    2: _PARAMETERS,
    3: _PARAMETERS,
    4: "a function with type parameters",
    5: _PARAMETERS,
}


def why_unevaluated(name: str, arg: int) -> str:
    """What to say of an operation without a handler."""
    if name == "CALL_INTRINSIC_2":
        return UNEVALUATED_BINARY.get(arg, f"intrinsic {arg} of two operands")
    return UNEVALUATED.get(name, f"operation {name}")


def why_no_intrinsic(number: int) -> str:
    """What to say of a CALL_INTRINSIC_1 of this number."""
    return UNEVALUATED_UNARY.get(number, f"intrinsic {number}")
