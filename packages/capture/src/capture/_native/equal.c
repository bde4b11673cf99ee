/* Equality of constants by type and bits: 1, True and 1.0 differ, so do 0.0 and -0.0; a NaN equals itself. */
#include "compat.h"
#include "equal.h"
#include <string.h>

static int
items_equal(PyObject *left, PyObject *right)
{
    Py_ssize_t size = PyTuple_GET_SIZE(left);
    if (size != PyTuple_GET_SIZE(right)) {
        return 0;
    }
    if (Py_EnterRecursiveCall(" in a guard")) {
        return -1;
    }
    int equal = 1;
    for (Py_ssize_t i = 0; i < size && equal == 1; i++) {
        equal = exactly_equal(PyTuple_GET_ITEM(left, i), PyTuple_GET_ITEM(right, i));
    }
    Py_LeaveRecursiveCall();
    return equal;
}

static int
slices_equal(PyObject *left, PyObject *right)
{
    PySliceObject *a = (PySliceObject *)left, *b = (PySliceObject *)right;
    int equal = exactly_equal(a->start, b->start);
    if (equal == 1) {
        equal = exactly_equal(a->stop, b->stop);
    }
    return equal == 1 ? exactly_equal(a->step, b->step) : equal;
}

/* Of equal frozensets, every member must have an exact twin: {1} and {True} are equal to Python. */
static int
sets_equal(PyObject *left, PyObject *right)
{
    if (PySet_GET_SIZE(left) != PySet_GET_SIZE(right)) {
        return 0;
    }
    PyObject *ours = PySequence_Tuple(left), *theirs = PySequence_Tuple(right);
    int equal = ours && theirs ? 1 : -1;
    for (Py_ssize_t i = 0; equal == 1 && i < PyTuple_GET_SIZE(ours); i++) {
        int found = 0;
        for (Py_ssize_t j = 0; !found && j < PyTuple_GET_SIZE(theirs); j++) {
            found = exactly_equal(PyTuple_GET_ITEM(ours, i), PyTuple_GET_ITEM(theirs, j));
        }
        equal = found;
    }
    Py_XDECREF(ours);
    Py_XDECREF(theirs);
    return equal;
}

int
exactly_equal(PyObject *left, PyObject *right)
{
    if (left == right) {
        return 1;
    }
    PyTypeObject *type = Py_TYPE(left);
    if (type != Py_TYPE(right)) {
        return 0;
    }
    if (type == &PyFloat_Type) {
        double a = PyFloat_AS_DOUBLE(left), b = PyFloat_AS_DOUBLE(right);
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (type == &PyComplex_Type) {
        Py_complex a = ((PyComplexObject *)left)->cval, b = ((PyComplexObject *)right)->cval;
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (PyTuple_Check(left)) {
        return items_equal(left, right);
    }
    if (type == &PySlice_Type) {
        return slices_equal(left, right);
    }
    if (type == &PyFrozenSet_Type) {
        return sets_equal(left, right);
    }
    return PyObject_RichCompareBool(left, right, Py_EQ);
}
