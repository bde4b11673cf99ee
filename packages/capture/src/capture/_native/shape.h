/* Conditions on sizes: a little stack machine over 64-bit integers. */
#ifndef CAPTURE_SHAPE_H
#define CAPTURE_SHAPE_H
#include <Python.h>
#include <stdint.h>

typedef struct {
    int8_t op;
    int64_t number;
} ShapeStep;

typedef struct {
    Py_ssize_t count, depth;
    ShapeStep *steps;
    int form; /* how it is run: most conditions need no stack */
    Py_ssize_t input;
    int64_t least, most;
} ShapeCode;

/* From a sequence of (operation name, number); 0, or -1 with an exception for what could not be run safely. */
int shape_compile(ShapeCode *code, PyObject *steps, Py_ssize_t inputs);
/* The condition's value: 1 or 0. An overflow or a division by zero is 0. */
int shape_run(const ShapeCode *code, const int64_t *inputs);
void shape_free(ShapeCode *code);

#endif
