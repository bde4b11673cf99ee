/* The interpreter holds a call's arguments on the caller's stack until it returns, if a hook is in place; in the frame
   that a continuation goes on from, they are gone as soon as the program lets go of them. */
#include "compat.h"
#include "handover.h"

Handover handover;

void
handed_over(Frame *frame)
{
    if (handover.function != (PyObject *)frame_func(frame)) {
        return;
    }
    handover.function = NULL;
    for (Py_ssize_t i = 0; i < handover.count; i++) {
        if (handover.args[i] == slot_object(frame->localsplus[i])) {
            Py_CLEAR(handover.args[i]); /* not the last reference */
        }
    }
}

/* Steals the function and the arguments. */
static PyObject *
call(PyObject *function, PyObject **args, Py_ssize_t count)
{
    handover = (Handover){function, args, count};
    PyObject *result = PyObject_Vectorcall(function, args, count, NULL);
    handover.function = NULL; /* where no frame of it was looked at */
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(args[i]);
    }
    Py_DECREF(function);
    return result;
}

/* As many as the tuple has, which lets go of them. Not in the C stack, which greenlets move. */
static PyObject **
unpacked(PyObject *packed)
{
    Py_ssize_t count = PyTuple_GET_SIZE(packed);
    PyObject **args = PyMem_Malloc((count + !count) * sizeof(PyObject *));
    for (Py_ssize_t i = 0; args && i < count; i++) {
        args[i] = Py_NewRef(PyTuple_GET_ITEM(packed, i));
    }
    Py_DECREF(packed);
    return args;
}

static PyObject *
go_within(PyObject *Py_UNUSED(self), PyObject *const *given, size_t Py_UNUSED(total), PyObject *Py_UNUSED(names))
{
    PyObject *pair = take_argument(given, 1, 0);
    PyObject *function = Py_NewRef(PyTuple_GET_ITEM(pair, 0)), *packed = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    Py_DECREF(pair);
    Py_ssize_t count = PyTuple_GET_SIZE(packed);
    PyObject **args = unpacked(packed);
    if (args == NULL) {
        Py_DECREF(function);
        return PyErr_NoMemory();
    }
    PyObject *result = call(function, args, count);
    PyMem_Free(args);
    return result;
}

PyObject *
go_on(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t total)
{
    PyObject *tail_call = given[0], *function = Py_NewRef(given[1]), *packed = NULL, *result;
    Py_ssize_t count = total - 2;
    for (;;) {
        PyObject **args = packed ? unpacked(packed) : PyMem_Malloc((count + !count) * sizeof(PyObject *));
        if (args == NULL) {
            Py_DECREF(function);
            return PyErr_NoMemory();
        }
        for (Py_ssize_t i = 0; !packed && i < count; i++) {
            args[i] = take_argument(given, total, i + 2);
        }
        /* The frame that the continuation goes on from is the same one to the program: it is there once. */
        PyThreadState *tstate = PyThreadState_Get();
        Frame *left = current_frame_of(tstate);
        current_frame_of(tstate) = left->previous;
        result = call(function, args, count);
        current_frame_of(tstate) = left;
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

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
} Within;

/* Not a built-in function: the interpreter counts those as frames, where the program has but the one within. */
static PyTypeObject Within_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native.Within",
    .tp_basicsize = sizeof(Within),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Calls what stands for a frame within, which alone holds its arguments.",
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Within, vectorcall),
};

int
handover_add(PyObject *module)
{
    Within *within = PyType_Ready(&Within_Type) < 0 ? NULL : PyObject_New(Within, &Within_Type);
    if (within == NULL) {
        return -1;
    }
    within->vectorcall = go_within;
    int added = PyModule_AddObjectRef(module, "go_within", (PyObject *)within);
    Py_DECREF(within);
    return added;
}
