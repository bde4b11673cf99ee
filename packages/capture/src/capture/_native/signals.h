/* What the interpreter calls for signals, and the frames of it. */
#ifndef CAPTURE_SIGNALS_H
#define CAPTURE_SIGNALS_H
#include "compat.h"

/* Whether a frame that is about to run is that of a signal's handler: it is given the very frame that it comes in the middle of. */
int is_handler(PyThreadState *tstate, const Frame *frame);

PyObject *signal_handlers(PyObject *module, PyObject *ignored);
PyObject *exchange_handlers(PyObject *module, PyObject *exchanged);

#endif
