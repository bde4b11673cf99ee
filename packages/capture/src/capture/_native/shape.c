/* Conditions on sizes, run without Python. Arithmetic is Python's (floor division, sign of the modulus), in 64 bits. */
#include "shape.h"
#include <string.h>

enum {
    /* clang-format off */
    PUSH, INPUT, ADD, SUB, MUL, FLOORDIV, MOD, MIN, MAX, LT, LE, EQ, NE, GT, GE, AND, OR, NEG, NOT,
    /* clang-format on */
};

static const struct {
    const char *name;
    int takes;
} operations[] = {
    /* clang-format off */
    [PUSH] = {"push", 0}, [INPUT] = {"input", 0}, [ADD] = {"add", 2}, [SUB] = {"sub", 2},
    [MUL] = {"mul", 2}, [FLOORDIV] = {"floordiv", 2}, [MOD] = {"mod", 2}, [MIN] = {"min", 2},
    [MAX] = {"max", 2}, [LT] = {"lt", 2}, [LE] = {"le", 2}, [EQ] = {"eq", 2}, [NE] = {"ne", 2},
    [GT] = {"gt", 2}, [GE] = {"ge", 2}, [AND] = {"and", 2}, [OR] = {"or", 2}, [NEG] = {"neg", 1},
    /* clang-format on */
    [NOT] = {"not", 1},
};

/* Step by step; whether one input lies between two numbers; whether one equals a product of inputs and numbers. */
enum { STEPS,
       WITHIN,
       PRODUCT };

#define OPERATIONS ((int)(sizeof operations / sizeof operations[0]))
#define MOST_DEPTH 256

static int
operation_number(const char *name)
{
    for (int op = 0; op < OPERATIONS; op++) {
        if (strcmp(operations[op].name, name) == 0) {
            return op;
        }
    }
    PyErr_Format(PyExc_ValueError, "no shape operation %s", name);
    return -1;
}

/* What a comparison of an input and a number, three steps, leaves of `code`; 0 if it is none, or of another input. */
static int
narrow(ShapeCode *code, const ShapeStep *steps)
{
    int swapped = steps[0].op == PUSH, op = steps[2].op;
    const ShapeStep *input = &steps[swapped], *number = &steps[!swapped];
    if (input->op != INPUT || number->op != PUSH || (code->input >= 0 && code->input != input->number)) {
        return 0;
    }
    if (swapped) {
        op = op == LE ? GE : op == GE ? LE
                         : op == EQ   ? EQ
                                      : NE;
    }
    if (op == EQ || op == GE) {
        code->least = Py_MAX(code->least, number->number);
    }
    if (op == EQ || op == LE) {
        code->most = Py_MIN(code->most, number->number);
    }
    code->input = (Py_ssize_t)input->number;
    return op == EQ || op == GE || op == LE;
}

/* Whether steps multiply inputs and numbers, and nothing else that lay on the stack. */
static int
is_product(const ShapeStep *step, const ShapeStep *end)
{
    Py_ssize_t depth = 0;
    for (; step < end; step++) {
        if (step->op == INPUT || step->op == PUSH) {
            depth++;
        }
        else if (step->op != MUL || --depth < 1) {
            return 0;
        }
    }
    return depth == 1;
}

static void
find_form(ShapeCode *code)
{
    const ShapeStep *steps = code->steps;
    Py_ssize_t count = code->count;
    code->input = -1;
    code->least = INT64_MIN;
    code->most = INT64_MAX;
    int comparisons = count == 3 ? 1 : count == 7 && steps[6].op == AND ? 2
                                                                        : 0;
    if (comparisons && narrow(code, steps) && (comparisons == 1 || narrow(code, steps + 3))) {
        code->form = WITHIN;
    }
    else if (count >= 3 && steps[0].op == INPUT && steps[count - 1].op == EQ &&
             is_product(steps + 1, steps + count - 1)) {
        code->form = PRODUCT;
    }
}

int
shape_compile(ShapeCode *code, PyObject *steps, Py_ssize_t inputs)
{
    PyObject *items = PySequence_Tuple(steps);
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t depth = 0;
    code->count = PyTuple_GET_SIZE(items);
    code->steps = PyMem_Calloc(code->count + 1, sizeof(ShapeStep));
    if (code->steps == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    for (Py_ssize_t i = 0; i < code->count; i++) {
        const char *name;
        long long number;
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "a shape step is a tuple (operation, number)");
            goto fail;
        }
        if (!PyArg_ParseTuple(item, "sL", &name, &number)) {
            goto fail;
        }
        int op = operation_number(name);
        if (op < 0) {
            goto fail;
        }
        depth += 1 - operations[op].takes;
        if (depth < 1 || depth > MOST_DEPTH || (op == INPUT && (number < 0 || number >= inputs))) {
            PyErr_Format(PyExc_ValueError, "shape step %zd (%s) cannot be run", i, name);
            goto fail;
        }
        code->depth = Py_MAX(code->depth, depth);
        code->steps[i] = (ShapeStep){(int8_t)op, number};
    }
    if (depth != 1) {
        PyErr_SetString(PyExc_ValueError, "a shape condition must leave one value");
        goto fail;
    }
    find_form(code);
    Py_DECREF(items);
    return 0;
fail:
    Py_DECREF(items);
    shape_free(code);
    return -1;
}

/* Python's a // b and a % b; 0 if there is no such number. */
static int
divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        return 0;
    }
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *quotient -= 1;
        *rest += b;
    }
    return 1;
}

static int
is_equal_product(const ShapeCode *code, const int64_t *inputs)
{
    int64_t product = 1;
    for (const ShapeStep *step = code->steps + 1, *last = code->steps + code->count - 1; step < last; step++) {
        if (step->op != MUL &&
            __builtin_mul_overflow(product, step->op == INPUT ? inputs[step->number] : step->number, &product)) {
            return 0;
        }
    }
    return inputs[code->steps[0].number] == product;
}

int
shape_run(const ShapeCode *code, const int64_t *inputs)
{
    if (code->form == WITHIN) {
        int64_t number = inputs[code->input];
        return code->least <= number && number <= code->most;
    }
    if (code->form == PRODUCT) {
        return is_equal_product(code, inputs);
    }
    int64_t stack[MOST_DEPTH + 1];
    int64_t *top = stack; /* the last value lies below it */
    for (const ShapeStep *step = code->steps, *end = step + code->count; step < end; step++) {
        int64_t a = 0, b = 0, result = 0, other;
        int takes = operations[step->op].takes;
        if (takes >= 1) {
            b = *--top;
        }
        if (takes == 2) {
            a = *--top;
        }
        switch (step->op) {
            /* clang-format off */
        case PUSH: result = step->number; break;
        case INPUT: result = inputs[step->number]; break;
        case ADD: if (__builtin_add_overflow(a, b, &result)) return 0; break;
        case SUB: if (__builtin_sub_overflow(a, b, &result)) return 0; break;
        case MUL: if (__builtin_mul_overflow(a, b, &result)) return 0; break;
        case FLOORDIV: if (!divide(a, b, &result, &other)) return 0; break;
        case MOD: if (!divide(a, b, &other, &result)) return 0; break;
        case MIN: result = a < b ? a : b; break;
        case MAX: result = a > b ? a : b; break;
        case LT: result = a < b; break;
        case LE: result = a <= b; break;
        case EQ: result = a == b; break;
        case NE: result = a != b; break;
        case GT: result = a > b; break;
        case GE: result = a >= b; break;
        case AND: result = a && b; break;
        case OR: result = a || b; break;
        case NEG: if (__builtin_sub_overflow((int64_t)0, b, &result)) return 0; break;
        case NOT: result = !b; break;
            /* clang-format on */
        }
        *top++ = result;
    }
    return top[-1] != 0;
}

void
shape_free(ShapeCode *code)
{
    PyMem_Free(code->steps);
    code->steps = NULL;
    code->count = 0;
}
