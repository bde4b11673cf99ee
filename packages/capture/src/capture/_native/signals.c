/* What the interpreter calls for signals, and the frames of it. A handler comes between any two instructions of the thread it runs
   in, of the program's or of ours: it is no part of what was called. */
#include "signals.h"

/* Whether two arguments are a signal's number and the frame that it comes in the middle of. */
static int
is_of_signal(const Frame *caller, PyObject *number, PyObject *object)
{
    return number && PyLong_CheckExact(number) && object && PyFrame_Check(object) && caller->frame_obj == (PyFrameObject *)object;
}

int
is_handler(PyThreadState *tstate, const Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    const Frame *caller = current_frame_of(tstate);
    if (caller == NULL || caller->frame_obj == NULL) {
        return 0;
    }
    int positional = code->co_argcount;
    PyObject *before = NULL;
    for (int i = 0; i < positional; i++) { /* a method has one more, and there may be defaults */
        PyObject *object = slot_object(frame->localsplus[i]);
        if (is_of_signal(caller, before, object)) {
            return 1;
        }
        before = object;
    }
    if (code->co_flags & CO_VARARGS) {
        PyObject *rest = slot_object(frame->localsplus[positional + code->co_kwonlyargcount]);
        for (Py_ssize_t i = 0; rest && PyTuple_CheckExact(rest) && i < PyTuple_GET_SIZE(rest); i++) {
            PyObject *object = PyTuple_GET_ITEM(rest, i);
            if (is_of_signal(caller, before, object)) {
                return 1;
            }
            before = object;
        }
    }
    return 0;
}

/* ---- the table of handlers: `signal.signal` would tell the operating system, too, and take over what another library has there ---- */

#if PY_VERSION_HEX >= 0x030D0000
#define handler_at(i) ((PyObject *)_Py_atomic_load_ptr(&_PyRuntime.signals.handlers[i].func))
#define set_handler(i, object) _Py_atomic_store_ptr(&_PyRuntime.signals.handlers[i].func, object)
#elif PY_VERSION_HEX >= 0x030C0000
#define handler_at(i) ((PyObject *)_Py_atomic_load(&_PyRuntime.signals.handlers[i].func))
#define set_handler(i, object) _Py_atomic_store(&_PyRuntime.signals.handlers[i].func, (uintptr_t)(object))
#else
#define Py_NSIG 0 /* the table is no other file's to see */
#define handler_at(i) ((void)(i), (PyObject *)NULL)
#define set_handler(i, object) ((void)(i), Py_DECREF(object))
#endif

/* By number, those in Python (a built-in one raises, and no more); None where there are none, or none that this thread would run. */
PyObject *
signal_handlers(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *found = NULL;
#if PY_VERSION_HEX >= 0x030C0000
    for (int i = 1; PyThread_get_thread_ident() == _PyRuntime.main_thread && i < Py_NSIG; i++) {
        PyObject *handler = handler_at(i);
        if (handler == NULL || PyCFunction_Check(handler) || !PyCallable_Check(handler)) {
            continue;
        }
        found = found ? found : PyDict_New();
        PyObject *number = found ? PyLong_FromLong(i) : NULL;
        int done = number ? PyDict_SetItem(found, number, handler) : -1;
        Py_XDECREF(number);
        if (done < 0) {
            Py_XDECREF(found);
            return NULL;
        }
    }
#endif
    return found ? found : Py_NewRef(Py_None);
}

/* Of (number, handler, another): the other one in its place, where it still is that one; all of them before anything else runs. */
PyObject *
exchange_handlers(PyObject *Py_UNUSED(module), PyObject *exchanged)
{
    PyObject *all = PySequence_Tuple(exchanged), *dropped = all ? PyList_New(0) : NULL;
    int done = dropped ? 0 : -1;
    for (Py_ssize_t i = 0; done == 0 && i < PyTuple_GET_SIZE(all); i++) {
        int number;
        PyObject *from, *to, *each = PyTuple_GET_ITEM(all, i);
        if (!PyTuple_Check(each) || !PyArg_ParseTuple(each, "iOO", &number, &from, &to)) {
            done = -1;
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_TypeError, "tuples of a number and two handlers are exchanged");
            }
        }
        else if (number > 0 && number < Py_NSIG && handler_at(number) == from) {
            done = PyList_Append(dropped, from); /* which may die, but not before the others are exchanged */
            if (done == 0) {
                set_handler(number, Py_NewRef(to));
                Py_DECREF(from);
            }
        }
    }
    Py_XDECREF(dropped);
    Py_XDECREF(all);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}
