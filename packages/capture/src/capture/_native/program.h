/* Guard programs: reads and checks over registers, run against a frame's values. */
#ifndef CAPTURE_PROGRAM_H
#define CAPTURE_PROGRAM_H
#include <Python.h>

/* Where a program reads from; all borrowed. `func` may be NULL or None: then it has no closure. */
typedef struct {
    PyObject *const *locals;
    PyObject *func, *globals, *builtins;
} GuardFrame;

enum { GUARDS_HOLD = -1, GUARDS_ERROR = -2 };

extern PyTypeObject GuardProgram_Type;

/* GUARDS_HOLD, the index (0 or more) of the first guard's text that fails, or GUARDS_ERROR with an exception. */
Py_ssize_t program_run(PyObject *program, const GuardFrame *frame);
/* 0 if frames of this code hold all that the program reads, else -1 with ValueError. */
int program_suits(PyObject *program, PyCodeObject *code);
/* The inputs of a graph, taken down with the check that a frame passed: what runs between the two changes them no more than
   it would change the arguments of a call. */
typedef struct Stash {
    PyObject *program; /* borrowed; NULL: nothing was taken down */
    PyObject **values; /* strong; NULL once they are taken */
    Py_ssize_t count;
    struct Stash *outer;
} Stash;

/* To be called just after GUARDS_HOLD. -1 with an exception. */
int stash_fill(Stash *stash, PyObject *program);
void stash_drop(Stash *stash);
/* How many inputs a graph takes of the watched part's pins. */
void program_set_inputs(PyObject *program, Py_ssize_t count);

/* The values of the watched part's first pins as they are now; new references. -1 with an exception. */
int program_pins(PyObject *program, PyObject **out, Py_ssize_t count);
Py_ssize_t program_pin_count(PyObject *program);
/* The text at an index, borrowed. */
PyObject *program_text(PyObject *program, Py_ssize_t index);


#endif
