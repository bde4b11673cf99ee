/* The frame hook, and what it counted. */
#ifndef CAPTURE_HOOK_H
#define CAPTURE_HOOK_H
#include <Python.h>

int hook_init(void);
PyObject *hook_stats(PyObject *module, PyObject *ignored);

#endif
