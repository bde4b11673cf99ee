/* Guard programs: reads and checks over registers, run against a frame's values. */
#ifndef CAPTURE_PROGRAM_H
#define CAPTURE_PROGRAM_H
#include "compat.h"

/* Where a program reads from; all borrowed. `func` may be NULL or None: then it has no closure. */
typedef struct {
    const FrameSlot *locals;
    PyObject *func, *globals, *builtins;
    PyObject *const *roots; /* for what lives on: what the call brought that it hangs from */
} GuardFrame;

enum {
    GUARDS_HOLD = -1,
    GUARDS_ERROR = -2,
    GUARDS_UNBOUND = -3,
};

extern PyTypeObject GuardProgram_Type;

/* 0 if frames of this code hold all that the program reads, else -1 with ValueError. */
int program_suits(PyObject *program, PyCodeObject *code);
/* What a graph takes of the check that its frame passed: the roots, and the inputs that hang from them; what runs between
   the two changes those no more than it would change the arguments of a call. */
typedef struct Stash {
    PyObject *program; /* borrowed; NULL: nothing was taken down */
    PyObject **values; /* strong: the roots, then the inputs */
    Py_ssize_t roots, count; /* `count` of inputs; 0: they are to be read, or are taken */
    struct Stash *outer;
} Stash;

void stash_drop(Stash *stash);

/* GUARDS_HOLD, the index (0 or more) of the first guard's text that fails, or GUARDS_ERROR with an exception. With
   `bound_only` roots that were never verified are not: GUARDS_UNBOUND. `stash`, if given, is filled where all holds. */
Py_ssize_t program_run(PyObject *program, const GuardFrame *frame, int bound_only, Stash *stash);
/* How many inputs a graph takes of the watched part's pins. */
void program_set_inputs(PyObject *program, Py_ssize_t count);

/* The values of the watched part's first pins as they are now; new references. -1 with an exception. */
int program_pins(PyObject *program, PyObject *const *roots, PyObject **out, Py_ssize_t count);
Py_ssize_t program_pin_count(PyObject *program);
/* How many roots it reads from. */
Py_ssize_t program_root_count(PyObject *program);
/* The text at an index, made now; NULL with an exception. */
PyObject *program_text(PyObject *program, Py_ssize_t index);

#endif
