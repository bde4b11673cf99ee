/* Calls of continuations whose arguments are theirs alone: nothing that called them holds on to one. */
#ifndef CAPTURE_HANDOVER_H
#define CAPTURE_HANDOVER_H
#include "compat.h"

/* `go_on(tail_call, function, *args)`: what the function returns; while that is a `tail_call`, a tuple of a function and
   arguments, what calling it returns. Only for generated code that calls it by position: the arguments are taken from
   the caller's value stack, where None is left. */
PyObject *go_on(PyObject *module, PyObject *const *given, Py_ssize_t count);
/* A continuation's frame has its arguments: what brought them lets go. */
void handed_over(Frame *frame);

#endif
