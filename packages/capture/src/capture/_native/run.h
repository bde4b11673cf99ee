/* Running other code in a frame's place. */
#ifndef CAPTURE_RUN_H
#define CAPTURE_RUN_H
#include "compat.h"

extern struct RunCounts {
    unsigned long long in_frame, by_call;
} run_counts;

/* The frame's arguments with the replacement's code. */
PyObject *run_replacement(PyThreadState *tstate, Frame *frame, PyCodeObject *code);
/* Give up a frame that never ran, as the evaluator would at its end; passes `result` and any exception through. */
PyObject *leave_frame(PyThreadState *tstate, Frame *frame, PyObject *result);

#endif
