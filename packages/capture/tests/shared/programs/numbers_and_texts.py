# ruff: noqa
"""Methods and operators of numbers, texts and bytes, and formatting in all its forms."""

from __future__ import annotations

from .registry import program


@program
def integers_big(x):
    n = 2**100 + 1
    return n, n % 97, n // 3, -n >> 5, n.bit_length(), (n & 0xFF) | 1, ~n, n ^ (n >> 1), int(str(n)) == n, x


@program
def integers_methods(x):
    return (
        (255).to_bytes(2, "big"),
        int.from_bytes(b"\x01\x00", "little"),
        (10).bit_count(),
        (6).as_integer_ratio(),
        int("ff", 16),
        int("0b11", 0),
        (5).conjugate(),
        True + True,
        x,
    )


@program
def floats_methods(x):
    return (
        (2.5).is_integer(),
        (0.5).as_integer_ratio(),
        float("inf") > 1e308,
        (1.5).hex(),
        float.fromhex("0x1.8p1"),
        -7.5 // 2,
        -7.5 % 2,
        1e16 + 1,
        float("nan") != float("nan"),
        x,
    )


@program
def complexes(x):
    c = 3 + 4j
    return (
        abs(c),
        c.real,
        c.imag,
        c.conjugate(),
        c * 1j,
        complex("1+2j"),
        c == 3 + 4j,
        c**2,
        complex(real=1),
        complex(1, imag=2),
        x,
    )


@program
def zero_divisions(x):
    out = []
    for f in (lambda: 1 // 0, lambda: 1 % 0, lambda: 1.0 / 0, lambda: 0**-1, lambda: divmod(1, 0), lambda: 1j / 0):
        try:
            f()
        except ZeroDivisionError as error:
            out.append(str(error))
    return out, x


@program
def integer_truncations(x):
    return int(-2.7), int("  12 "), int(True), round(-2.7), -7 // 2, -7 % 3, 7 // -2, divmod(-7, 3), int(1e20), x


@program
def text_methods(x):
    s = "Hello, World"
    return (
        s.lower(), s.swapcase(), s.title(), s.center(20, "*"), s.find("o", 5), s.rfind("o"), s.count("l"), s.replace("l", "L", 2),
        s.partition(", "), s.rpartition("o"), s.split("o", 1), s.rsplit(None, 1), s.startswith(("He", "x")), s.endswith("d"),
        s.removeprefix("He"), s.removesuffix("ld"), s.zfill(15), s.expandtabs(), s.index("W"), x,
    )  # fmt: skip


@program
def text_predicates(x):
    return (
        "12".isdigit(),
        "a1".isalnum(),
        "ab".isalpha(),
        " ".isspace(),
        "Ab".istitle(),
        "x_1".isidentifier(),
        "½".isnumeric(),
        "".isupper(),
        x,
    )


@program
def text_translate(x):
    table = str.maketrans({"a": "1", "b": None})
    return (
        "abc".translate(table),
        "abc".translate(str.maketrans("ab", "xy")),
        "a\nb\r\nc".splitlines(),
        "-".join(map(str, range(3))),
        x,
    )


@program
def text_indexing(x):
    s = "abcdef"
    return s[1], s[-2:], s[::-1], s[1:5:2], "cd" in s, s * 2, s + "g", s > "abc", min(s), list(s)[:2], s.encode()[0], x


@program
def text_errors(x):
    out = []
    for f in (
        lambda: "abc".index("z"),
        lambda: "a" + 1,
        lambda: "abc"[9],
        lambda: int("x"),
        lambda: "%d" % "a",
        lambda: "{}".format(),
        lambda: "a" * "b",
    ):
        try:
            f()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out, x


@program
def bytes_methods(x):
    b = b"abc\x00"
    return (
        b[0],
        b[1:],
        b.hex(),
        bytes.fromhex("0aff"),
        b.decode("latin-1"),
        b + b"d",
        b"b" in b,
        97 in b,
        list(b),
        bytes([1, 2]),
        bytes(2),
        b.split(b"b"),
        x,
    )


@program
def format_fields(x):
    n, f, s = 42, 3.14159, "text"
    return (
        f"{n:5d}|{n:<5}|{n:^5}|{n:05}|{n:+}|{n:,}|{n:x}|{n:#b}",
        f"{f:.3f}|{f:10.2e}|{f:%}|{f:g}",
        f"{s:>8}|{s:*^10}|{s:.2}|{s!r}|{s!a}",
        x,
    )


@program
def format_nested_and_equals(x):
    width, name = 8, "v"
    return (
        f"{name:>{width}}",
        f"{width=}",
        f"{width + 1 = :>4}",
        f"{{literal}} {name!r:>6}",
        f"{'a' if x is not None else 'b'}",
        x,
    )


@program
def format_of_shapes(x):
    return (
        f"{x.shape}",
        f"{tuple(x.shape)} {x.dtype} {x.device}",
        f"{x.shape[0]}x{x.dim()}",
        "%dx%d" % tuple(x.shape),
        "{0[0]}-{0[1]}".format(x.shape),
        x,
    )


@program
def format_by_method(x):
    return (
        "{} {}".format(1, "a"),
        "{1} {0}".format(1, 2),
        "{a:>4}".format(a=5),
        "{0.real}".format(3),
        "{:{}}".format("x", 5),
        "{!r}".format("q"),
        x,
    )


@program
def format_by_percent(x):
    return (
        "%s %r %d %5.2f %x %%" % ("a", "b", 3, 1.234, 255),
        "%(k)s" % {"k": 1},
        "%-5s|" % "a",
        "%c" % "z",
        "%05d" % 42,
        "%s" % (None,),
        "%s" % [1, 2],
        x,
    )


@program
def format_map(x):
    return (
        "{a}{b}".format_map({"a": 1, "b": 2}),
        "{:>10}".format("r"),
        format(1234567.891, ",.1f"),
        format("s", "^5"),
        format(True),
        x,
    )
