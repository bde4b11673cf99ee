"""Changed and freshly made instructions: operands, jumps, cells, tables, and what is refused."""

import dis
import math
import sys
import types

import pytest

from capture.bytecode import (
    BytecodeError,
    Handler,
    Instruction,
    Positions,
    argument_names,
    assemble,
    build,
    decode,
    liveness,
    shift_handlers,
    stack_depths,
)
from capture.bytecode.dialect import current


def template(x, y=1):
    """Docs."""
    return x + y


def make(instructions, like=template, closure=None, **options):
    code = assemble(instructions, like=like.__code__, **options)
    return types.FunctionType(code, like.__globals__, closure=closure)


def test_snippets_run():
    helper = {"a": 1}.get
    function = make(
        [
            *build.prologue([], []),
            *build.call_function(build.load_global("max"), build.load_fast("x"), build.load_const(7)),
            *build.store_fast("best"),
            *build.call_function(build.load_const(dict), build.load_fast("best"), kw_names=("best",)),
            *build.load_const(helper),
            *build.pop(),
            *build.load_fast("best"),
            *build.build_tuple(2),
            *build.unpack_sequence(2),
            *build.swap(2),
            *build.build_list(2),
            *build.return_value(),
        ],
        argnames=("x",),
    )
    assert function(3) == [{"best": 7}, 7]
    assert function.__code__.co_varnames == ("x", "best")


@pytest.mark.parametrize("operator", ["<", "<=", "==", "!=", ">", ">="])
def test_compare(operator):
    body = [*build.load_fast("x"), *build.load_fast("y"), *build.compare(operator), *build.return_value()]
    function = make([*build.prologue([], []), *body], argnames=("x", "y"))
    for pair in [(1, 2), (2, 2), (3, 2), (math.nan, 1.0), ("a", "b")]:
        assert function(*pair) == eval(f"a {operator} b", {"a": pair[0], "b": pair[1]})


@pytest.mark.parametrize("condition", ["true", "false", "none", "not_none"])
def test_conditional_jump_backward(condition):
    values = {"true": [1, 1, 0], "false": [0, 0, 1], "none": [None, None, 1], "not_none": [1, 1, None]}[condition]
    top = build.load_fast("values")
    body = [
        *top,
        *build.load_attr("pop"),
        *build.store_fast("pop"),
        *build.call_function(build.load_fast("pop"), build.load_const(0)),
        *build.pop_jump_if(condition, top[0]),
        *build.load_fast("values"),
        *build.return_value(),
    ]
    function = make([*build.prologue([], []), *body], argnames=("values",))
    assert function([*values, "rest"]) == ["rest"]


def test_jumps_grow_over_long_code():
    end = build.load_const("end")
    filler = [each for _ in range(400) for each in (*build.load_const(1), *build.pop())]
    back = build.load_fast("x")
    body = [
        *build.load_fast("x"),
        *build.pop_jump_if("false", end[0]),
        *back,
        *filler,
        *build.store_fast("y"),
        *build.load_const(False),
        *build.pop_jump_if("true", back[0]),
        *end,
        *build.return_value(),
    ]
    function = make([*build.prologue([], []), *body], argnames=("x",))
    assert function(0) == function(1) == "end"
    assert any(each.opname == "EXTENDED_ARG" for each in dis.get_instructions(function))


def test_constants_by_type_and_bits():
    values = [1, True, 1.0, 0.0, -0.0, math.nan, (1, 2), (1.0, 2), "1", b"1", None, frozenset({1}), [1], [1]]
    body = [each for value in values for each in build.load_const(value)]
    function = make(
        [*build.prologue([], []), *body, *build.build_list(len(values)), *build.return_value()], argnames=()
    )
    result = function()
    assert [(type(r), repr(r)) for r in result] == [(type(v), repr(v)) for v in values]
    assert result[-1] is values[-1] and result[-2] is values[-2]  # unhashable ones by identity


def test_cells_and_free_variables_by_name():
    def outer():
        free = 10

        def inner(a):
            return free + a

        return inner

    inner = outer()
    body = [
        *build.load_deref("free"),
        *build.store_fast("f"),
        *build.load_deref("a"),
        *build.load_fast("f"),
        *build.store_deref("own"),
        *build.load_deref("own"),
        *build.build_tuple(2),
        *build.return_value(),
    ]
    function = make(
        [*build.prologue(["a", "own"], ["free"]), *body],
        like=inner,
        argnames=("a",),
        cellvars=("a", "own"),
        closure=inner.__closure__,
    )
    assert function(1) == (1, 10)


def test_handlers():
    caught = [Instruction("PUSH_EXC_INFO"), *build.pop(), Instruction("POP_EXCEPT"), *build.load_const("caught")]
    handler = Handler(caught[0], 0)
    risky = [*build.load_fast("x"), *build.load_fast("y"), Instruction("BINARY_OP", 11), *build.return_value()]
    for each in risky:
        each.handler = handler
    function = make([*build.prologue([], []), *risky, *caught, *build.return_value()], argnames=("x", "y"))
    assert function(6, 3) == 2
    assert function(6, 0) == "caught"
    shift_handlers(risky, 2)
    assert {each.handler.depth for each in risky} == {2}
    assert len({id(each.handler) for each in risky}) == 1


def test_positions_show_in_tracebacks():
    line = template.__code__.co_firstlineno + 2
    body = [*build.load_fast("x"), Instruction("RAISE_VARARGS", 1)]
    for each in body:
        each.positions = Positions(line, line, 4, 16)
    function = make([*build.prologue([], []), *body], argnames=("x",))
    with pytest.raises(ValueError) as info:
        function(ValueError("it"))
    assert info.traceback[-1].lineno + 1 == line


def test_replacement_signature():
    def original(a, b, /, c, *args, d, **kwargs):
        return a, b, c, d, args, kwargs

    code = original.__code__
    made = assemble(decode(code), like=code, argnames=argument_names(code))
    assert argument_names(code) == ("a", "b", "c", "d", "args", "kwargs")
    assert types.FunctionType(made, {})(1, 2, 3, 4, (5,), {"k": 6}) == (1, 2, 3, 4, (5,), {"k": 6})
    assert made.co_name == code.co_name and made.co_filename == code.co_filename


def test_liveness():
    def function(a, b, c):
        d = a + 1
        if b:
            return d
        try:
            c = a.x
        except AttributeError:
            return c
        return c

    instructions = decode(function.__code__)
    live = liveness(instructions)
    by_name = {}
    for instruction, names in zip(instructions, live):
        by_name.setdefault((instruction.opname, instruction.argval), names)
    assert live[0] == {"a", "b", "c"}
    assert by_name["STORE_FAST", "d"] == {"a", "b", "c"}
    assert by_name["STORE_FAST", "c"] == {"c"}  # the store may fail: the handler reads the old one
    assert live[-1] <= {"c"}


@pytest.mark.parametrize(
    "instructions, message",
    [
        ([*build.prologue([], []), *build.load_const(1)], "past the last"),
        ([*build.prologue([], []), *build.pop(), *build.load_const(1), *build.return_value()], "short"),
        ([*build.prologue([], []), *build.load_deref("nowhere"), *build.return_value()], "neither a local"),
        ([*build.prologue([], []), *build.jump(Instruction("NOP"))], "not in the code"),
        ([Instruction("NO_SUCH_THING")], "no operation"),
        ([Instruction("JUMP_FORWARD")], "nowhere"),
        ([*build.load_const(1) * 2, *build.return_value()], "two places"),
    ],
)
def test_refuses(instructions, message):
    with pytest.raises(BytecodeError, match=message):
        assemble(instructions, like=template.__code__, argnames=("x",))


def test_refuses_paths_that_disagree_on_the_stack():
    end = build.return_value()
    body = [*build.load_fast("x"), *build.load_fast("x"), *build.pop_jump_if("true", end[0]), *build.load_const(1)]
    with pytest.raises(BytecodeError, match="by the path taken"):
        stack_depths([*build.prologue([], []), *body, *end])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="inlined comprehensions are of 3.12")
def test_a_cell_that_is_a_local_for_a_while():
    def function(bases):
        kept = [base for base in bases if base]
        for base in kept:
            pass
        return [any(base != other for other in kept) for base in kept], (lambda: base)()

    code = function.__code__
    twin = types.FunctionType(assemble(decode(code), like=code), globals())
    assert twin([1, 0, 2]) == function([1, 0, 2])


@pytest.mark.skipif(
    not current().places_apart, reason="until 3.14 the place of an exception is a number like any other"
)
def test_a_place_that_was_handed_in_is_not_raised_at():
    """What a handler puts on the stack is raised at again; a number in its place would point anywhere."""

    def function(x):
        try:
            return x.y
        finally:
            print(x)

    instructions = decode(function.__code__)
    own = [i.arg for i in decode(assemble(instructions, like=function.__code__)) if i.opname == "RERAISE"]
    assert 1 in own
    cleanup = next(at for at, i in enumerate(instructions) if i.opname == "COPY" and i.arg == 3)
    kept = instructions[cleanup : cleanup + 3]
    given = [*build.prologue([], []), *build.load_const(7), *build.load_const(None), *build.load_fast("x")]
    made = assemble([*given, *kept], like=function.__code__)
    assert [i.arg for i in decode(made) if i.opname == "RERAISE"] == [0]
