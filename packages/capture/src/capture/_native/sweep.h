/* The quick look: all that a watch looks at as two arrays, words in memory and tensors, compared in one pass each. */
#ifndef CAPTURE_SWEEP_H
#define CAPTURE_SWEEP_H
#include "points.h"

/* Of a watch that holds. -1 with an exception. */
int sweep_make(Watch *watch);
/* 1 if all is as it was, 0 if that is in doubt, -1 with an exception. Runs no Python. */
int sweep_holds(Watch *watch, const GuardFrame *frame);
void sweep_free(Sweep *sweep);

#endif
