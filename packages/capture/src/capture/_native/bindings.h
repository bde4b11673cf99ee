/* What a program about what lives on was found to hold for: watches, by the roots that they hang from. */
#ifndef CAPTURE_BINDINGS_H
#define CAPTURE_BINDINGS_H
#include "watch.h"

extern PyTypeObject Bindings_Type;

/* For so many roots each; NULL with an exception. */
PyObject *bindings_new(Py_ssize_t roots);
/* Whether the roots are bound. `*watch` is NULL where no watch can tell; borrowed. */
int bindings_find(PyObject *bindings, PyObject *const *roots, Watch **watch);
/* Binds the roots, or binds them anew; shares `watch`, which may be NULL. -1 with an exception. */
int bindings_put(PyObject *bindings, PyObject *const *roots, Watch *watch);
void bindings_clear(PyObject *bindings);
Py_ssize_t bindings_count(PyObject *bindings);
/* The watch of the roots bound last, borrowed; NULL if there is none. */
Watch *bindings_last(PyObject *bindings);

#endif
