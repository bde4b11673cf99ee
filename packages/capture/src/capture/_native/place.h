/* The base of sources: immutable values that are compared and hashed by their fields. */
#ifndef CAPTURE_PLACE_H
#define CAPTURE_PLACE_H
#include <Python.h>
extern PyTypeObject Place_Type;
PyObject *place_lay_out(PyObject *module, PyObject *args);
int place_ready(void);
#endif
