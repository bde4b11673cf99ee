/* Asking a session: with nothing in force, with frames to spare, and its answer checked. */
#include "consult.h"
#include "program.h"
#include "stack.h"

/* The frames that a session's own work may nest, however deep the program is in its limit: what inlining takes at its
   deepest (`evaluator/state.py`) and some. */
#define SPARE_FRAMES 2500

static PyObject *skip, *skip_recursive; /* what a callback may return */

PyObject *
consult(PyObject *session, const char *method, PyObject *args)
{
    PyThreadState *tstate = PyThreadState_Get();
    PyObject *function = args ? get_attribute(session, method) : NULL, *answer = NULL;
    Scope scope;
    if (function && scope_begin(&scope, tstate, stack_here(tstate), NULL, NULL, 1) == 0) {
        int extra = SPARE_FRAMES - frames_remaining(tstate);
        extra = extra > 0 ? extra : 0;
        frames_remaining(tstate) += extra;
        answer = PyObject_CallObject(function, args);
        frames_remaining(tstate) -= extra;
        scope_end(&scope);
    }
    Py_XDECREF(function);
    Py_XDECREF(args);
    return answer;
}

void
tell_misfit(PyObject *session, PyCodeObject *code, PyObject *program, Py_ssize_t guard)
{
    PyThreadState *tstate = PyThreadState_Get();
    PyObject *text = NULL;
    Scope scope;
    if (scope_begin(&scope, tstate, stack_here(tstate), NULL, NULL, 1) == 0) {
        text = program_text(program, guard); /* which the compiler writes: no frame of that is the program's to look at */
        scope_end(&scope);
    }
    Py_XDECREF(consult(session, "on_misfit", text ? Py_BuildValue("(ON)", (PyObject *)code, text) : NULL));
}

PyObject *
described(Frame *frame, PyCodeObject *code)
{
    int count = code_argument_count(code);
    PyObject *args = PyTuple_New(count);
    if (args == NULL) {
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        PyObject *value = slot_object(frame->localsplus[i]);
        PyTuple_SET_ITEM(args, i, Py_NewRef(value ? value : Py_None));
    }
    return Py_BuildValue("(OONOO)", frame_func(frame), (PyObject *)code, args, frame->f_globals, frame->f_builtins);
}

int
tell_limit(CodeCache *cache, PyObject *session, Frame *frame, PyCodeObject *code)
{
    PyObject *mark = entry_mark(0, 1);
    if (mark == NULL || cache_add(cache, mark, session, 1) < 0) {
        Py_XDECREF(mark);
        return -1;
    }
    Py_DECREF(mark);
    PyObject *answer = consult(session, "on_limit", described(frame, code));
    Py_XDECREF(answer);
    return answer ? 0 : -1;
}

PyObject *
broken_promise(PyObject *session, PyCodeObject *code, const char *reason)
{
    PyObject *args = Py_BuildValue("(Os)", code ? (PyObject *)code : Py_None, reason);
    PyObject *answer = consult(session, "on_broken_promise", args);
    if (answer != NULL) {
        Py_DECREF(answer);
        PyErr_SetString(PyExc_RuntimeError, reason);
    }
    return NULL;
}

/* What has nothing to run in a frame's place costs little to keep, and much to find out anew for each call. */
#define PLAIN_FOR_ONE 8

int
limit_reached(CodeCache *cache, PyObject *session, int promised)
{
    Py_ssize_t plain = 0, ours = cache ? cache_prune(cache, session, &plain) : 0;
    PyObject *number = get_attribute(session, "cache_limit");
    Py_ssize_t limit = number ? PyLong_AsSsize_t(number) : -1;
    Py_XDECREF(number);
    if (limit < 0 && PyErr_Occurred()) {
        return -1;
    }
    return ours >= limit || (!promised && plain / PLAIN_FOR_ONE >= limit);
}

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

Entry *
ask_for_entry(PyObject *session, Frame *frame, PyCodeObject *code)
{
    PyObject *answer = consult(session, "callback", described(frame, code));
    PyObject *entry = answer ? entry_of(answer, code) : NULL;
    Py_XDECREF(answer);
    return (Entry *)entry;
}

static PyTypeObject Mark_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native.Mark",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The type of SKIP and SKIP_RECURSIVE.",
};

int
consult_init(void)
{
    if (PyType_Ready(&Mark_Type) < 0) {
        return -1;
    }
    skip = PyObject_New(PyObject, &Mark_Type);
    skip_recursive = PyObject_New(PyObject, &Mark_Type);
    return skip && skip_recursive ? 0 : -1;
}

int
consult_add(PyObject *module)
{
    if (PyModule_AddObjectRef(module, "SKIP", skip) < 0 ||
        PyModule_AddObjectRef(module, "SKIP_RECURSIVE", skip_recursive) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Mark", (PyObject *)&Mark_Type);
}
