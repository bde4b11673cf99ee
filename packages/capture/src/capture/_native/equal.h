/* Equality of constants by type and bits. */
#ifndef CAPTURE_EQUAL_H
#define CAPTURE_EQUAL_H
#include <Python.h>

/* 1 equal, 0 not, -1 with an exception. Same exact type; floats bit for bit; tuples and slices item by item. */
int exactly_equal(PyObject *left, PyObject *right);

#endif
