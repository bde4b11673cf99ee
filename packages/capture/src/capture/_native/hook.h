/* The frame hook. */
#ifndef CAPTURE_HOOK_H
#define CAPTURE_HOOK_H
#include <Python.h>

/* The hook is installed while any stack of any thread has a session in force: so many more, or fewer. */
void hook_want(int more);
/* In a forked child: how many are left. */
void hook_forked(int wants);

int hook_init(void);
PyObject *hook_stats(PyObject *module, PyObject *ignored);

#endif
