/* The bases of immutable values that are compared and hashed by their fields, and of those that are sources. */
#ifndef CAPTURE_PLACE_H
#define CAPTURE_PLACE_H
#include <Python.h>
extern PyTypeObject Record_Type, Place_Type;
PyObject *place_lay_out(PyObject *module, PyObject *args);
int place_ready(void);
#endif
