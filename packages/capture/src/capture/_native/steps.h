/* The inside of a guard program: its operations and their operands. */
#ifndef CAPTURE_STEPS_H
#define CAPTURE_STEPS_H
#include <Python.h>
#include "shape.h"
#include "tensor.h"

enum {
    /* reads: dst = ... */
    LOCAL, FREE, GLOBAL, BUILTIN, CONST, ATTR, DICT_ATTR, INDEX, KEY, TYPE_OF, KEY_AT, DEFAULT, KWDEFAULT, CELL,
    FUNC_GLOBAL, TYPE_ENTRY,
    /* checks of src */
    TYPE, IS, IS_WEAK, EQUALS, TENSOR, LEN, DICT_KEYS, HAS_KEY, NO_KEY, HAS_ATTR, NO_ATTR, NO_TYPE_ENTRY, PREDICATE,
    /* checks of several registers, or of none */
    SAME, DISTINCT, GRAD_MODE, STATE, CALL_EQUALS, ENTRY_EQUALS, SHAPE, SHAPE_PREDICATE,
};

enum { VALUE = READ_OFFSET + 1 }; /* a shape's input that is a Python int itself */

typedef struct {
    int reg, what;
    Py_ssize_t dim;
} ShapeInput;

/* The extra data of "shape", "shape_predicate" and "distinct". */
typedef struct {
    Py_ssize_t count;
    ShapeInput *inputs;
    ShapeCode code;
    PyObject *predicate; /* borrowed from the instruction's object */
} Extra;

typedef struct {
    int op, dst, src, text;
    int place, searches; /* of a dictionary entry: where it was, and how often it was looked for */
    Py_ssize_t number;
    PyObject *object; /* strong, may be NULL */
    Extra *extra;
} Step;

typedef struct {
    PyObject_HEAD
    PyObject *texts; /* tuple of str */
    Py_ssize_t count, registers, locals, frees;
    Step *steps;
} GuardProgram;

#endif
