"""Symbolic shapes and fake tensors for PyTorch."""

# First of all, and for all parts, since each imports this one: whether this Python and this torch will do.
from symshapes import _supported as _supported  # isort: split

from symshapes.collecting import collection_held_back, imported_to_stay
from symshapes.finding import find_quickly

# A collection would walk over all that the program has, and find nothing.
with imported_to_stay():
    find_quickly(__spec__)
    from symshapes._torch import definer_of, python_kernels, register_fake
    from symshapes.ambient import Ambient, Machine, ambient, fixed_ambient
    from symshapes.answers import going_on
    from symshapes.argument_text import argument_text
    from symshapes.checkpoint import Checkpoint
    from symshapes.control_flow import (
        Arm,
        AssociativeScan,
        Branch,
        Conditional,
        ControlFlow,
        Loop,
        Scan,
        Switch,
        connected,
    )
    from symshapes.counted import counted_factories
    from symshapes.env import ShapeEnv
    from symshapes.expr import (
        SYMBOLIC,
        ExprWriter,
        FloorDiv,
        IntFunction,
        Max,
        Min,
        Mod,
        evaluate,
        expr_of,
        expr_text,
        hint_of,
        index_symbol,
        is_open,
        is_unbacked,
        parse_expr,
        print_expr,
        read_exprs,
        simplify_with_ranges,
        size_symbol,
    )
    from symshapes.expr.ranges import ValueRange, bound
    from symshapes.facts import (
        ELEMENTWISE,
        HALF_DTYPES,
        NUMBER_DTYPES,
        RANDOM,
        OperatorFacts,
        WrittenArgument,
        facts_if_operator,
        facts_of,
        holds_all_of,
        inverse_permutation,
        is_block,
        is_dense,
        memory_order,
        opmath_dtype,
        override_questions,
        register_apart,
        register_function,
        register_in_place,
        register_launches,
        result_dtype,
        same_layout,
        same_metadata,
        same_size,
        same_sizes,
        share_memory,
        shares_memory_lines,
        uncastable,
        unlike_sizes,
        unlike_target,
    )
    from symshapes.fake import FakeMode, FakeTensor, taking_symbols
    from symshapes.finalizers import TraceSpoiled, finalizers_outside_modes
    from symshapes.generated import (
        build_function,
        build_python,
        is_generated,
        is_own_file,
        mark_generated,
        on_generated,
        own_folders,
        reset_generated,
    )
    from symshapes.graph_module import LazyGraphModule
    from symshapes.graph_text import read_last
    from symshapes.guards import ShapeGuard, ShapeGuardCode, Specialization, SymbolFacts
    from symshapes.infra_mode import InfraMode
    from symshapes.lazy import import_whole, lazy_package
    from symshapes.magic import install as _install_magic
    from symshapes.node import SymNode
    from symshapes.numbers import number_function
    from symshapes.phases import phase, timed_phases
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
    from symshapes.records import dataclass, fields_of
    from symshapes.rules import (
        DataDependentError,
        TensorMeta,
        View,
        contiguous_strides,
        looks_channels_last,
        missing_rules,
        register_rule,
        reset_rules,
        rules_changed,
    )
    from symshapes.runtime_checks import OtherWay, refused, require
    from symshapes.straight_line import StraightLine, names_in
    from symshapes.turns import in_turn
    from symshapes.unbacked import UnbackedError
    from symshapes.undisturbed import levels_kept, undisturbed_autograd

__all__ = [
    "ELEMENTWISE",
    "HALF_DTYPES",
    "NUMBER_DTYPES",
    "RANDOM",
    "SYMBOLIC",
    "Ambient",
    "Arm",
    "AssociativeScan",
    "Branch",
    "Checkpoint",
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
    "IntFunction",
    "LazyGraphModule",
    "Loop",
    "Machine",
    "MarkError",
    "Max",
    "Min",
    "Mod",
    "OperatorFacts",
    "OtherWay",
    "Scan",
    "ShapeEnv",
    "ShapeGuard",
    "ShapeGuardCode",
    "Specialization",
    "StraightLine",
    "Switch",
    "SymNode",
    "SymbolFacts",
    "TensorMeta",
    "TraceSpoiled",
    "UnbackedError",
    "ValueRange",
    "View",
    "WrittenArgument",
    "ambient",
    "argument_text",
    "bound",
    "build_function",
    "build_python",
    "collection_held_back",
    "connected",
    "constrain_range",
    "contiguous_strides",
    "counted_factories",
    "dataclass",
    "definer_of",
    "evaluate",
    "expr_of",
    "expr_text",
    "facts_if_operator",
    "facts_of",
    "fields_of",
    "finalizers_outside_modes",
    "find_quickly",
    "fixed_ambient",
    "going_on",
    "hint_of",
    "holds_all_of",
    "import_whole",
    "imported_to_stay",
    "in_turn",
    "index_symbol",
    "inverse_permutation",
    "is_block",
    "is_dense",
    "is_generated",
    "is_open",
    "is_own_file",
    "is_unbacked",
    "lazy_package",
    "levels_kept",
    "looks_channels_last",
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
    "override_questions",
    "own_folders",
    "parse_expr",
    "phase",
    "policy_of",
    "print_expr",
    "python_kernels",
    "read_exprs",
    "read_last",
    "refused",
    "register_apart",
    "register_fake",
    "register_function",
    "register_in_place",
    "register_launches",
    "register_rule",
    "require",
    "reset_generated",
    "reset_rules",
    "result_dtype",
    "rules_changed",
    "same_layout",
    "same_metadata",
    "same_size",
    "same_sizes",
    "share_memory",
    "shares_memory_lines",
    "simplify_with_ranges",
    "size_symbol",
    "taking_symbols",
    "timed_phases",
    "uncastable",
    "undisturbed_autograd",
    "unlike_sizes",
    "unlike_target",
]

_install_magic()
own_folders(__path__)
