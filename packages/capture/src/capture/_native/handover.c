/* The interpreter holds a call's arguments on the caller's stack until it returns, if a hook is in place; in the frame
   that a continuation goes on from, they are gone as soon as the program lets go of them. */
#include "compat.h"
#include "handover.h"

/* The call that is about to be made. Between the note of it and the callee's frame no Python runs, in no thread. */
static struct {
    PyObject *function; /* borrowed; NULL: none */
    PyObject **args;
    Py_ssize_t count;
} next;

void
handed_over(Frame *frame)
{
    if (next.function == NULL || next.function != (PyObject *)frame_func(frame)) {
        return;
    }
    next.function = NULL;
    for (Py_ssize_t i = 0; i < next.count; i++) {
        if (next.args[i] == frame->localsplus[i]) {
            Py_CLEAR(next.args[i]); /* not the last reference */
        }
    }
}

/* Steals the function and the arguments. */
static PyObject *
call(PyObject *function, PyObject **args, Py_ssize_t count)
{
    next.function = function;
    next.args = args;
    next.count = count;
    /* The frame that the continuation goes on from is the same one to the program: it is there once. */
    PyThreadState *tstate = PyThreadState_Get();
    Frame *left = current_frame_of(tstate);
    current_frame_of(tstate) = left->previous;
    PyObject *result = PyObject_Vectorcall(function, args, count, NULL);
    current_frame_of(tstate) = left;
    next.function = NULL; /* where no frame of it was looked at */
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(args[i]);
    }
    Py_DECREF(function);
    return result;
}

PyObject *
go_on(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t total)
{
    PyObject *tail_call = given[0], *function = Py_NewRef(given[1]), *packed = NULL, *result;
    PyObject **from = (PyObject **)given + 2;
    Py_ssize_t count = total - 2;
    for (;;) {
        /* Not in the C stack, which greenlets move. */
        PyObject **args = PyMem_Malloc(count * sizeof(PyObject *));
        if (args == NULL) {
            Py_DECREF(function);
            Py_XDECREF(packed);
            return PyErr_NoMemory();
        }
        for (Py_ssize_t i = 0; i < count; i++) {
            if (packed) {
                args[i] = Py_NewRef(PyTuple_GET_ITEM(packed, i));
            }
            else {
                args[i] = from[i];
                from[i] = Py_NewRef(Py_None);
            }
        }
        Py_CLEAR(packed);
        result = call(function, args, count);
        PyMem_Free(args);
        if (result == NULL || (PyObject *)Py_TYPE(result) != tail_call) {
            return result;
        }
        function = Py_NewRef(PyTuple_GET_ITEM(result, 0));
        packed = Py_NewRef(PyTuple_GET_ITEM(result, 1));
        count = PyTuple_GET_SIZE(packed);
        Py_DECREF(result);
    }
}
