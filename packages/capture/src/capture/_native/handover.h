/* Calls of continuations, and of what stands for frames within, whose arguments are theirs alone: nothing that called them holds on to one. */
#ifndef CAPTURE_HANDOVER_H
#define CAPTURE_HANDOVER_H
#include "compat.h"

/* `go_on(tail_call, function, *args)`: what the function returns; while that is a `tail_call`, a tuple of a function and
   arguments, what calling it returns. Only for generated code that calls it by position: the arguments are taken from
   the caller's value stack, where None is left. */
PyObject *go_on(PyObject *module, PyObject *const *given, Py_ssize_t count);
/* Adds `go_within((function, arguments))`: what the function returns, of a pair that is nobody else's; as above. */
int handover_add(PyObject *module);

/* The call that is about to be made. Between the note of it and the callee's frame no Python runs, in no thread. */
typedef struct {
    PyObject *function; /* borrowed; NULL: none */
    PyObject **args;
    Py_ssize_t count;
} Handover;
extern Handover handover;
/* Where a call is about to be made: if it is this frame's, which has its arguments, what brought them lets go. */
void handed_over(Frame *frame);

#endif
