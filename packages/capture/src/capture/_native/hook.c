/* The frame hook: looks a frame's code up, checks guards against the frame's values, runs the replacement in the
   frame's place, or asks the session. Installed only while some compiled callable runs. */
#include "compat.h"
#include "cache.h"
#include "hook.h"
#include "program.h"
#include "run.h"
#ifndef _WIN32
#include <pthread.h>
#endif

_Thread_local HookThread hook_thread;

static PyObject *skip, *skip_recursive; /* what a callback may return */
static int wanted;                      /* over all threads; guarded by the GIL */
static PyInterpreterState *interpreter; /* the one that imported us; others never get the hook */
static _PyFrameEvalFunction beneath;    /* the hook that was there before ours, NULL for none */

static struct {
    unsigned long long hits, misses, callbacks, limited;
} counts;

/* Frames nested deeper run without the hook: what the interpreter survives by nesting on its heap must not fail on
   the C stack (threads have 512 KiB on some systems; 3.12.0 counts 800 such frames). */
#define DEEPEST 250
/* The frames that a session's own work may nest, however deep the program is in its limit. */
#define ROOM_TO_WORK 1000

static PyObject *hook(PyThreadState *tstate, Frame *frame, int throwing);

/* ---- installing ---- */

static int buried; /* someone installed a hook over ours, which passes frames on to us */

static void
install(void)
{
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (current == hook || (buried && current != _PyEval_EvalFrameDefault && current != beneath)) {
        return; /* to put ours over theirs, which calls ours, would never end */
    }
    buried = 0;
    beneath = current == _PyEval_EvalFrameDefault ? NULL : current;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, hook);
}

static void
uninstall(void)
{
    buried = _PyInterpreterState_GetEvalFrameFunc(interpreter) != hook;
    if (!buried) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter, beneath ? beneath : _PyEval_EvalFrameDefault);
    }
}

void
hook_want(HookThread *thread)
{
    thread->installs++;
    if (wanted++ == 0) {
        install();
    }
}

void
hook_unwant(HookThread *thread)
{
    thread->installs--;
    if (--wanted == 0) {
        uninstall();
    }
}

int
hook_suspend(HookThread *thread)
{
    int wants = thread->installs;
    thread->installs = 0;
    if (wants && (wanted -= wants) == 0) {
        uninstall();
    }
    return wants;
}

void
hook_resume(HookThread *thread, int wants)
{
    thread->installs += wants;
    if (wants && (wanted += wants) == wants) {
        install();
    }
}

/* In a forked child the other threads are gone, and so is what they wanted. */
static void
after_fork(void)
{
    wanted = hook_thread.installs;
}

/* ---- running ---- */

PyObject *
run_plain(PyThreadState *tstate, Frame *frame, int throwing)
{
    return beneath ? beneath(tstate, frame, throwing) : _PyEval_EvalFrameDefault(tstate, frame, throwing);
}

static PyObject *
run_disabled(PyThreadState *tstate, Frame *frame)
{
    HookThread *thread = &hook_thread;
    int before = thread->disabled;
    thread->disabled = 1;
    PyObject *result = run_plain(tstate, frame, 0);
    thread->disabled = before;
    return result;
}

static PyObject *
run_entry(PyThreadState *tstate, Frame *frame, Entry *entry)
{
    entry->hits++;
    counts.hits++;
    if (entry->code != NULL) {
        HookThread *thread = &hook_thread;
        int before = thread->disabled;
        thread->disabled |= entry->recursive;
        PyObject *result = run_replacement(tstate, frame, (PyCodeObject *)entry->code);
        thread->disabled = before;
        return result;
    }
    return entry->recursive ? run_disabled(tstate, frame) : run_plain(tstate, frame, 0);
}

/* ---- asking the session ---- */

/* Calls a method of the session with no session in force. */
static PyObject *
consult(PyObject *session, const char *method, PyObject *args)
{
    HookThread *thread = &hook_thread;
    HookThread before = *thread;
    PyThreadState *tstate = PyThreadState_Get();
    int wants = hook_suspend(thread);
    int room = Py_MIN(ROOM_TO_WORK, frames_limit(tstate)) - frames_remaining(tstate);
    room = room > 0 ? room : 0;
    frames_remaining(tstate) += room;
    thread->session = NULL;
    thread->awaited = NULL;
    thread->compiling = 1;
    PyObject *function = args ? PyObject_GetAttrString(session, method) : NULL;
    PyObject *answer = function ? PyObject_CallObject(function, args) : NULL;
    Py_XDECREF(function);
    frames_remaining(tstate) -= room;
    thread->session = before.session;
    thread->awaited = before.awaited;
    thread->compiling = before.compiling;
    thread->disabled = before.disabled;
    hook_resume(thread, wants);
    Py_XDECREF(args);
    return answer;
}

/* What a session is told of a frame: function, code, bound arguments, globals, builtins. */
static PyObject *
described(Frame *frame, PyCodeObject *code)
{
    int count = code_argument_count(code);
    PyObject *args = PyTuple_New(count);
    if (args == NULL) {
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        PyObject *value = frame->localsplus[i];
        PyTuple_SET_ITEM(args, i, Py_NewRef(value ? value : Py_None));
    }
    return Py_BuildValue("(OONOO)", frame_func(frame), (PyObject *)code, args, frame->f_globals, frame->f_builtins);
}

static PyObject *
ask(PyObject *session, Frame *frame, PyCodeObject *code)
{
    counts.callbacks++;
    return consult(session, "callback", described(frame, code));
}

static int
tell_limit(CodeCache *cache, PyObject *session, Frame *frame, PyCodeObject *code)
{
    PyObject *mark = entry_mark(0, 1);
    if (mark == NULL || cache_add(cache, mark, session) < 0) {
        Py_XDECREF(mark);
        return -1;
    }
    Py_DECREF(mark);
    counts.limited++;
    PyObject *answer = consult(session, "on_limit", described(frame, code));
    Py_XDECREF(answer);
    return answer ? 0 : -1;
}

PyObject *
hook_broken_promise(PyObject *session, PyObject *code_or_none, const char *reason)
{
    PyObject *answer = consult(session, "on_broken_promise", Py_BuildValue("(Os)", code_or_none, reason));
    if (answer != NULL) {
        Py_DECREF(answer);
        PyErr_SetString(PyExc_RuntimeError, reason);
    }
    return NULL;
}

/* Whether the session wants no more entries for this code; -1 with an exception. */
static int
limit_reached(CodeCache *cache, PyObject *session)
{
    Py_ssize_t ours = cache ? cache_prune(cache, session) : 0;
    PyObject *number = PyObject_GetAttrString(session, "cache_limit");
    Py_ssize_t limit = number ? PyLong_AsSsize_t(number) : -1;
    Py_XDECREF(number);
    return limit < 0 && PyErr_Occurred() ? -1 : ours >= limit;
}

static Py_ssize_t
check(Entry *entry, Frame *frame)
{
    GuardFrame values = {frame->localsplus, frame_func(frame), frame->f_globals, frame->f_builtins};
    return entry->guards ? program_run(entry->guards, &values) : GUARDS_HOLD;
}

/* The entry to keep for a callback's answer, NULL for "none" (or with an exception). */
static PyObject *
entry_of(PyObject *answer, PyCodeObject *code)
{
    if (answer == Py_None) {
        return NULL;
    }
    if (answer == skip || answer == skip_recursive) {
        return entry_mark(answer == skip_recursive, 0);
    }
    if (!Py_IS_TYPE(answer, &Entry_Type)) {
        PyErr_Format(PyExc_TypeError, "a session's callback returns None, SKIP, SKIP_RECURSIVE or an Entry, not %s",
                     Py_TYPE(answer)->tp_name);
        return NULL;
    }
    Entry *entry = (Entry *)answer;
    PyCodeObject *replacement = (PyCodeObject *)entry->code;
    if (replacement && !code_is_plain_function(code)) {
        PyErr_Format(PyExc_ValueError, "%U suspends: it can have no replacement", code->co_name);
        return NULL;
    }
    if (entry->guards && program_suits(entry->guards, code) < 0) {
        return NULL;
    }
    if (replacement && (replacement->co_argcount != code_argument_count(code) ||
                        replacement->co_nfreevars != code->co_nfreevars)) {
        PyErr_Format(PyExc_ValueError, "the replacement of %U takes %d arguments and %d free variables, not %d and %d",
                     code->co_name, replacement->co_argcount, replacement->co_nfreevars, code_argument_count(code),
                     code->co_nfreevars);
        return NULL;
    }
    return Py_NewRef(answer);
}

/* The session's answer for this frame: an entry to run (strong), NULL for eager (`*limited`: as all others that fit
   nothing) or with an exception. */
static Entry *
capture_frame(PyObject *session, Frame *frame, PyCodeObject *code, int *limited)
{
    CodeCache *cache = cache_of(code);
    int full = limit_reached(cache, session);
    if (full != 0) {
        if (full > 0) {
            *limited = 1;
            cache = cache_make(code);
            if (cache != NULL) {
                tell_limit(cache, session, frame, code);
            }
        }
        return NULL;
    }
    PyObject *answer = ask(session, frame, code);
    if (answer == NULL) {
        return NULL;
    }
    Entry *entry = (Entry *)entry_of(answer, code);
    Py_DECREF(answer);
    if (entry == NULL) {
        return NULL;
    }
    cache = cache_make(code);
    if (cache == NULL || cache_add(cache, (PyObject *)entry, session) < 0) {
        Py_DECREF(entry);
        return NULL;
    }
    Py_ssize_t failing = check(entry, frame);
    if (failing == GUARDS_HOLD) {
        return entry;
    }
    if (failing >= 0) {
        PyObject *told = Py_BuildValue("(OO)", (PyObject *)code, program_text(entry->guards, failing));
        Py_XDECREF(consult(session, "on_misfit", told));
    }
    Py_DECREF(entry);
    return NULL;
}

/* ---- the hook ---- */

/* The entry that fits (strong). NULL: none, or an exception, or (`*limited`) none and the session wants no more. */
static Entry *
find_entry(CodeCache *cache, PyObject *session, Frame *frame, int *limited)
{
    for (Py_ssize_t i = 0; i < cache->count; i++) {
        if (weak_target(cache->slots[i].session) != session) {
            continue;
        }
        Entry *entry = cache->slots[i].entry;
        if (entry->limit) {
            *limited = 1;
            continue;
        }
        unsigned version = cache->version;
        Py_INCREF(entry);
        Py_ssize_t failing = check(entry, frame);
        if (failing == GUARDS_HOLD) {
            if (i > 0) {
                cache_promote(cache, entry);
            }
            return entry;
        }
        Py_DECREF(entry);
        if (failing == GUARDS_ERROR) {
            return NULL;
        }
        if (cache->version != version) {
            i = -1; /* a guard ran Python that changed the cache */
            *limited = 0;
        }
    }
    return NULL;
}

static PyObject *
run_deep(PyThreadState *tstate, Frame *frame, int throwing)
{
    HookThread *thread = &hook_thread;
    PyObject *session = thread->session;
    if (session != NULL && !thread->disabled && !throwing) {
        int promised = thread->awaited != NULL && thread->awaited == frame_func(frame);
        PyObject *told = consult(session, promised ? "on_broken_promise" : "on_depth",
                                 Py_BuildValue("(Os)", (PyObject *)frame_code(frame), "frames are nested too deep"));
        if (told == NULL) {
            return leave_frame(tstate, frame, NULL);
        }
        Py_DECREF(told);
    }
    int wants = hook_suspend(thread);
    PyObject *result = run_plain(tstate, frame, throwing);
    hook_resume(thread, wants);
    return result;
}

/* A frame that the session in force may look at. */
static PyObject *
look(PyThreadState *tstate, Frame *frame)
{
    HookThread *thread = &hook_thread;
    PyObject *session = thread->session;
    PyCodeObject *code = frame_code(frame);
    CodeCache *cache = cache_of(code);
    int promised = thread->awaited != NULL && thread->awaited == frame_func(frame);
    if (promised) {
        thread->awaited = NULL;
    }
    if (cache != NULL && cache->flags) {
        if (promised) {
            return leave_frame(tstate, frame, hook_broken_promise(session, (PyObject *)code, "it is never captured"));
        }
        return cache->flags & SKIP_BENEATH ? run_disabled(tstate, frame) : run_plain(tstate, frame, 0);
    }
    if (!code_is_function(code) || frame->owner != FRAME_OWNED_BY_THREAD) {
        return run_plain(tstate, frame, 0);
    }
    int limited = 0;
    Entry *entry = cache != NULL ? find_entry(cache, session, frame, &limited) : NULL;
    if (entry == NULL && !limited && !PyErr_Occurred()) {
        counts.misses++;
        entry = capture_frame(session, frame, code, &limited);
    }
    if (promised && !PyErr_Occurred() && (entry == NULL || !(entry->recursive && entry->guards))) {
        if (limited) {
            Py_XDECREF(consult(session, "on_limit", described(frame, code)));
        }
        if (!PyErr_Occurred()) {
            hook_broken_promise(session, (PyObject *)code, "it is left to the interpreter");
        }
    }
    if (PyErr_Occurred()) {
        Py_XDECREF(entry);
        return leave_frame(tstate, frame, NULL);
    }
    if (entry == NULL) {
        return run_plain(tstate, frame, 0);
    }
    PyObject *result = run_entry(tstate, frame, entry);
    Py_DECREF(entry);
    return result;
}

static PyObject *
hook(PyThreadState *tstate, Frame *frame, int throwing)
{
    HookThread *thread = &hook_thread;
    int depth = thread->depth;
    if (depth >= DEEPEST) {
        return run_deep(tstate, frame, throwing);
    }
    thread->depth = depth + 1;
    int looked_at = thread->session != NULL && !thread->disabled && !throwing;
    PyObject *result = looked_at ? look(tstate, frame) : run_plain(tstate, frame, throwing);
    thread->depth = depth;
    return result;
}

/* ---- for Python ---- */

PyObject *
hook_stats(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{sKsKsKsKsKsK}", "hits", counts.hits, "misses", counts.misses, "callbacks",
                         counts.callbacks, "limited", counts.limited, "in_frame", run_counts.in_frame, "by_call",
                         run_counts.by_call);
}

static PyTypeObject Mark_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native.Mark",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The type of SKIP and SKIP_RECURSIVE.",
};

int
hook_init(PyObject *module)
{
    interpreter = PyInterpreterState_Get();
    if (PyType_Ready(&Mark_Type) < 0) {
        return -1;
    }
    skip = PyObject_New(PyObject, &Mark_Type);
    skip_recursive = PyObject_New(PyObject, &Mark_Type);
    if (skip == NULL || skip_recursive == NULL || PyModule_AddObjectRef(module, "SKIP", skip) < 0 ||
        PyModule_AddObjectRef(module, "SKIP_RECURSIVE", skip_recursive) < 0 ||
        PyModule_AddObjectRef(module, "Mark", (PyObject *)&Mark_Type) < 0) {
        return -1;
    }
#ifndef _WIN32
    pthread_atfork(NULL, NULL, after_fork);
#endif
    return run_init();
}
