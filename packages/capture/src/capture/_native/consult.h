/* What the hook asks of a session. */
#ifndef CAPTURE_CONSULT_H
#define CAPTURE_CONSULT_H
#include "cache.h"
#include "compat.h"

/* Calls a method of the session with no session in force; takes over `args`, which may be NULL with an exception. */
PyObject *consult(PyObject *session, const char *method, PyObject *args);
/* Tells it which guard of a capture does not hold for the very call it was made for; perhaps with an exception. */
void tell_misfit(PyObject *session, PyCodeObject *code, PyObject *program, Py_ssize_t guard);
/* What a session is told of a frame: function, code, bound arguments, globals, builtins. */
PyObject *described(Frame *frame, PyCodeObject *code);
/* Asks for the exception that says why a callable (its code, or NULL) was not captured whole; always NULL. */
PyObject *broken_promise(PyObject *session, PyCodeObject *code, const char *reason);
/* Whether the session wants no more entries for this code; -1 with an exception. What must be captured whole (`promised`) may have any number
   of those that replace nothing. */
int limit_reached(CodeCache *cache, PyObject *session, int promised);
/* Marks the code so, and tells the session. -1 with an exception. */
int tell_limit(CodeCache *cache, PyObject *session, Frame *frame, PyCodeObject *code);
/* The entry to keep for this frame (strong), NULL for none or with an exception. */
Entry *ask_for_entry(PyObject *session, Frame *frame, PyCodeObject *code);

int consult_init(void);
/* Its marks, for Python. */
int consult_add(PyObject *module);

#endif
