/* Running a replacement: in the same frame if it is the topmost and may grow, else by a call. */
#include "run.h"
#include "install.h"
#include "stack.h"

struct RunCounts run_counts;

/* Puts `code` into the frame, at its start; the frame's code is released last, since it may hold what runs. */
static void
swap_code(Frame *frame, PyCodeObject *code, Py_ssize_t unit)
{
    PyCodeObject *old = frame_exchange_code(frame, (PyCodeObject *)Py_NewRef(code));
    frame_point_at(frame, code, unit);
    Py_DECREF(old);
}

/* At entry the frame's locals are the bound arguments, then NULLs, in the order of the replacement's parameters. */
static int
take_over(PyThreadState *tstate, Frame *frame, PyCodeObject *code)
{
    PyCodeObject *old = frame_code(frame);
    PyObject **base = (PyObject **)frame;
    Py_ssize_t size = code_frame_size(code), old_size = code_frame_size(old);
    if (base + old_size != tstate->datastack_top || size >= tstate->datastack_limit - base) {
        return 0;
    }
    if (size > old_size) {
        tstate->datastack_top = base + size;
    }
    for (int i = code_argument_count(old); i < code->co_nlocalsplus; i++) {
        frame->localsplus[i] = EMPTY_SLOT;
    }
    frame_set_top(frame, code->co_nlocalsplus);
    swap_code(frame, code, 0);
    return 1;
}

static PyObject *
call_replacement(Frame *frame, PyCodeObject *code)
{
    PyObject *closure = PyFunction_Check(frame_func(frame)) ? PyFunction_GET_CLOSURE(frame_func(frame)) : NULL;
    PyObject *func = PyFunction_New((PyObject *)code, frame->f_globals);
    if (func == NULL) {
        return NULL;
    }
    PyObject *result = NULL, **args = PyMem_Malloc((code->co_argcount + 1) * sizeof(PyObject *));
    for (int i = 0; args && i < code->co_argcount; i++) {
        args[i] = slot_object(frame->localsplus[i]); /* which holds it */
    }
    if (args == NULL) {
        PyErr_NoMemory();
    }
    else if (code->co_nfreevars == 0 || PyFunction_SetClosure(func, closure) == 0) {
        result = PyObject_Vectorcall(func, args, code->co_argcount, NULL);
    }
    PyMem_Free(args);
    Py_DECREF(func);
    return result;
}

PyObject *
leave_frame(PyThreadState *tstate, Frame *frame, PyObject *result)
{
#if HOOK_OWNS_FRAME
    /* The interpreter's own clean-up is not exported: let it run a body of nothing in this frame. */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    swap_code(frame, (PyCodeObject *)nothing->func_code, 1); /* past RESUME, where tracers look */
    PyObject *none = _PyEval_EvalFrameDefault(tstate, frame, 0);
    if (none == NULL) {
        PyErr_Clear(); /* the recursion limit: the frame was cleared all the same */
    }
    Py_XDECREF(none);
    PyErr_Restore(type, value, traceback);
#else
    (void)tstate;
    (void)frame;
#endif
    return result;
}

PyObject *
run_replacement(PyThreadState *tstate, Frame *frame, PyCodeObject *code)
{
    if (take_over(tstate, frame, code)) {
        run_counts.in_frame++;
        return run_plain(tstate, frame, 0);
    }
    run_counts.by_call++;
    return leave_frame(tstate, frame, call_replacement(frame, code));
}
