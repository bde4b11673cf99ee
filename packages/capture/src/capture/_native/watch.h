/* Watches: what a run of a guard program looked at, so that the next run need only see that nothing of it changed. */
#ifndef CAPTURE_WATCH_H
#define CAPTURE_WATCH_H
#include "program.h"
#include "steps.h"

typedef struct Watch Watch;

/* Taking down what a run looks at. `watch_note` follows each step that held; `value` is what a read gave, else NULL. */
Watch *watch_new(Py_ssize_t looks, Py_ssize_t registers, Py_ssize_t pins);
void watch_note(Watch *watch, const Step *step, PyObject *const *regs, PyObject *value);
/* Ends the taking down; `pins` are the first registers. From then on nothing is kept alive that could be watched. */
int watch_seal(Watch *watch, PyObject *const *pins, const GuardFrame *frame);

/* 1 if all is as it was, 0 if that is in doubt, -1 with an exception. */
int watch_holds(Watch *watch, const GuardFrame *frame);
/* The same by what runs no Python: enough for what was read to be alive. */
int watch_stands(Watch *watch, const GuardFrame *frame);
/* Whether `watch_holds` runs no Python. */
int watch_is_quiet(const Watch *watch);
/* A register as it was at the end of the run; borrowed, and right while the watch holds. */
PyObject *watch_pin(const Watch *watch, Py_ssize_t number);
/* All of them, by number. */
PyObject *const *watch_pins(const Watch *watch);
/* How many; -1 if it cannot be watched, because of the step with this text (-1: it changes while it is looked at). */
Py_ssize_t watch_points(const Watch *watch);
int watch_reason(const Watch *watch);

/* How many there are. */
extern Py_ssize_t watches;

Watch *watch_share(Watch *watch);
void watch_drop(Watch *watch); /* NULL is nothing */

#endif
