"""Why a graph ends, a frame is left to the interpreter, or a capture fails: one table, with what can be done about each.

In: a reason, as reports, warnings and errors have it. Out: its cause, by the first row whose pattern is in it.
`docs/breaks.md` is this table (`python -m capture causes` writes it).
"""

from __future__ import annotations

import functools
import re
from typing import Literal

from symshapes import dataclass

PAGE = "docs/breaks.md"
"""Where the causes are told at length; each has a heading that is its id."""


@dataclass(frozen=True)
class Cause:
    """Of a break (the graph ends, and goes on behind it), a skip (a frame runs in the interpreter) or a fallback (a failure)."""

    id: str
    kind: Literal["break", "skip", "fallback"]
    title: str
    why: str
    remedy: str
    example: str
    """A reason that has this cause."""
    pattern: str
    """A regular expression, searched for in reasons."""

    @property
    def page(self) -> str:
        """Where it is told at length."""
        return f"{PAGE}#{self.id.lower()}"


#: What a tensor is: then what follows with it is not for a graph either. And what may be that, as where one is made.
OF_KINDS, MAYBE_OF_KINDS = frozenset({"B302"}), frozenset({"B301"})

#: A block is entered in which nothing is captured: it is made for real as a whole.
OF_BLOCKS = frozenset({"B318"})

CAUSES: tuple[Cause, ...] = (
    # What the program asks for, by the words that only such reasons have.
    Cause(
        "F901", "fallback", "The capture failed",
        "Something in the compiler or in its backend raised. The frame runs eagerly, as every call of it from then on; results are right.",
        "Set `capture.config.on_error = \"raise\"` to see the exception with its traceback, and report it. "
        "With `backend=\"eager\"` it is the capture's, else the backend's.",
        "capture failed: RuntimeError: no compiler",
        r"^capture failed|a guard does not hold for the very call",
    ),
    Cause(
        "S801", "skip", "It looks at its own local variables",
        "`locals()`, `vars()`, `dir()` without arguments, `eval`, `exec` and `f_locals` read a frame's variables as a whole, which captured code does not keep.",
        "Pass what is needed by name, or move the call to a function of its own that `capture.disable(recursive=False)` keeps out.",
        "it looks at its own local variables (locals, eval, ...)",
        r"its own local variables",
    ),
    Cause(
        "S802", "skip", "A generator, a coroutine or an asynchronous generator",
        "Its frame is left and entered again. It runs in the interpreter when it is called there; what it calls is captured, and so is a "
        "generator that a captured function makes and uses up.",
        "Compile the function that uses it, or give back a list.",
        "it is a generator, which runs in the interpreter",
        r"^it is an? (asynchronous generator|generator|coroutine)",
    ),
    Cause(
        "S803", "skip", "A mode watches every operation",
        "A dispatch mode, forward-mode differentiation, a function transform or a tracer is on, which is to see the program's own operations.",
        "Enter the mode inside of what is compiled, or compile what it calls.",
        "a mode watches every operation",
        r"watches every operation|forward-mode differentiation|without a storage of its own|a tracer|is being traced|is on$",
    ),
    Cause(
        "S804", "skip", "Too many variants",
        "Each call differed from all earlier ones in something that is guarded, `config.recompile_limit` times. What fits nothing runs eagerly.",
        "The guard that failed last says what changes: mark a size with `mark_dynamic`, hand a number over as a tensor, read a setting once "
        "outside; or raise the limit.",
        "16 variants were captured (config.recompile_limit) and none fits",
        r"variants were captured",
    ),
    Cause(
        "S805", "skip", "No place to end the graph",
        "The graph would have to end where its values cannot be made again, or where the evaluation did not come out the same twice.",
        "Move what the reason names out of the function, or to its beginning.",
        "evaluation is not repeatable: iteration over a set, whose order is not known",
        r"no earlier place to break|evaluation is not repeatable|a break in the set-up|identity of equal literals|the rest of is gone",
    ),
    Cause(
        "S806", "skip", "The stack is nearly full",
        "Frames are nested so deep that there is no room to capture one more. A later call may be captured.",
        "Raise `sys.setrecursionlimit`, or compile what is called deep within.",
        "no room on the stack to capture it (maximum recursion depth exceeded)",
        r"no room on the stack|nested too deep$",
    ),
    Cause(
        "S807", "skip", "When an object dies is seen",
        "The program asks for an object that it made and nothing but a weak reference is seen to hold, hands on such a reference, makes one that does something when it dies, or counts references. "
        "Generated code holds objects at other lines than the program does.",
        "Make the object and the reference outside of what is compiled.",
        "it hands on a weak reference to an object of its own",
        r"weak reference to an object of its own|only a weak reference may refer|do something when they die|asks what refers to",
    ),
    Cause(
        "S808", "skip", "What is done once and remembered",
        "The first call of a function that remembers (`functools.lru_cache`) could not be made ahead. What it does runs once for each key, in the interpreter, with all that it calls.",
        "Nothing. Later calls with the same arguments are in the graph.",
        "it is what a function that remembers does once, which runs in the interpreter with all that it calls",
        r"does once, which runs in the interpreter",
    ),
    Cause(
        "B701", "break", "The backend refuses a call",
        "The backend has no compiled form of an operation, and said so by `GraphRefused`. That call runs eagerly between two graphs.",
        "Use another operation or backend, or teach the backend this one.",
        "the backend refuses its graph: no sine here",
        r"the backend refuses",
    ),
    Cause(
        "B201", "break", "Kept out by the program",
        "The program calls a function that `disable` keeps out of graphs, by `capture` or by `torch.compiler`.",
        "Take the mark away if it is no longer needed, or move the call to the beginning or end of what is compiled.",
        "call of a function that is kept out of graphs (capture.disable, torch.compiler.disable)",
        r"kept out of graphs|torch\.compiler\.disable|disable of what is no plain",
    ),
    Cause(
        "B202", "break", "Something the world sees: files, evaluated text, prints of what is computed",
        "What has effects outside of the program's values is done for real, in its place between two graphs; `print`, warnings and logs of "
        "values that are known come after the graph and break nothing.",
        "Do it outside of what is compiled, or only where `capture.is_compiling()` is false.",
        "call of a built-in with effects outside the graph (open, eval, locals, ...)",
        r"effects outside the graph|^logging|^a warning (in|that)|^print to|^telling a|yet to be told|a message that shows|call of (builtins\.)?(print|open|input)\b|call of warnings",
    ),
    Cause(
        "B203", "break", "A mark or a setting for what follows",
        "A mark on a size or a function, or a stance, is for what is captured after it, so the graph ends there.",
        "Mark and set before what is compiled is called.",
        "a mark on a size, which is for what is captured after it",
        r"a mark on|a stance,|call of torch\._dynamo\.decorators\.(maybe_)?mark",
    ),
    Cause(
        "B204", "break", "A range of a profiler",
        "A profiler records, so that ranges have to be where the program has them; or a range's object was made outside of the frame.",
        "Nothing, while you profile. Else make the range where it is entered: `with torch.profiler.record_function(...)`.",
        "a range that a profiler records",
        r"a range that|end of a range",
    ),
    # Data
    Cause(
        "B101", "break", "A decision by a tensor's value",
        "The program branches, loops or chooses by what is in a tensor, which is known only while it runs. A branch of which one way raises is "
        "a check in the graph, and no break, unless the program handles what is raised, or what the graph does cannot be taken back. Nor is an `if` "
        "whose arms only compute tensors, of the same metadata in both: not one that writes to what was there before, draws random numbers, changes "
        "an object or a variable of closures, or steps an iterator, nor one after which it is told which tensor it gave (`is`, a write in place).",
        "Have both ways of an `if` compute the same variables, and nothing else; use `torch.where` or `torch.cond`; decide by sizes, which are known; or "
        "take the decision out of what is compiled.",
        "branch on a tensor's value",
        r"branch on a tensor|a decision by|a condition on",
    ),
    Cause(
        "B102", "break", "A value that is in a tensor",
        "A number, a text or an answer is taken from a tensor's elements and used by Python.",
        "Keep it a tensor: compare, select and compute by tensor operations, and read it once, at the end. What may be promised of such a number "
        "say by `torch._check` or `constrain_range`.",
        "bool() of a tensor's value",
        r"of a tensor's value|on a tensor's value|depends on a tensor's|tensor's metadata|in the tensors' data|only the run can tell|formatting a tensor"
        r"|membership test on a tensor|torch\.equal|torch\.is_nonzero|comparison of a tensor|stride by sizes|copy or not|condition on",
    ),
    # The program's exceptions
    Cause(
        "B205", "break", "The program raises",
        "The call goes on to an exception that leaves the frame, so what comes after it never runs. It is raised for real, with the program's traceback.",
        "Nothing, if the exception is meant. Sizes with which it is not raised are captured apart.",
        "the program raises ValueError: 'negative'",
        r"^the program raises",
    ),
    Cause(
        "B206", "break", "An exception that cannot be made again",
        "What is handled where the graph breaks is raised anew, with its traceback. What keeps state in C, or comes from outside the frame, is not: "
        "the graph ends before it is raised, or where it is raised again.",
        "Move what breaks behind the handler, or raise an exception of a class of your own.",
        "an instance of OSError, which keeps state in C",
        r"keeps state in C|being handled where|exception from outside|exception that was raised and is kept",
    ),
    Cause(
        "B207", "break", "Exceptions looked at as objects",
        "A traceback, a context, a group, or the text of an exception with values that are not known.",
        "Handle the exception by its class, or outside of what is compiled.",
        "traceback of an exception",
        r"traceback|exception group|context of an exception|of an exception|an exception object|user's exception|exception with a context|a caller is handling",
    ),
    # Torch
    Cause(
        "B317", "break", "A torch-function mode, in a form that has none",
        "Modes that the program enters, or that are in force around it, are part of its graph; those are not that leave a call to what is called, or would see the graph's own business.",
        "Have the mode's `__torch_function__` give a result, and enter no default device within a mode around what is compiled.",
        "a torch-function mode that gives NotImplemented",
        r"torch-function mode",
    ),
    Cause(
        "B318", "break", "A dispatch mode is entered",
        "A `TorchDispatchMode` sees each operation as it runs: what comes before and behind the block is captured, and nothing within.",
        "Take the mode away where nothing is to be seen, or enter it only where `capture.is_compiling()` is false.",
        "a dispatch mode is entered",
        r"dispatch mode is entered",
    ),
    Cause(
        "B319", "break", "Autograd is watched",
        "Anomaly mode and hooks on saved tensors see each operation that autograd notes, and each tensor that it keeps, as eager has them; a graph keeps others.",
        "Enter such a block around what is compiled, where that runs as eager does, or only where `capture.is_compiling()` is false.",
        "hooks on what autograd saves, which a graph does otherwise",
        r"hooks on what autograd saves|anomaly mode",
    ),
    Cause(
        "B314", "break", "Function transforms, in a form that has none",
        "`vmap`, `grad`, `jvp` and their kin of `torch.func` are followed where a captured function applies them to tensors.",
        "Apply the transform within what is compiled, to a function of tensors.",
        "a function transform within a checkpoint",
        r"function transform|a basis of nothing",
    ),
    Cause(
        "B315", "break", "A checkpoint, in a form that has none",
        "`torch.utils.checkpoint` is a region of the graph whose inside is computed again; what the reason names is not possible there.",
        "Give the function tensors, with `use_reentrant=False`.",
        "a checkpoint within contexts of the program's",
        r"checkpoint",
    ),
    Cause(
        "B316", "break", "A function or a hook of autograd's, in a form that has none",
        "The backward of a `torch.autograd.Function`, and hooks on gradients, become part of the graph; what the reason names is not possible there.",
        "See what the reason names: tensors in, tensors out, in a plain tuple; what a backward reads, put into `ctx` by the forward.",
        "a function of autograd that gives no plain tuple",
        r"function of autograd|a hook that|RemovableHandle|a backward|torch\.autograd|gradients? of|gradients that|grad mode|inference mode",
    ),
    Cause(
        "B308", "break", "NumPy, where it differs or has no counterpart",
        "Arrays and NumPy's functions are captured through torch; what torch computes otherwise, or has not, is left to NumPy.",
        "Use the torch function that does what is meant.",
        "np.linalg.lstsq with rcond",
        r"\bnp\.|ndarray|NumPy|numpy|\barrays?\b",
    ),
    Cause(
        "B305", "break", "Control flow as an operation, in a form that has none",
        "The functions given to `torch.cond`, `while_loop`, `scan` and their kin become graphs of their own; what the reason names is not possible there.",
        "Give tensors and take tensors of the same kinds; change nothing that is outside.",
        "control flow over a function that changes what is outside of it",
        r"control flow|torch\.cond|while_loop|\bscan\b|associative_scan|a loop's",
    ),
    Cause(
        "B306", "break", "flex_attention, in a form that has none",
        "Its functions of scores and positions are evaluated for all elements at once; what the reason names does not allow that.",
        "See what the reason names: functions have to compute elements apart.",
        "flex_attention under autocast",
        r"flex_attention",
    ),
    Cause(
        "B307", "break", "A Triton kernel launched in a way that is not understood",
        "The launch is a node of the graph where its grid and arguments are known in the usual forms.",
        "Launch by `kernel[grid](...)` with a tuple or a function of the configuration.",
        "a Triton kernel called without a grid",
        r"Triton|wrap_triton",
    ),
    Cause(
        "B302", "break", "A kind of tensor that graphs do not hold",
        "A layout or a state of a tensor of which the capture knows no metadata; a subclass whose `__torch_function__` is not followed, or that is asked below autograd (`__torch_dispatch__`) in a way that is not: in C, or where autograd differentiates through it. "
        "What follows is made for real with it, up to where a graph could hold an operation again: a run of operations on such tensors is one break.",
        "Take the plain tensor out of it before what is compiled, or leave plain operations out of the run: each one between is a graph.",
        "tensor subclass Masked",
        r"tensor subclass|tensor of layout|nested or quantized|cannot be differentiated|torch_function|the overrides of|made of memory or files|tensor of unknown origin",
    ),
    Cause(
        "B312", "break", "A new leaf of autograd's graph",
        "A tensor that is made with `requires_grad=True` may be asked for its gradient, which belongs to the tensor itself.",
        "Make it outside of what is compiled, or call `requires_grad_()` on what comes out.",
        "zeros(requires_grad=True) makes a leaf that gradients may be asked of",
        r"requires_grad=True|makes a leaf|Tensor\.grad of",
    ),
    Cause(
        "B311", "break", "A module changed in a way that is not followed",
        "Parameters, buffers, submodules or hooks are registered or replaced in a form that only torch's own code does right.",
        "Set a module up before it is compiled; what varies from call to call hand over as an argument.",
        "module registration hooks",
        r"Module\.__|in a module's|^registering|module registration|of a module$|a hook's|number of a hook",
    ),
    Cause(
        "B301", "break", "An operation that refuses its arguments",
        "Run on tensors without data the operation raised; it will raise for real, too, or it is one that such tensors cannot show.",
        "If eager mode does not raise, the operation needs a shape rule: `symshapes.register_rule`.",
        "torch.mm raises RuntimeError: sizes do not match",
        r"\S raises [A-Z]\w*(Error|Exception|Interrupt)?\b|raises \{|gives a ",
    ),
    Cause(
        "B303", "break", "A part of torch that is not traced",
        "Compilers, TorchScript, distributed and other machinery of torch's own runs for real.",
        "Call it outside of what is compiled, or, where it is a plain function of tensors, mark it with `allow_in_graph`.",
        "call of torch.jit._async.fork",
        r"^call of torch|TorchScript|current stream|^Stream\.|grouping of|by keyword$",
    ),
    Cause(
        "B310", "break", "An argument that an operation of a graph cannot take",
        "Graphs hold tensors, numbers, texts, dtypes, devices and containers of them.",
        "Give the operation one of those.",
        "<Object> as argument of a torch operation",
        r"argument of a torch|argument of .*: |as an operator's argument|sizes joined",
    ),
    Cause(
        "B313", "break", "Gradients computed within the function",
        "`backward()` runs autograd's engine, between two graphs, where what it is asked is not to be had in one.",
        "Nothing: what comes before and after it is captured.",
        "Tensor.backward()",
        r"backward\(\)",
    ),
    Cause(
        "B304", "break", "An attribute or method of tensors that graphs have no node for",
        "It says something of the tensor as an object, or reads its memory.",
        "Read it outside of what is compiled.",
        "Tensor.data_ptr()",
        r"Tensor\.\w|attribute '?\w*'? of a tensor",
    ),
    # Python
    Cause(
        "B413", "break", "A limit of one capture",
        "Calls are inlined and loops unrolled, up to `config.max_instructions` and as deep as the stack has room.",
        "Compile the body of a long loop, not the loop; or raise the limit.",
        "more instructions than config.max_instructions",
        r"max_instructions|nested too deep|recursion too deep",
    ),
    Cause(
        "B405", "break", "A function that remembers",
        "What `functools.lru_cache` keeps is the program's: a call whose answer is not there yet, or whose key is not understood, is made for real.",
        "Call it once before, with the same arguments.",
        "first call of tables, which remembers and has effects",
        r"remembers|whose memory|whose keys are not",
    ),
    Cause(
        "B404", "break", "Coroutines, and generators from elsewhere",
        "Frames that are left and entered again are followed where a captured function makes them; asynchronous ones run in the interpreter.",
        "Use plain functions within what is compiled.",
        "coroutine fetch",
        r"coroutine|asynchronous|generator|sending into",
    ),
    Cause(
        "B403", "break", "An import of what is not imported yet",
        "Running a module's code is an effect on the whole process.",
        "Import at the top of the file.",
        "import of scipy",
        r"\bimport\b|__import__",
    ),
    Cause(
        "B415", "break", "A value that cannot be made again",
        "The rest of the frame needs a value that generated code cannot rebuild, so the graph ends before it was made.",
        "Make it after what breaks the graph, or use it up before.",
        "<DictIterator> cannot be rebuilt after a graph break",
        r"cannot be rebuilt|contains itself|that has started|hands out",
    ),
    Cause(
        "B406", "break", "Text of values that are not known",
        "Formatting, `repr` and `str` need the value itself; numbers in the graph and objects of the program have none yet.",
        "Format outside of what is compiled.",
        "formatting of an object with a format specification",
        r"\btext of|formatting of|values? (among the values )?of a format|too (many|few) values|\brepr of|^str\.|re\.sub",
    ),
    Cause(
        "B407", "break", "Hashes, identities and orders that only the run has",
        "Where an object lies, and in which order a set gives its elements, differs from run to run.",
        "Use a list or a dictionary, and keys that are texts, numbers or classes.",
        "iteration over a set, whose order is not known",
        r"^hash of|identity of|\bid\(\) |a set of|whose order |order is not known|unordered|one object, which changes|views? of a dictionary",
    ),
    Cause(
        "B411", "break", "Copies and signatures of objects with rules of their own",
        "`copy`, `deepcopy` and `inspect.signature` are followed for plain objects and functions.",
        "Copy outside of what is compiled.",
        "deep copy of <Object>",
        r"\bcopy of|deepcopy|signature |annotation that|update_wrapper",
    ),
    Cause(
        "B418", "break", "An object made whose class is written in C",
        "Making it runs code that cannot be read; instances of plain classes, of built-in containers and exceptions are followed.",
        "Make it once, outside of what is compiled, as modules make their parameters in `__init__`.",
        "construction of Thing, whose base object is written in C",
        r"construction of|__new__|explicit __init__",
    ),
    Cause(
        "B402", "break", "Classes made, changed or asked in ways of their own",
        "Class statements that run the program's own metaclasses and hooks, and questions about classes that their own code answers.",
        "Define such classes outside of what is compiled.",
        "class statement of C, whose metaclass is Meta",
        r"class statement|class made by|metaclass|class pattern|mapping pattern|object's class|super\(\)|__class_getitem__|\benum|enumeration"
        r"|isinstance|of class |claims to have|rules of its own|class of|^type\.|^type of|class that|[Cc]lass in the making"
        r"|class whose statement|class from elsewhere|dataclass|class with a|scope within a class|a property with a documentation|is made of what contains it"
        r"|names of a class|annotations that (cannot be|are) made|annotations that are not|whose annotations",
    ),
    Cause(
        "B401", "break", "Code that is written in C",
        "Its effects cannot be read from bytecode, and no row of the capture's tables says what it does.",
        "Use a Python or torch function instead; say what it comes to by `capture.substitute_in_graph`, or by a handler "
        "(CONTRIBUTING.md, \"A callable that is understood\").",
        "call of time.perf_counter_ns, which is written in C",
        r"written in C|code in C|^descriptor|built-in method|overrides or the program has replaced",
    ),
    Cause(
        "B409", "break", "A Python value that has to be known, and is in the graph",
        "A number that changes from call to call, or that is in a tensor, is used where Python needs the value itself.",
        "Make it a constant for the capture (`dynamic=False`, or an argument that does not change), or use tensor operations.",
        "subscript of a constant by a value that is not constant",
        r"not constant|value not known|symbolic number|that may change|whose result is a constant|that are no(t| ) constant|what is no constant",
    ),
    Cause(
        "B410", "break", "An attribute that is read or written in a way of its own",
        "The object's class, written in C or with hooks of its own, decides what an attribute is.",
        "Read it before what is compiled, or keep it in a plain attribute.",
        "attribute 'x' of <Object>",
        r"\battribute\b|setting |deleting |replacing __dict__|__dict__|read in its own way|whose dictionary",
    ),
    Cause(
        "B408", "break", "A container or iterator used in a way that is not followed",
        "A method or an argument of it, or an iterator that was made outside of the frame.",
        "Use a plain list, tuple or dictionary made within what is compiled.",
        "next() of <Iterator>",
        r"\bitem\b|iteration over|next\(\) of|subscript of|length of|keys |deque|dict\b|dictionar|itertools|combinations|iterator|reversed\(\)|fromkeys|membership|mapping"
        r"|side effect on|^(unpacking|arguments|keywords) of|partial|by __getitem__|its own __getitem__|^method ",
    ),
    Cause(
        "B419", "break", "A random number of the standard library's",
        "`random` is drawn after the graph, in the program's order: what is drawn may be handed out, and nothing else.",
        "Draw the number outside of what is compiled, or with torch.",
        "branch on a random number",
        r"random number",
    ),
    Cause(
        "B420", "break", "Asked where the program changed it before",
        "What a frame changes outside of it is changed after its graph; what can only be asked of the real object would be answered as it was before.",
        "Change it outside of what is compiled, or ask before.",
        "what asks a function that the program has changed",
        r"(that|which) the program has (changed|replaced)|where the program has changed|something else in the place of",
    ),
    Cause(
        "B414", "break", "Bytecode that is not evaluated",
        "An instruction of this CPython that has no handler, or code that another tool generated.",
        "Report it; it is a gap.",
        "operation LOAD_BUILD_CLASS",
        r"^operation |^intrinsic |generated code|unknown origin",
    ),
    Cause(
        "B416", "break", "An operator on values that it is not followed for",
        "Arithmetic, comparison, truth or a `with` of objects whose class says in C, or in a way of its own, what that is.",
        "Call the function behind the operator outside of what is compiled, or use numbers, texts and tensors.",
        "truth value of <Object>",
        r"truth value of|^operator\.|with statement over|as an integer|whose error message| == |^Name Name|^<[^>]*> \S+ <",
    ),
    Cause(
        "B417", "break", "A call that is not followed",
        "What is called, or the form of its arguments, has no row in the capture's tables, and is no Python function.",
        "Call it outside of what is compiled, or say what it comes to by `capture.substitute_in_graph`.",
        "call of <Object>",
        r"\bcalls? of|a call with|keyword arguments|with a function to call|property made|a check that raises|vars\(\)",
    ),
    Cause(
        "B499", "break", "Python that is not followed",
        "The evaluator has no rule for what the reason names, and does not guess: it is done for real between two graphs.",
        "Write it in another way, say what it comes to (CONTRIBUTING.md, \"A callable that is understood\"), or report it.",
        "input of type frozen",
        r"",
    ),
)  # fmt: skip
"""All causes, those first that are told by the most certain words."""


@functools.lru_cache(maxsize=4096)
def cause_of(reason: str) -> Cause:
    """The cause of a break, a skip or a fallback, by the reason that is told of it, the place before it or not."""
    said = re.sub(r"^.*?:\d+ in [^\s:]+(: | runs eagerly: )", "", reason)
    return next(cause for cause in CAUSES if re.search(cause.pattern, said))


def page_text() -> str:
    """The whole page of `PAGE`."""
    kinds = (("break", "Breaks"), ("skip", "Frames left to the interpreter"), ("fallback", "Fallbacks"))
    lines = [_INTRODUCTION]
    for kind, title in kinds:
        lines.append(f"## {title}\n")
        for cause in sorted((each for each in CAUSES if each.kind == kind), key=lambda each: each.id):
            lines.append(f"### {cause.id}\n\n**{cause.title}.** {cause.why}\n")
            lines.append(f"What to do: {cause.remedy}\n\nAs it is told, for one: `{cause.example}`\n")
    return "\n".join(lines)


_INTRODUCTION = """# Breaks, and what to do about them

A graph ends where only the interpreter can go on (a **break**: what follows is captured in turn), a frame may be left to the interpreter
(a **skip**), and a failure of the compiler falls back to eager. Results are eager's in all of them. Each has a cause with an id, which reports,
`capture.cause_of(reason)` and `Break.cause` give. `python -m capture explain script.py` runs a script and prints what was captured, what was not,
why, and what to do; `capture.explain(fn)(*args)` does so for one call.

This page is the table in `capture/causes.py`, written by `python -m capture causes`.
"""
