"""The C part: frame hook, code cache, guard programs. See `_native/*.c`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from types import CellType, CodeType, FrameType, FunctionType, TracebackType
from typing import Any, Final, NoReturn, Protocol, final

class Session(Protocol):
    """What `CompiledCallable` asks of its session; the object must allow weak references.

    `callback(func, code, args, globals, builtins)` is called with hooks off when no entry of the session fits
    a frame of `code`; `args` are the values of `argument_names(code)`. It returns None (run eagerly this time,
    ask again next time), SKIP, SKIP_RECURSIVE (never ask this session again for this code), or an `Entry` to keep
    and run. Its exceptions go to the user. `on_limit` is called with the same, once, when a code has `cache_limit`
    entries and none fits (of a `whole` callable at each such call): what does not fit runs eagerly.
    `on_misfit(code, guard)`: an entry's guard does not hold for the call it was made for. `on_depth(code, reason)`: a
    frame and all beneath it run without the hook. `trimmed(traceback)` gives the traceback to go on with when an
    exception leaves a replaced frame.
    `on_broken_promise(code, reason)` raises what says that a `whole` callable would not run captured.

    What sessions of the same `group` captured is tried before a capture, and `on_shared(code, entry)` told of what fits;
    None is no group.

    A code is captured by one thread at a time. Meanwhile other threads run a frame of it that nothing fits eagerly, with
    all beneath; a `whole` callable waits, and looks again; after `longest_wait` seconds it captures for itself.
    """

    cache_limit: int
    longest_wait: float
    group: object
    def callback(
        self,
        func: FunctionType,
        code: CodeType,
        args: tuple[Any, ...],
        globals: dict[str, Any],
        builtins: dict[str, Any],
    ) -> Any: ...
    def on_limit(
        self,
        func: FunctionType,
        code: CodeType,
        args: tuple[Any, ...],
        globals: dict[str, Any],
        builtins: dict[str, Any],
    ) -> None: ...
    def on_shared(self, code: CodeType, entry: Entry) -> None: ...
    def on_misfit(self, code: CodeType, guard: str) -> None: ...
    def on_depth(self, code: CodeType, reason: str) -> None: ...
    def trimmed(self, traceback: TracebackType) -> TracebackType: ...
    def on_broken_promise(self, code: CodeType | None, reason: str) -> NoReturn: ...

class Mark:
    """The type of SKIP and SKIP_RECURSIVE."""

CONTINUES: Final[int]  # a flag of code that goes on where another frame of the program's broke off
SKIP: Final[Mark]  # run this code eagerly, keep looking at what it calls
SKIP_RECURSIVE: Final[Mark]  # run this code eagerly, and all that it calls

@final
class GuardProgram:
    """Guards as a list of native operations over registers; `capture.guards.guard_program` writes them.

    An instruction is (operation, destination register, source register, number, object, index into texts).
    Raises ValueError or TypeError for instructions that could not be run safely.

    `watched` is the program about what lives on, run by the instruction "watched"; it is run in full again only when
    something changed of what its last full run looked at. Its first `pins` registers may be read after that.
    """

    def __init__(
        self,
        instructions: Sequence[tuple[str, int, int, int, Any, int]],
        texts: Sequence[object],
        registers: int,
        watched: GuardProgram | None = None,
        pins: int = 0,
    ) -> None: ...
    @property
    def texts(self) -> tuple[str, ...]:
        """The guards in words, made when asked for: `str` of what was given as texts."""
    @property
    def points(self) -> int | None:
        """How many points the watched program looks at; -1: it is verified in full each time, None: it did not run yet."""
    @property
    def unwatched(self) -> str | None:
        """The guard because of which the watched program is always run in full, or None."""
    @property
    def verified(self) -> int:
        """How often the watched program was run in full."""
    def check(
        self,
        args: Sequence[Any],
        func: FunctionType | None = None,
        globals: dict[str, Any] | None = None,
        builtins: dict[str, Any] | None = None,
    ) -> bool:
        """Whether all guards hold for a frame with these arguments."""
    def failing(
        self,
        args: Sequence[Any],
        func: FunctionType | None = None,
        globals: dict[str, Any] | None = None,
        builtins: dict[str, Any] | None = None,
    ) -> int | None:
        """The index of the first guard's text that does not hold, or None."""
    def explain_failure(
        self,
        args: Sequence[Any],
        func: FunctionType | None = None,
        globals: dict[str, Any] | None = None,
        builtins: dict[str, Any] | None = None,
    ) -> str | None:
        """The text of the first guard that does not hold, or None."""

@final
class Entry:
    """One way to run a code object: if `guards` pass (None: always), run `code` in its frame's place.

    With `traced` it is for threads whose lines something follows, else for the others. `code` None means: run the frame
    eagerly. With `recursive` nothing beneath is looked at. A replacement's parameters
    are all positional, `argument_names(original)`, with the original's `co_freevars`.
    """

    def __init__(
        self,
        guards: GuardProgram | None,
        code: CodeType | None,
        *,
        recursive: bool = False,
        info: Any = None,
        traced: bool = False,
    ) -> None: ...
    guards: GuardProgram | None
    code: CodeType | None
    recursive: bool
    info: Any
    traced: bool
    hits: int

class CompiledCallable:
    """Calls `fn` with the session in force: frames entered beneath are looked up and captured.

    With `whole`, a Python function or a method of one either runs an entry made `recursive` (all of it is in there),
    or the session's `on_broken_promise` raises.

    Carries `fn`'s name, doc, and so on; `__wrapped__` is `fn`. Binds as a method does.
    """

    def __init__(self, fn: Callable[..., Any], session: Session, *, whole: bool = False) -> None: ...
    __wrapped__: Callable[..., Any]
    session: Session
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]: ...

class BoundGraph:
    """Calls a graph of `total` inputs with those at `places` (rising) put in: the first pins of a program's watched part."""

    fn: Callable[..., Any]
    def __init__(self, fn: Callable[..., Any], total: int, places: tuple[int, ...]) -> None: ...
    def bind(self, program: GuardProgram) -> None:
        """Say where these inputs are from; before the first call."""
    def __call__(self, *args: Any) -> Any: ...

@final
class DisabledCallable:
    """Calls `fn` with no session in force (a compiled callable beneath starts its own again)."""

    def __init__(self, fn: Callable[..., Any]) -> None: ...
    __wrapped__: Callable[..., Any]
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]: ...

@final
class TensorSpec:
    """What a guard expects of a tensor; -1 among codes and sizes: not checked."""

    def __init__(
        self,
        python_type: type,
        dtype: Any,
        device: Any,
        layout: Any,
        requires_grad: bool,
        sizes: tuple[int | None, ...],
        strides: tuple[int | None, ...] | None,
        codes: tuple[int, int, int, int] | None,
        keys: int | None,
    ) -> None: ...
    def fits(self, value: object) -> bool:
        """Whether a value is such a tensor."""

def mark_skip(code: CodeType, recursive: bool = False) -> None:
    """Never capture this code, whatever the session; survives `reset`."""

def swap_handled(exception: BaseException | None) -> BaseException | None:
    """Make an exception the one that is being handled, or None for none; gives the one that was."""

def go_on(tail_call: type[tuple[Any, ...]], function: Callable[..., Any], /, *args: Any) -> Any:
    """What the function returns, which alone holds its arguments: they are taken from the caller's stack, for generated code calls this and nobody else.

    While that is a `tail_call`, a tuple of a function and arguments, what calling that returns.
    """

def go_within(inner: tuple[Callable[..., Any], tuple[Any, ...]], /) -> Any:
    """What the function returns when it is called with these arguments, which it alone holds: the pair is taken from the caller's stack, as above."""

def has_holes(elements: set[Any] | frozenset[Any]) -> bool:
    """Whether elements that were taken out of a set still have their places, by which it orders those that come later."""

def placed(elements: set[Any], /) -> set[Any]:
    """Another set with the same elements in the same places, and the same holes."""

def same_places(left: set[Any], right: set[Any], /) -> bool:
    """Whether two sets have elements of the same hashes in the same places, and the same holes: they order all alike, now and later."""

def token_fits(token: Token[Any], /) -> bool:
    """Whether its variable can be put back by a token, which was not used, and is of the context that is entered."""

def set_stance(stance: int) -> None:
    """What all compiled callables do: 0 capture, 1 call what they wrap, 2 run what was captured, or else what they wrap."""

def mark_stand_in(code: CodeType) -> None:
    """Never capture this code, which stands for a frame of the user's: tracebacks are trimmed as those of captured ones."""

def generic_attributes(type: type) -> tuple[bool, bool]:
    """Whether a class written in C reads, and sets, attributes as `object` does."""

def is_traced() -> bool:
    """Whether something follows the lines that this thread runs."""

def signal_handlers() -> dict[int, Any] | None:
    """By signal, the handlers that are no built-in ones and that this thread would run; None if there are none, and on 3.11."""

def exchange_handlers(exchanged: Iterable[tuple[int, Any, Any]]) -> None:
    """For each (signal, handler, another): the other one in its place, if it still is in force; at one blow."""

def frames_left() -> int:
    """How many more frames this thread may nest before a RecursionError."""

def unmark_skip(code: CodeType) -> None:
    """Undo `mark_skip`."""

def reset() -> None:
    """Drop every entry of every code."""

def forget_session(session: Session) -> None:
    """Drop every entry of this session, which dies."""

def reset_code(code: CodeType) -> None:
    """Drop every entry of this code."""

def drop_entries(code: CodeType, info: Any) -> None:
    """Drop the entries of this code, of all sessions, whose `info` is this object."""

def entries(code: CodeType, session: Session | None = None) -> list[Entry]:
    """The entries of this code (of one session), the one used last first."""

def set_disabled(disabled: bool) -> bool:
    """Hold back the hook in this thread, or no longer; what it was before."""

def is_active() -> bool:
    """Whether frames entered now in this thread would be looked at."""

def stats() -> dict[str, int]:
    """Counts since start: hits, misses, callbacks, in_frame, by_call, limited, waits; wanted: sessions in force now, watches: those there are."""

def configure_tensors(
    base: type,
    handle_offset: int,
    addresses: Mapping[str, int],
    keys_offset: int,
    special_keys: int,
    dense_key: int,
    asking_key: int,
) -> None:
    """Where the handle of a `base` lies in its Python object, and the C functions that read it; 0 switches it off."""

def configure_forms(handle: int, autograd: int, rank: int, requires_grad: int, grad_fn: int, plain: int) -> None:
    """Where what tells of a tensor's metadata lies (`capture._form.FormPlaces`); zeros: nobody knows."""

def form_is_known(tensor: Any) -> bool:
    """Whether what lies there tells all of this tensor's metadata."""

def configure_state(
    readers: tuple[tuple[int, int, int], ...], grad_enabled: int, library: int, thread_keys: str
) -> None:
    """Native readers of global settings: (function address, argument, mask of the result).

    Address 0 reads memory in place of a call: word 0 or 1 of the thread-local variable `thread_keys` of `library` (a dlopen handle), for any
    other argument the word at that address. Raises ``ValueError`` where the thread's words are asked for and not found.
    """

def read_state() -> tuple[int, ...]:
    """The values of the configured readers."""

def tensor_keys(tensor: Any) -> int | None:
    """The tensor's dispatch key set, where it can be read."""

def is_held(value: object, followed: tuple[int, ...] = (), /) -> bool:
    """Whether it is a tensor that graphs hold: dense, and of no class that is asked below autograd; or a tuple or list with one.

    With tensors of the classes that are ``followed``, by address, operations are captured unless they require gradients. Where none
    of it can be read all tensors are held.
    """

def tensor_codes(tensor: Any) -> tuple[int, int, int, int] | None:
    """The C codes of a tensor's dtype, device type, device index and layout, where they can be read."""

class Record:
    """The base of values. A subclass of which `lay_out` knows the fields is made, hashed and compared by them.

    By identity, if none of them counts.
    """

    def __init__(self, *args: Any, **named: Any) -> None: ...

class Place(Record):
    """The base of sources."""

    @property
    def root(self) -> Any:
        """The outermost of those that it is read from, by `parent`; itself, where that is None."""
    @property
    def name(self) -> str:
        """The place as a user would write it: `self.layer[0].weight`; what `spelled` gives, asked for once."""

def lay_out(cls: type[Record], fields: tuple[tuple[str, int, tuple[Any, ...]], ...], /) -> None:
    """Where a class has its fields: name, how it counts, and in a tuple what it is unless it is given.

    0 counts by equality, 1 by identity, 2 not at all.
    """

def address(value: object) -> int:
    """What ``id`` gives, without the audit event, which is a call of Python wherever a program has hooks for those."""

def iterator_state(value: object) -> tuple[Any, ...] | None:
    """Where an iterator of itertools is: of a count what comes and the step; of a cycle what it goes over, what it gave, where it is in
    that and whether that is all; of an islice what it goes over, the next place, the last (-1 for none), the step and how many it took; of a
    product the pools, the places in them of what was given last, whether anything was and whether it is over. None of all others.
    """

def function_code(function: FunctionType) -> CodeType:
    """``function.__code__`` without the audit event; raises ``TypeError`` for what is no function written in Python."""

def class_entry(cls: type, name: str, /) -> tuple[Any, type] | None:
    """What a class, or the first along its MRO that has it, holds under a name, and which that is.

    Raises ``LookupError`` where looking it up may run code: names that say in Python what they are equal to.
    """

def keys_act(dictionary: dict[Any, Any], /) -> bool:
    """Whether looking something up in a dictionary may run code of its keys', which say in Python what they are equal to."""

def annotations_held(function: FunctionType, /) -> dict[str, Any] | None:
    """A function's annotations if they have been made, or given to it, else None: nothing is run to make them."""

def check_bound(cell: CellType, name: str, /) -> None:
    """Raise what reading a function's own variable raises where it has no value: where its cell is empty."""

def check_initialised(result: object, /) -> None:
    """Raise what ``type.__call__`` raises of what ``__init__`` returns, unless that is None."""

def annotate_with(function: FunctionType, annotate: Any, /) -> None:
    """Give a function what makes annotations; those that it has already stay. Only from 3.14."""

def special_method(value: object, number: int, /) -> Any:
    """What a LOAD_SPECIAL of this number finds, bound to the object; raises what that raises. Only from 3.14."""

def is_over(frame: FrameType, /) -> bool:
    """Whether a frame was left for good, by a result or an exception."""

def is_overridden(function: FunctionType, /) -> bool:
    """Whether an extension has put its own way of running a function in the place of the interpreter's."""

def dissolve(cls: type, /) -> bool: ...
def exactly_equal(left: Any, right: Any) -> bool:
    """Same type and value, floats bit for bit, through tuples."""
