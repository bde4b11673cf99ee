"""Symbolic shapes and fake tensors for PyTorch."""

# First of all, and for all parts, since each imports this one: whether this Python and this torch will do.
from symshapes import _supported as _supported  # isort: split

from symshapes.ambient import Ambient, Machine, ambient, fixed_ambient
from symshapes.control_flow import Conditional, ControlFlow, Loop
from symshapes.counted import counted_factories
from symshapes.env import ShapeEnv, UnbackedError
from symshapes.expr import (
    SYMBOLIC,
    ExprWriter,
    FloorDiv,
    Max,
    Min,
    Mod,
    evaluate,
    expr_of,
    expr_text,
    hint_of,
    index_symbol,
    is_unbacked,
    parse_expr,
    print_expr,
    read_exprs,
    simplify_with_ranges,
    size_symbol,
)
from symshapes.expr.ranges import ValueRange, bound
from symshapes.facts import (
    HALF_DTYPES,
    NUMBER_DTYPES,
    OperatorFacts,
    WrittenArgument,
    facts_if_operator,
    facts_of,
    inverse_permutation,
    is_block,
    is_dense,
    memory_order,
    opmath_dtype,
    result_dtype,
    same_layout,
    same_metadata,
    same_size,
    same_sizes,
    uncastable,
    unlike_sizes,
    unlike_target,
)
from symshapes.fake import FakeMode, FakeTensor, taking_symbols
from symshapes.finalizers import TraceSpoiled, finalizers_outside_modes
from symshapes.generated import (
    build_python,
    is_generated,
    is_own_file,
    mark_generated,
    on_generated,
    own_folders,
    reset_generated,
)
from symshapes.graph_module import LazyGraphModule
from symshapes.guards import ShapeGuard, ShapeGuardCode, Specialization, SymbolFacts
from symshapes.infra_mode import InfraMode
from symshapes.magic import install as _install_magic
from symshapes.node import SymNode
from symshapes.numbers import number_function
from symshapes.policy import (
    Dim,
    DimMark,
    DimPolicy,
    MarkError,
    constrain_range,
    mark_dynamic,
    mark_static,
    mark_unbacked,
    maybe_mark_dynamic,
    policy_of,
)
from symshapes.rules import (
    DataDependentError,
    TensorMeta,
    View,
    contiguous_strides,
    missing_rules,
    register_rule,
    reset_rules,
)
from symshapes.runtime_checks import refused, require
from symshapes.straight_line import StraightLine, names_in
from symshapes.undisturbed import undisturbed_autograd

__all__ = [
    "HALF_DTYPES",
    "NUMBER_DTYPES",
    "SYMBOLIC",
    "Ambient",
    "Conditional",
    "ControlFlow",
    "DataDependentError",
    "Dim",
    "DimMark",
    "DimPolicy",
    "ExprWriter",
    "FakeMode",
    "FakeTensor",
    "FloorDiv",
    "InfraMode",
    "LazyGraphModule",
    "Loop",
    "Machine",
    "MarkError",
    "Max",
    "Min",
    "Mod",
    "OperatorFacts",
    "ShapeEnv",
    "ShapeGuard",
    "ShapeGuardCode",
    "Specialization",
    "StraightLine",
    "SymNode",
    "SymbolFacts",
    "TensorMeta",
    "TraceSpoiled",
    "UnbackedError",
    "ValueRange",
    "View",
    "WrittenArgument",
    "ambient",
    "bound",
    "build_python",
    "constrain_range",
    "contiguous_strides",
    "counted_factories",
    "evaluate",
    "expr_of",
    "expr_text",
    "facts_if_operator",
    "facts_of",
    "finalizers_outside_modes",
    "fixed_ambient",
    "hint_of",
    "index_symbol",
    "inverse_permutation",
    "is_block",
    "is_dense",
    "is_generated",
    "is_own_file",
    "is_unbacked",
    "mark_dynamic",
    "mark_generated",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "memory_order",
    "missing_rules",
    "names_in",
    "number_function",
    "on_generated",
    "opmath_dtype",
    "own_folders",
    "parse_expr",
    "policy_of",
    "print_expr",
    "read_exprs",
    "refused",
    "register_rule",
    "require",
    "reset_generated",
    "reset_rules",
    "result_dtype",
    "same_layout",
    "same_metadata",
    "same_size",
    "same_sizes",
    "simplify_with_ranges",
    "size_symbol",
    "taking_symbols",
    "uncastable",
    "undisturbed_autograd",
    "unlike_sizes",
    "unlike_target",
]

_install_magic()
own_folders(__path__)
