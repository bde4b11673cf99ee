/* The frame hook, and what it counted. */
#ifndef CAPTURE_HOOK_H
#define CAPTURE_HOOK_H
#include <Python.h>

int hook_init(void);
PyObject *hook_stats(PyObject *module, PyObject *ignored);

/* A flag of code that goes on where another frame of the program's broke off: to the program the two are one frame. */
#define CONTINUES 0x40000000

#endif
