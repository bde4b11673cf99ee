/* The inside of a guard program: its operations and their operands. */
#ifndef CAPTURE_STEPS_H
#define CAPTURE_STEPS_H
#include <Python.h>
#include "program.h"
#include "shape.h"
#include "tensor.h"

enum {
    /* reads: dst = ... */
    /* clang-format off */
    LOCAL, FREE, CONST, ATTR, DICT_ATTR, INDEX, KEY, TYPE_OF, KEY_AT, VALUE_AT, DEFAULT, KWDEFAULT, CELL,
    FUNC_GLOBAL, TYPE_ENTRY, REFERENT, CLASS_DICT, APPLY, MADE, GLOBALS, BUILTINS, FREE_CELL, ROOT, DEREF, PINNED,
    LAST_READ = PINNED,
    /* checks of src */
    TYPE, TYPE_WEAK, IS, IS_WEAK, IS_AT, EQUALS, TENSOR, LEN, DICT_KEYS, HAS_KEY, NO_KEY, NO_KEYS, EMPTY_AT, HAS_ATTR, NO_ATTR, NO_TYPE_ENTRY,
    EMPTY_CELL, PREDICATE,
    /* checks of several registers, or of none */
    SAME, DISTINCT, GRAD_MODE, STATE, CALL_EQUALS, SHAPE, SHAPE_PREDICATE, APART, BOUND, WATCHED,
    /* clang-format on */
};

enum {
    VALUE = READ_OFFSET + 1,
    FLOAT,
}; /* a shape's input that is a Python int or float itself */

typedef struct {
    int reg, what;
    Py_ssize_t dim;
} ShapeInput;

/* The extra data of "shape", "shape_predicate", "distinct" and "apart". */
typedef struct {
    Py_ssize_t count;
    ShapeInput *inputs;
    Py_ssize_t conditions; /* of "shape": all on the same inputs */
    ShapeCode *codes;
    int *texts; /* by condition */
    PyObject *predicate; /* borrowed from the instruction's object */
} Extra;

typedef struct {
    int op, dst, src, text;
    Py_ssize_t number;
    PyObject *object; /* strong, may be NULL; of what is about keys, with a `number`, weak references to them */
    Extra *extra;
} Step;

typedef struct {
    PyObject_HEAD
    PyObject *texts; /* tuple of what tells of itself by `str` */
    Py_ssize_t count, registers, locals, frees;
    Py_ssize_t looks; /* no more places than these are looked at as the steps are run */
    Py_ssize_t pins; /* the first registers, which another program reads after this one ran */
    Step *steps;
    PyObject *watched;   /* GuardProgram or NULL: about what lives on; its texts are these */
    unsigned long long verified; /* how often it was run in full */
    int ends_quietly;  /* nothing after the watched part may run Python */
    Py_ssize_t inputs; /* of those pins, which a graph takes */
    int unwatched; /* the text of the step because of which it always is, -1 */
    Py_ssize_t roots;    /* how many of them the frame gives */
    PyObject *bindings;  /* what it was verified for */
} GuardProgram;

/* A new reference, NULL for "not there" (with or without an exception). */
PyObject *step_read(const Step *step, PyObject *const *regs, const GuardFrame *frame);
/* 1 holds, 0 does not, -1 with an exception. Of one value, or of several registers. */
int step_check(const Step *step, PyObject *const *regs);
/* The text of what failed. */
Py_ssize_t step_failed(const Step *step, PyObject *const *regs);

#endif
