"""Locals, cells, globals, names, attributes, imports, and moves on the value stack."""

from __future__ import annotations

import importlib.util
import opcode
import sys
from typing import Any, NoReturn

from capture._native import address
from capture.bytecode.dialect import current
from capture.errors import Unsupported
from capture.evaluator.frame import Frame
from capture.evaluator.machine import Machine
from capture.evaluator.program import DOES_NOTHING, LITERALS, LOADS_LITERAL, LOADS_LOCAL, STORES_LOCAL, Op
from capture.guards import Guard, GuardKind
from capture.resume import origin_of
from capture.variables.base import SymbolicRaise, Variable
from capture.variables.class_names import ClassNames
from capture.variables.constants import Constant, looked_up
from capture.variables.functions import Cell
from capture.variables.generators import Suspended
from capture.variables.placeholders import NULL
from capture.variables.sequences import Tuple
from capture.variables.supers import Super
from capture.variables.torch_calls import BuiltinFunction

from .registry import operation
from .steps import same_step

_NULL_BENEATH = current().null_beneath


@operation("NOP", "RESUME", "CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "NOT_TAKEN", moves=DOES_NOTHING)
def _nothing(m: Machine, frame: Frame, op: Op) -> None:
    return None


@operation("POP_TOP", "END_FOR", "POP_ITER")
def _pop_top(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.stack.pop()
    if isinstance(value, Suspended):
        m.calls.finalize([value], was_on_stack=True)


@operation("PUSH_NULL")
def _push_null(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(NULL)


@operation("COPY")
def _copy(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(frame.stack[-op.arg])


@operation("SWAP")
def _swap(m: Machine, frame: Frame, op: Op) -> None:
    stack = frame.stack
    stack[-1], stack[-op.arg] = stack[-op.arg], stack[-1]


@operation("LOAD_CONST", "LOAD_SMALL_INT", moves=LOADS_LITERAL)
def _load_const(m: Machine, frame: Frame, op: Op) -> None:
    if type(op.value) in LITERALS:
        plain = Constant(op.value)
        plain.in_code = True
        frame.stack.append(plain)
        return
    if type(op.value) is str:
        text = m.effects.created(Constant(op.value))
        text.in_code = True
        frame.stack.append(text)
        return
    value = m.builder.from_python(op.value)
    if isinstance(value, Tuple):
        value.literal = op.value
    elif isinstance(value, Constant):
        value.in_code = True
    frame.push(value)


@operation("LOAD_FAST", "LOAD_FAST_CHECK", moves=LOADS_LOCAL)
def _load_fast(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.local.get(op.value)
    if value is None:
        unbound(m, op.value)
    frame.stack.append(value)


def unbound(m: Machine, name: str) -> NoReturn:
    """Raises in the program that a local has no value."""
    m.errors.throw(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")


@operation("LOAD_FAST_AND_CLEAR")
def _load_fast_and_clear(m: Machine, frame: Frame, op: Op) -> str | None:
    if frame.holds_cell(op.value) and op.value in frame.cells:
        frame.push(frame.cells.pop(op.value))
    else:
        frame.push(frame.local.pop(op.value, NULL))
    return same_step(m, frame, "MAKE_CELL")


@operation("STORE_FAST", moves=STORES_LOCAL)
def _store_fast(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.stack.pop()
    if op.value in frame.program.cells:
        cell = value.realize(m)
        if isinstance(cell, Cell):  # the cell that a comprehension had put aside
            frame.cells[op.value] = cell
            frame.local.pop(op.value, None)
            return
    before = frame.local.get(op.value)
    if value is NULL:
        frame.local.pop(op.value, None)
    else:
        frame.local[op.value] = value
    if isinstance(before, Suspended):
        m.calls.finalize([before])


@operation("DELETE_FAST")
def _delete_fast(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.local.pop(op.value, None)
    if value is None:
        unbound(m, op.value)
    if isinstance(value, Suspended):
        m.calls.finalize([value])


# Cells


@operation("MAKE_CELL")
def _make_cell(m: Machine, frame: Frame, op: Op) -> None:
    cell = Cell(frame.local.pop(op.value, None), op.value)
    m.effects.created(cell)
    own = op.index < frame.program.entry  # else a comprehension's
    cell.name = op.value if frame.is_root and own else None
    frame.cells[op.value] = cell
    if own:
        frame.own_cells[op.value] = cell


@operation("LOAD_CLOSURE")
def _load_closure(m: Machine, frame: Frame, op: Op) -> None:
    # From 3.13 this reads a comprehension's plain variable, too, that shares its place with a cell of another.
    frame.push(frame.local.get(op.value) or frame.cells[op.value])


@operation("LOAD_DEREF")
def _load_deref(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(frame.cells[op.value].read(m) or _content(m, frame, op.value))


def _content(m: Machine, frame: Frame, name: str) -> Variable:
    """What a cell holds."""
    content = frame.cells[name].read(m)
    if content is None:
        origin = origin_of(frame.code)  # where a function goes on, its own cells are handed in
        if name not in (frame.code if origin is None else origin.code).co_freevars:
            m.state.lost_cell = m.state.lost_cell or origin is not None
            unbound(m, name)
        where = "where it is not associated with a value in enclosing scope"
        m.errors.throw(NameError, f"cannot access free variable '{name}' {where}")
    return content


@operation("STORE_DEREF")
def _store_deref(m: Machine, frame: Frame, op: Op) -> None:
    frame.cells[op.value].set(m, frame.stack.pop())


@operation("DELETE_DEREF")
def _delete_deref(m: Machine, frame: Frame, op: Op) -> None:
    _content(m, frame, op.value)
    frame.cells[op.value].set(m, None)


# Globals


@operation("LOAD_GLOBAL")
def _load_global(m: Machine, frame: Frame, op: Op) -> None:
    later = m.effects.later
    found = None if later.concerned else m.globals.known(frame.globals, frame.builtins, op.value)
    if found is None:
        found = read_global(m, frame, op.value)
    if op.flags & 1:
        frame.stack += (NULL, found) if _NULL_BENEATH else (found, NULL)
    else:
        frame.stack.append(found)


def read_global(m: Machine, frame: Frame, name: str) -> Variable:
    """A global, or a built-in that none hides."""
    later = m.effects.later
    known = None if later.concerned else m.globals.known(frame.globals, frame.builtins, name)
    if known is not None:
        return known
    if name in frame.globals or (address(frame.globals), name) in m.globals.written:
        found = m.globals.read(frame.globals, name)
        later.named(m, frame.globals, name, found)
        return found
    return m.globals.builtin(frame.globals, frame.builtins, name)


# Names of a class statement's body, which are in a dictionary of its own


def _names(frame: Frame) -> dict[str, Variable]:
    if frame.names is None:
        raise Unsupported("the body of a module, whose names are in a dictionary")
    return frame.names


@operation("LOAD_NAME")
def _load_name(m: Machine, frame: Frame, op: Op) -> None:
    found = None if frame.names is None else frame.names.get(op.value)
    frame.push(found or read_global(m, frame, op.value))


@operation("STORE_NAME")
def _store_name(m: Machine, frame: Frame, op: Op) -> None:
    _names(frame)[op.value] = frame.stack.pop()


@operation("DELETE_NAME")
def _delete_name(m: Machine, frame: Frame, op: Op) -> None:
    if _names(frame).pop(op.value, None) is None:
        m.errors.throw(NameError, f"name '{op.value}' is not defined")


@operation("SETUP_ANNOTATIONS")
def _setup_annotations(m: Machine, frame: Frame, op: Op) -> None:
    if frame.names is not None and "__annotations__" not in frame.names:
        frame.names["__annotations__"] = m.builder.new_dict({})


@operation("LOAD_LOCALS")
def _load_locals(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.effects.created(ClassNames(_names(frame))))


def _in_popped_names(m: Machine, frame: Frame, name: str) -> Variable | None:
    names = frame.pop(m)
    if not isinstance(names, ClassNames):
        raise Unsupported("a scope within a class, which sees the names of that")
    return names.find(name)


@operation("LOAD_CLASSDEREF")
def _load_classderef(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(_names(frame).get(op.value) or _content(m, frame, op.value))


@operation("LOAD_FROM_DICT_OR_DEREF")
def _load_from_dict_or_deref(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(_in_popped_names(m, frame, op.value) or _content(m, frame, op.value))


@operation("LOAD_FROM_DICT_OR_GLOBALS")
def _load_from_dict_or_globals(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(_in_popped_names(m, frame, op.value) or read_global(m, frame, op.value))


@operation("STORE_GLOBAL")
def _store_global(m: Machine, frame: Frame, op: Op) -> None:
    m.globals.write(frame.globals, op.value, frame.stack.pop())


@operation("DELETE_GLOBAL")
def _delete_global(m: Machine, frame: Frame, op: Op) -> None:
    if not m.globals.has(frame.globals, op.value):
        m.errors.throw(NameError, f"name '{op.value}' is not defined")
    m.globals.write(frame.globals, op.value, None)


# Attributes


@operation("LOAD_ATTR")
def _load_attr(m: Machine, frame: Frame, op: Op) -> None:
    stack = frame.stack
    found = stack.pop().realize(m).attribute(m, op.value)
    if op.flags & 1:  # it is to be called: the NULL of a call goes beside it
        stack += (NULL, found) if _NULL_BENEATH else (found, NULL)
    else:
        stack.append(found)


@operation("LOAD_METHOD")
def _load_method(m: Machine, frame: Frame, op: Op) -> None:
    found = frame.pop(m).attribute(m, op.value)
    frame.stack += (NULL, found) if _NULL_BENEATH else (found, NULL)


@operation("LOAD_SUPER_ATTR")
def _load_super_attr(m: Machine, frame: Frame, op: Op) -> None:
    stack = frame.stack
    obj, cls = stack.pop().realize(m), stack.pop().realize(m)
    stack.pop().realize(m)
    found = m.effects.created(Super(looked_up(m, cls), obj)).attribute(m, op.value)
    if op.flags & 1:
        stack += (NULL, found) if _NULL_BENEATH else (found, NULL)
    else:
        stack.append(found)


@operation("STORE_ATTR")
def _store_attr(m: Machine, frame: Frame, op: Op) -> None:
    owner = frame.pop(m)
    owner.set_attribute(m, op.value, frame.pop_raw())


@operation("DELETE_ATTR")
def _delete_attr(m: Machine, frame: Frame, op: Op) -> None:
    frame.pop(m).delete_attribute(m, op.value)


# Imports: of what is imported already


@operation("IMPORT_NAME")
def _import_name(m: Machine, frame: Frame, op: Op) -> None:
    names, level = m.builder.to_python(frame.pop(m)), m.builder.to_python(frame.pop(m))
    name = op.value
    if level:
        package = frame.globals.get("__package__") or ""
        name = importlib.util.resolve_name("." * level + name, package) if name or package else package
    importer = m.globals.builtin_entry(frame.builtins, "__import__").realize(m)
    if not isinstance(importer, BuiltinFunction):
        raise Unsupported("import by a function that replaces __import__")
    if sys.modules.get(name) is None:
        raise _first_import(name)
    module = m.globals.imported(name)
    if hasattr(sys.modules[name], "__path__"):
        for part in names or ():
            if part != "*":
                _check_part(m, module, name, part)
    frame.push(m.globals.imported(name.partition(".")[0]) if not names and not level else module)


def _check_part(m: Machine, module: Variable, package: str, name: str) -> None:
    """What a package does not have is imported with it: a module in it, that was not imported yet."""
    try:
        module.realize(m).attribute(m, name)
    except SymbolicRaise as raised:
        if issubclass(raised.exception.python_type(), AttributeError):
            raise _first_import(f"{package}.{name}") from None
        raise


def _first_import(name: str) -> Unsupported:
    """What is not imported yet breaks the graph, until it is."""
    so = Guard(None, GuardKind.ANSWER, (sys.modules.get, (name,), None))
    return Unsupported(f"import of {name}", while_so=(so,))


@operation("IMPORT_FROM")
def _import_from(m: Machine, frame: Frame, op: Op) -> None:
    module = frame.stack[-1].realize(m)
    try:
        frame.push(module.realize(m).attribute(m, op.value))
    except SymbolicRaise as raised:
        if issubclass(raised.exception.python_type(), AttributeError):
            raise Unsupported(f"import of {op.value}, which the module does not have") from None
        raise


@operation("LOAD_ASSERTION_ERROR")
def _load_assertion_error(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.builder.known(AssertionError))


#: What 3.14 takes for certain, by number: the library's table is the compiler's.
_COMMON: list[Any] = getattr(opcode, "_common_constants", [])


@operation("LOAD_COMMON_CONSTANT")
def _load_common_constant(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.builder.known(_COMMON[op.arg]))


@operation("LOAD_BUILD_CLASS")
def _load_build_class(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.globals.builtin_entry(frame.builtins, "__build_class__"))


@operation("GET_LEN")
def _get_len(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(frame.stack[-1].realize(m).length(m))
