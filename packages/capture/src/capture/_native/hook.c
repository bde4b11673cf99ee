/* The frame hook: looks a frame's code up, checks guards against the frame's values, runs the replacement in the
   frame's place, or asks the session. */
#include "compat.h"
#include "cache.h"
#include "claim.h"
#include "consult.h"
#include "handover.h"
#include "hook.h"
#include "install.h"
#include "program.h"
#include "run.h"
#include "signals.h"
#include "stack.h"
#include "watch.h"

static struct {
    unsigned long long hits, misses, callbacks, limited, waits;
} counts;

/* Frames nested deeper run without the hook: what the interpreter survives by nesting on its heap must not fail on
   the C stack (threads have 512 KiB on some systems; 3.12.0 counts 800 such frames). */
#define DEEPEST 250

/* ---- running ---- */

static PyObject *
run_disabled(PyThreadState *tstate, Stack *stack, Frame *frame)
{
    char before = stack->disabled;
    stack->disabled = 1;
    PyObject *result = run_plain(tstate, frame, 0);
    stack->disabled = before;
    return result;
}

static PyObject *
run_entry(PyThreadState *tstate, Stack *stack, Frame *frame, Entry *entry, Stash *stash)
{
    entry->hits++;
    counts.hits++;
    char before = stack->disabled;
    stash->outer = stack->stash;
    stack->stash = stash;
    stack->disabled |= entry->recursive;
    PyObject *result = entry->code ? run_replacement(tstate, frame, (PyCodeObject *)entry->code)
                                   : run_plain(tstate, frame, 0);
    stack->disabled = before;
    stack->stash = stash->outer;
    return result;
}

/* ---- finding what fits ---- */

#define MOST_RESTARTS 16

enum {
    FOUND,
    MISSED,
    EAGER,         /* this time */
    EAGER_BENEATH, /* and not looked at */
    LIMITED,       /* the session wants no more */
    FAILED,        /* with an exception */
};

/* What guards run of Python (properties, comparisons) is not the user's call: it is not looked at. */
static inline Py_ssize_t
check(Stack *stack, Frame *frame, Entry *entry, int bound_only, Stash *stash)
{
    if (entry->guards == NULL) {
        return GUARDS_HOLD;
    }
    GuardFrame values = {frame->localsplus, frame_func(frame), frame->f_globals, frame->f_builtins, NULL};
    stack->disabled = 1;
    Py_ssize_t failing = program_run(entry->guards, &values, bound_only, stash);
    stack->disabled = 0;
    return failing;
}

/* One look through the session's entries: FOUND with an entry (strong), else MISSED, EAGER, LIMITED or FAILED. With
   `bound_only` those are passed over that were never verified for what the frame brings; `*passed` says so. */
static inline int
look_through(CodeCache *cache, Stack *stack, Frame *frame, int traced, int bound_only, int *passed, Entry **found,
             Stash *stash)
{
    int limited = 0, restarts = 0;
    const SessionEntries *entries = cache_session_entries(cache, stack->session);
    for (Py_ssize_t i = 0; entries && i < entries->count; i++) {
        Entry *entry = entries->slots[i].entry;
        if (entry->limit) {
            limited = 1;
            continue;
        }
        if (entry->code && entry->traced != traced) {
            continue;
        }
        unsigned version = cache->version;
        Py_INCREF(entry);
        Py_ssize_t failing = check(stack, frame, entry, bound_only, stash);
        if (failing == GUARDS_HOLD) {
            if (i > 0 || cache->version != version) {
                cache_promote(cache, stack->session, entry);
            }
            *found = entry;
            return FOUND;
        }
        Py_DECREF(entry);
        if (failing == GUARDS_ERROR) {
            return FAILED;
        }
        *passed |= failing == GUARDS_UNBOUND;
        if (cache->version != version) { /* a guard ran Python that changed the cache */
            if (++restarts > MOST_RESTARTS) {
                return EAGER;
            }
            entries = cache_session_entries(cache, stack->session);
            i = -1;
            limited = 0;
        }
    }
    return limited ? LIMITED : MISSED;
}

static inline int
find_entry(PyThreadState *tstate, CodeCache *cache, Stack *stack, Frame *frame, Entry **found, Stash *stash)
{
    int passed = 0, traced = is_traced(tstate);
    int result = look_through(cache, stack, frame, traced, 1, &passed, found, stash);
    if (passed && (result == MISSED || result == LIMITED)) {
        result = look_through(cache, stack, frame, traced, 0, &passed, found, stash);
    }
    return result;
}

/* Among the entries of other sessions that capture alike, those of things that equal this one's. */
static int
find_shared(PyThreadState *tstate, CodeCache *cache, Stack *stack, Frame *frame, Entry **found, Stash *stash)
{
    PyObject *code = (PyObject *)frame_code(frame);
    int result = MISSED, traced = is_traced(tstate);
    PyObject *group = cache->count ? get_attribute(stack->session, "group") : Py_NewRef(Py_None);
    PyObject *entries = group && group != Py_None ? cache_shared(cache, stack->session, group) : NULL;
    for (Py_ssize_t i = 0; entries && result == MISSED && i < PyList_GET_SIZE(entries); i++) {
        Entry *entry = (Entry *)PyList_GET_ITEM(entries, i);
        if (entry->traced != traced) {
            continue;
        }
        Py_ssize_t failing = check(stack, frame, entry, 0, stash);
        if (failing == GUARDS_ERROR) {
            result = FAILED;
        }
        else if (failing == GUARDS_HOLD) {
            *found = (Entry *)Py_NewRef(entry);
            result = FOUND;
            if (cache_add(cache, (PyObject *)entry, stack->session, 0) == 0) {
                Py_XDECREF(consult(stack->session, "on_shared", Py_BuildValue("(OO)", code, entry)));
            }
        }
    }
    Py_XDECREF(group);
    Py_XDECREF(entries);
    if (PyErr_Occurred()) {
        if (result == FOUND) {
            Py_CLEAR(*found);
        }
        return FAILED;
    }
    return result;
}

/* The session's new entry for this frame: FOUND, EAGER, LIMITED or FAILED. */
static int
capture_frame(CodeCache *cache, Stack *stack, Frame *frame, PyCodeObject *code, int promised, Entry **made, Stash *stash)
{
    PyObject *session = stack->session;
    int full = limit_reached(cache, session, promised);
    if (full > 0) {
        counts.limited++;
        return tell_limit(cache, session, frame, code) < 0 ? FAILED : LIMITED;
    }
    if (full < 0) {
        return FAILED;
    }
    counts.callbacks++;
    Entry *entry = ask_for_entry(session, frame, code);
    if (entry == NULL) {
        return PyErr_Occurred() ? FAILED : EAGER;
    }
    Py_ssize_t failing = GUARDS_ERROR;
    if (cache_add(cache, (PyObject *)entry, session, 1) == 0) {
        failing = check(stack, frame, entry, 0, stash);
    }
    if (failing == GUARDS_HOLD) {
        *made = entry;
        return FOUND;
    }
    if (failing >= 0) {
        tell_misfit(session, code, entry->guards, failing);
    }
    Py_DECREF(entry);
    return PyErr_Occurred() ? FAILED : EAGER;
}

/* After a miss: a new entry, or what another thread is making just now; as capture_frame, or EAGER_BENEATH. */
static __attribute__((noinline)) int
make_entry(PyThreadState *tstate, Stack *stack, Frame *frame, PyCodeObject *code, int promised, Entry **made, Stash *stash)
{
    if (!promised && is_handler(tstate, frame)) {
        return EAGER_BENEATH; /* no part of what was called; and it would come again in the middle of its own capture */
    }
    counts.misses++;
    CodeCache *cache = cache_make(code);
    if (cache == NULL) {
        return FAILED;
    }
    for (Claim *other; (other = claim_find(tstate, cache, stack->session)) != NULL;) {
        if (!promised) {
            return EAGER_BENEATH;
        }
        counts.waits++;
        int ended = claim_wait(tstate, other);
        if (ended < 0) {
            return FAILED;
        }
        if (ended == 0) {
            break;
        }
        int found = find_entry(tstate, cache, stack, frame, made, stash);
        if (found != MISSED) {
            return found;
        }
    }
    Claim *claim = claim_take(tstate, cache, stack->session);
    if (claim == NULL) {
        return FAILED;
    }
    int found = find_shared(tstate, cache, stack, frame, made, stash);
    if (found == MISSED) {
        found = capture_frame(cache, stack, frame, code, promised, made, stash);
    }
    claim_release(cache, claim);
    return found;
}

/* ---- the hook ---- */

/* Whether this is the frame that must be captured whole. */
static int
is_awaited(Stack *stack, Frame *frame)
{
    return stack->awaited != NULL && stack->awaited == frame_func(frame);
}

/* Another hook was put over ours after our session began: this frame and those beneath are its to look at. It may be the
   hook beneath ours, too. */
static PyObject *
run_passed_on(PyThreadState *tstate, Stack *stack, Frame *frame, int throwing)
{
    char before = stack->disabled;
    stack->disabled = 1;
    PyObject *result = installed.beneath == eval_frame_function(installed.interpreter)
                           ? _PyEval_EvalFrameDefault(tstate, frame, throwing)
                           : run_plain(tstate, frame, throwing);
    stack->disabled = before;
    return result;
}

static PyObject *
run_deep(PyThreadState *tstate, Stack *stack, Frame *frame, int throwing)
{
    if (!stack->disabled && !throwing) {
        PyObject *told = consult(stack->session, is_awaited(stack, frame) ? "on_broken_promise" : "on_depth",
                                 Py_BuildValue("(Os)", (PyObject *)frame_code(frame), "frames are nested too deep"));
        if (told == NULL) {
            return leave_frame(tstate, frame, NULL);
        }
        Py_DECREF(told);
    }
    Scope scope;
    if (scope_begin(&scope, tstate, stack, NULL, NULL, stack->compiling) < 0) {
        return leave_frame(tstate, frame, NULL);
    }
    PyObject *result = run_plain(tstate, frame, throwing);
    scope_end(&scope);
    return result;
}

/* An exception leaves a replaced frame: the session may take what is not the user's out of its traceback. An interrupt
   that falls into that is the program's, as it would be anywhere in the frame, and has the first one as its context. */
static void
trim_traceback(PyObject *session)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (traceback != NULL) {
        PyErr_NormalizeException(&type, &value, &traceback);
        PyObject *trimmed = consult(session, "trimmed", Py_BuildValue("(O)", traceback));
        if (trimmed != NULL && PyTraceBack_Check(trimmed)) {
            Py_SETREF(traceback, Py_NewRef(trimmed));
        }
        Py_XDECREF(trimmed);
        PyException_SetTraceback(value, traceback);
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
            PyObject *first = value;
            Py_DECREF(type);
            Py_DECREF(traceback);
            PyErr_Fetch(&type, &value, &traceback);
            PyErr_NormalizeException(&type, &value, &traceback);
            PyException_SetContext(value, first); /* steals it */
        }
        PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
}

/* Says why the frame that must be captured whole is not; with the session's exception. */
static void
break_promise(Stack *stack, Frame *frame, PyCodeObject *code, int found)
{
    if (found == LIMITED) {
        Py_XDECREF(consult(stack->session, "on_limit", described(frame, code)));
    }
    if (!PyErr_Occurred()) {
        broken_promise(stack->session, code, "it is left to the interpreter");
    }
}

/* Its globals are of a class that may answer for names that it does not have: nothing can be said of them. */
static inline int
answers_for_names(const Frame *frame)
{
    return !PyDict_CheckExact(frame->f_globals) || !PyDict_CheckExact(frame->f_builtins);
}

/* A frame that the session in force may look at. */
static PyObject *
look(PyThreadState *tstate, Stack *stack, Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    CodeCache *cache = cache_of(code);
    int promised = is_awaited(stack, frame);
    if (promised) {
        stack->awaited = NULL;
    }
    if (cache != NULL && cache->flags) {
        if (promised) {
            return leave_frame(tstate, frame, broken_promise(stack->session, code, "it is never captured"));
        }
        if (cache->flags & TRIMMED) {
            PyObject *result = run_plain(tstate, frame, 0);
            if (result == NULL) {
                trim_traceback(stack->session);
            }
            return result;
        }
        return cache->flags & SKIP_BENEATH ? run_disabled(tstate, stack, frame) : run_plain(tstate, frame, 0);
    }
    if (!code_is_function(code) || frame->owner != FRAME_OWNED_BY_THREAD || answers_for_names(frame)) {
        return run_plain(tstate, frame, 0);
    }
    Entry *entry = NULL;
    Stash stash = {.program = NULL};
    int found = cache != NULL ? find_entry(tstate, cache, stack, frame, &entry, &stash) : MISSED;
    if (found == MISSED) {
        found = make_entry(tstate, stack, frame, code, promised, &entry, &stash);
    }
    if (promised && stance != DO_REUSE && found != FAILED && (found != FOUND || !(entry->recursive && entry->guards))) {
        break_promise(stack, frame, code, found);
        found = FAILED;
    }
    PyObject *result;
    switch (found) {
    case FOUND:
        result = run_entry(tstate, stack, frame, entry, &stash);
        break;
    case FAILED:
        result = leave_frame(tstate, frame, NULL);
        break;
    case EAGER_BENEATH:
        result = run_disabled(tstate, stack, frame);
        break;
    default:
        result = run_plain(tstate, frame, 0);
    }
    stash_drop(&stash);
    if (result == NULL && found == FOUND && entry->code != NULL) {
        trim_traceback(stack->session);
    }
    Py_XDECREF(entry);
    return result;
}

static PyObject *
hook(PyThreadState *tstate, Frame *frame, int throwing)
{
    if (comes_back(frame)) {
        installed.passed_on = NULL;
        return _PyEval_EvalFrameDefault(tstate, frame, throwing);
    }
    Stack *stack = stack_here(tstate);
    if (stack == NULL || stack->session == NULL || stance == DO_NOTHING) {
        return run_plain(tstate, frame, throwing);
    }
    if (stack->top != eval_frame_function(installed.interpreter) && !is_awaited(stack, frame)) {
        return run_passed_on(tstate, stack, frame, throwing);
    }
    /* To the program this is a call of Python by Python; DEEPEST bounds what it takes of the C stack. */
    uncount_c_call(tstate);
    int continues = (frame_code(frame)->co_flags & CONTINUES) != 0;
    frames_remaining(tstate) += continues;
    if (handover.function != NULL) {
        handed_over(frame);
    }
    PyObject *result;
    if (stack->nested >= DEEPEST) {
        result = run_deep(tstate, stack, frame, throwing);
    }
    else {
        stack->nested++;
        int looked_at = !stack->disabled && !throwing && !tstate->tracing; /* a tracer's own code is none of ours */
        result = looked_at ? look(tstate, stack, frame) : run_plain(tstate, frame, throwing);
        stack->nested--;
    }
    frames_remaining(tstate) -= continues;
    count_c_call(tstate);
    return result;
}

/* ---- for Python ---- */

PyObject *
hook_stats(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{sKsKsKsKsKsKsKsisn}", "hits", counts.hits, "misses", counts.misses, "callbacks",
                         counts.callbacks, "limited", counts.limited, "waits", counts.waits, "in_frame",
                         run_counts.in_frame, "by_call", run_counts.by_call, "wanted", installed.wanted, "watches", watches);
}

int
hook_init(void)
{
    install_init(hook);
    return consult_init() < 0 ? -1 : stack_init();
}
