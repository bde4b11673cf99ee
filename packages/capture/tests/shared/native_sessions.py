"""Sessions for tests of the frame hook, and answers for them to give."""

from capture import _native
from capture.bytecode import argument_names, assemble, build, decode
from capture.guards import Guard, GuardKind, build_tree, guard_program
from capture.sources import Local


class Session:
    """Records what it is asked, answers by `answers[code name]`: a function of (func, code, args) or a value."""

    group = None

    def __init__(self, answers=None, cache_limit=8):
        self.answers = {} if answers is None else answers
        self.cache_limit = cache_limit
        self.asked = []
        self.limits = []
        self.misfits = []
        self.depths = []

    def callback(self, func, code, args, globals, builtins):
        self.asked.append((code.co_name, args))
        assert globals is func.__globals__ and "len" in builtins
        answer = self.answers.get(code.co_name)
        return answer(func, code, args) if callable(answer) else answer

    def on_limit(self, func, code, args, globals, builtins):
        self.limits.append(code.co_name)

    def on_misfit(self, code, guard):
        self.misfits.append((code.co_name, guard))

    def on_depth(self, code, reason):
        self.depths.append(code.co_name)

    def on_broken_promise(self, code, reason):
        raise LookupError(f"{code and code.co_name}: {reason}")

    @property
    def names(self):
        return [name for name, _ in self.asked]


def same(code):
    """The code itself, with a replacement's signature."""
    return assemble(decode(code), like=code, argnames=argument_names(code))


def constant(code, value):
    """A replacement that returns a constant."""
    body = [*build.prologue([], code.co_freevars), *build.load_const(value), *build.return_value()]
    return assemble(body, like=code, argnames=argument_names(code))


def copy(func, code, args):
    return _native.Entry(None, same(code))


def by_type(result=None):
    """Specialise on the exact type of the first argument; return `result`, or run as it is."""

    def answer(func, code, args):
        guard = Guard(Local(argument_names(code)[0]), GuardKind.TYPE, type(args[0]))
        replacement = same(code) if result is None else constant(code, (result, type(args[0]).__name__))
        return _native.Entry(guard_program(build_tree([guard]), code), replacement)

    return answer


class Always(dict):
    """Answers for every code."""

    def __init__(self, answer):
        self.answer = answer

    def get(self, name):
        return self.answer
