"""What is true of operators, layouts and dtypes, and what eager says where it refuses them: the one place the parts ask."""

from symshapes.facts.errors import on_two_devices, uncastable, unlike_sizes, unlike_target
from symshapes.facts.layout import (
    inverse_permutation,
    is_block,
    is_dense,
    memory_order,
    same_layout,
    same_metadata,
    same_size,
    same_sizes,
)
from symshapes.facts.operators import (
    OperatorFacts,
    WrittenArgument,
    facts_if_operator,
    facts_of,
    forget_operators,
    override_questions,
)
from symshapes.facts.promotion import (
    HALF_DTYPES,
    NUMBER_DTYPES,
    Operand,
    common_device,
    complex_dtype,
    float_dtype,
    number_dtype,
    opmath_dtype,
    real_dtype,
    result_dtype,
)

__all__ = [
    "HALF_DTYPES",
    "NUMBER_DTYPES",
    "Operand",
    "OperatorFacts",
    "WrittenArgument",
    "common_device",
    "complex_dtype",
    "facts_if_operator",
    "facts_of",
    "float_dtype",
    "forget_operators",
    "inverse_permutation",
    "is_block",
    "is_dense",
    "memory_order",
    "number_dtype",
    "on_two_devices",
    "opmath_dtype",
    "override_questions",
    "real_dtype",
    "result_dtype",
    "same_layout",
    "same_metadata",
    "same_size",
    "same_sizes",
    "uncastable",
    "unlike_sizes",
    "unlike_target",
]
