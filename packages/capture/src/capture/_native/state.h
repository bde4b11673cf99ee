/* Interpreter-wide settings of torch, read by address. */
#ifndef CAPTURE_STATE_H
#define CAPTURE_STATE_H
#include <Python.h>

/* 1 if readers give their values, else 0; `expected` is bytes, pairs of 64-bit words: which reader, its value. */
int state_is(PyObject *expected);
/* 1 or 0; -1 if the reader is unknown. */
int grad_mode(void);

PyObject *state_configure(PyObject *module, PyObject *args);
PyObject *state_read(PyObject *module, PyObject *ignored);

#endif
