"""The body of generated code under names that are free where it is taken in."""

from symshapes import StraightLine, build_python, names_in

PIECE = StraightLine(
    inputs=("args", "count"),
    head=("_step = base.step", "limit = _step + 1"),
    lines=("# count, in words", "total = max(args, count) + _step", "kernel(total, step=total)", "del args"),
    result="(total, 'total', count)",
    names={"base": range(0, 9, 3), "kernel": lambda value, step: None},
    only_if="_step == limit - 1",
)


def run(piece, *values):
    body = [f"    {line}" for line in piece.lines]
    text = [
        *piece.head,
        f"def f({', '.join(piece.inputs)}):",
        f"    assert {piece.only_if}",
        *body,
        f"    return {piece.result}",
    ]
    return build_python("\n".join(text) + "\n", piece.names, entry="f", title="test")(*values)


def test_nothing_changes_where_nothing_is_taken():
    assert PIECE.avoiding({"other", "step", "in", "words", "if"}) is PIECE, "neither keywords nor names of arguments"
    assert PIECE.avoiding({"max"}) is PIECE, "what it does not define is the same thing to both"


def test_what_it_defines_gets_other_names():
    taken = {"args", "total", "_step", "base", "kernel", "limit", "count", "count_0", "max"}
    piece = PIECE.avoiding(taken)
    assert not names_in([*piece.head, *piece.lines, *piece.inputs, *piece.names]) & (taken - {"max"})
    assert piece.inputs == ("args_0", "count_1")
    assert run(piece, 4, 2) == run(PIECE, 4, 2) == (7, "total", 2)
    assert piece.lines[0] == "# count, in words", "comments stay as they are"


def test_names_are_told_from_attributes_arguments_and_words():
    assert names_in(["a = b.c(d, e=f) # g", "  # h", "if i==j: k = [l]"]) == {*"abdfgijkl"}
