/* How each check of a guard program is done. In a header, so that a run has no call a step. */
#ifndef CAPTURE_CHECKS_H
#define CAPTURE_CHECKS_H
#include "compat.h"
#include "equal.h"
#include "reads.h"
#include "state.h"

/* Each gives 1 if it holds, 0 if not, -1 with an exception. */

/* Keys whose comparison runs no Python, nor anything that could change the dictionary. */
static int
compares_quietly(PyObject *key)
{
    return PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || key == Py_None || PyBool_Check(key);
}

/* What a container holds, whatever `__len__` its class has. */
static Py_ssize_t
contents_size(PyObject *value)
{
    if (PyList_Check(value) || PyTuple_Check(value)) {
        return Py_SIZE(value);
    }
    return PyDict_Check(value) ? PyDict_GET_SIZE(value) : PyAnySet_Check(value) ? PySet_GET_SIZE(value)
                                                                                : PyObject_Size(value);
}

/* Of those held weakly a weak reference stands for what it refers to. */
static int
key_fits(PyObject *key, PyObject *wanted, int weak)
{
    if (!weak || !PyWeakref_CheckRef(wanted)) {
        return exactly_equal(key, wanted);
    }
    PyObject *target = Py_XNewRef(weak_target(wanted));
    int same = target ? exactly_equal(key, target) : 0;
    Py_XDECREF(target);
    return same;
}

static int
keys_are(PyObject *dict, PyObject *wanted, int weak)
{
    int is_view = Py_IS_TYPE(dict, &PyDictProxy_Type); /* of what it shows only the methods are known */
    if (!is_view && (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(wanted))) {
        return 0;
    }
    Py_ssize_t at = 0;
    int same = 1;
    if (PyDict_CheckExact(dict)) {
        PyObject *key, *value;
        for (Py_ssize_t place = 0; same == 1 && PyDict_Next(dict, &place, &key, &value); at++) {
            if (!compares_quietly(key)) {
                break;
            }
            same = key_fits(key, PyTuple_GET_ITEM(wanted, at), weak);
        }
        if (same != 1 || at == PyTuple_GET_SIZE(wanted)) {
            return same;
        }
    }
    /* A comparison may change the dictionary; and an OrderedDict keeps an order of its own. */
    PyObject *keys = PySequence_Tuple(dict), *after = NULL;
    same = keys ? PyTuple_GET_SIZE(keys) == PyTuple_GET_SIZE(wanted) : -1;
    for (at = 0; same == 1 && at < PyTuple_GET_SIZE(wanted); at++) {
        same = key_fits(PyTuple_GET_ITEM(keys, at), PyTuple_GET_ITEM(wanted, at), weak);
    }
    if (same == 1) { /* what was compared must be what is there now */
        after = PySequence_Tuple(dict);
        same = after ? PyTuple_GET_SIZE(after) == PyTuple_GET_SIZE(keys) : -1;
    }
    for (at = 0; same == 1 && at < PyTuple_GET_SIZE(keys); at++) {
        same = PyTuple_GET_ITEM(after, at) == PyTuple_GET_ITEM(keys, at);
    }
    Py_XDECREF(keys);
    Py_XDECREF(after);
    return same;
}

/* Whether a key is in a dictionary, or is not, as is wanted. Of one that is gone nothing is known. */
static int
key_is_there(PyObject *value, const Step *step)
{
    PyObject *key = wanted_key(step);
    if (key == NULL) {
        return 0;
    }
    int found = -1;
    if (Py_IS_TYPE(value, &PyDictProxy_Type)) { /* a class's own dictionary */
        found = PySequence_Contains(value, key);
    }
    else if (PyDict_Check(value)) {
        found = PyDict_Contains(value, key);
    }
    Py_DECREF(key);
    return found < 0 ? -1 : found == (step->op == HAS_KEY);
}

/* Whether a dictionary holds none of these names. */
static int
holds_none(PyObject *value, PyObject *names)
{
    int found = PyDict_Check(value) ? 0 : 1;
    for (Py_ssize_t i = 0; found == 0 && i < PyTuple_GET_SIZE(names); i++) {
        found = PyDict_Contains(value, PyTuple_GET_ITEM(names, i));
    }
    return found < 0 ? -1 : !found;
}

/* Whether a dictionary holds an empty one under each of these names. */
static int
holds_empty(PyObject *value, PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *held = PyDict_Check(value) ? PyDict_GetItemWithError(value, PyTuple_GET_ITEM(names, i)) : NULL;
        if (held == NULL || !PyDict_Check(held) || PyDict_GET_SIZE(held)) {
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    return 1;
}

static int
has_attribute(PyObject *value, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(value, name);
    if (found == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return -1;
        }
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(found);
    return 1;
}

static int
truth_of(PyObject *result)
{
    int truth = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    return truth;
}

static int
call_equals(PyObject *object)
{
    PyObject *found = PyObject_Call(PyTuple_GET_ITEM(object, 0), PyTuple_GET_ITEM(object, 1), NULL);
    int same = found ? exactly_equal(found, PyTuple_GET_ITEM(object, 2)) : -1;
    Py_XDECREF(found);
    return same;
}

#define FEW_OBJECTS 12

static int
all_distinct(const Extra *extra, PyObject *const *regs)
{
    if (extra->count <= FEW_OBJECTS) {
        for (Py_ssize_t i = 1; i < extra->count; i++) {
            for (Py_ssize_t j = 0; j < i; j++) {
                if (regs[extra->inputs[i].reg] == regs[extra->inputs[j].reg]) {
                    return 0;
                }
            }
        }
        return 1;
    }
    /* A set of addresses, less than half full, with linear probing. */
    size_t capacity = 32;
    while (capacity < 2 * (size_t)extra->count) {
        capacity *= 2;
    }
    PyObject **set = PyMem_Calloc(capacity, sizeof(PyObject *));
    if (set == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int distinct = 1;
    for (Py_ssize_t i = 0; distinct && i < extra->count; i++) {
        PyObject *object = regs[extra->inputs[i].reg];
        size_t at = ((uintptr_t)object >> 4) * 0x9E3779B97F4A7C15u >> 20 & (capacity - 1);
        while (set[at] != NULL && set[at] != object) {
            at = (at + 1) & (capacity - 1);
        }
        distinct = set[at] == NULL;
        set[at] = object;
    }
    PyMem_Free(set);
    return distinct;
}

static int
shape_input(const ShapeInput *input, PyObject *const *regs, int64_t *out)
{
    PyObject *value = regs[input->reg];
    if (input->what == FLOAT) { /* what asks of it takes the object */
        return PyFloat_Check(value);
    }
    if (input->what != VALUE) {
        return tensor_number(value, input->what, input->dim, out);
    }
    if (!PyLong_Check(value)) {
        return 0;
    }
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
}

/* The inputs of one tensor lie side by side: its sizes and strides are fetched once. */
static int
shape_inputs(const Extra *extra, PyObject *const *regs, int64_t *numbers)
{
    PyObject *held = NULL;
    const int64_t *read[] = {NULL, NULL};
    int64_t rank = -1;
    for (Py_ssize_t i = 0; i < extra->count; i++) {
        const ShapeInput *input = &extra->inputs[i];
        int found = -1;
        if (input->what == READ_SIZE || input->what == READ_STRIDE) {
            const int64_t **of = &read[input->what == READ_STRIDE];
            if (regs[input->reg] != held) {
                held = regs[input->reg];
                read[0] = read[1] = NULL;
                rank = -1;
            }
            found = *of ? 1 : tensor_numbers(held, input->what, &rank, of);
            if (found == 1) {
                if (input->dim >= rank) {
                    return 0;
                }
                numbers[i] = (*of)[input->dim];
            }
        }
        if (found < 0) {
            held = NULL; /* Python may run */
            found = shape_input(input, regs, &numbers[i]);
        }
        if (found != 1) {
            return found;
        }
    }
    return 1;
}

static int
predicate_holds(const Extra *extra, PyObject *const *regs, const int64_t *numbers)
{
    PyObject *args = PyTuple_New(extra->count);
    for (Py_ssize_t i = 0; args && i < extra->count; i++) {
        PyObject *number = extra->inputs[i].what == FLOAT ? Py_NewRef(regs[extra->inputs[i].reg])
                                                          : PyLong_FromLongLong(numbers[i]);
        if (number == NULL) {
            Py_CLEAR(args);
            break;
        }
        PyTuple_SET_ITEM(args, i, number);
    }
    int holds = args ? truth_of(PyObject_Call(extra->predicate, args, NULL)) : -1;
    Py_XDECREF(args);
    return holds;
}

#define FEW_NUMBERS 64

/* `*failed`, if wanted, is the first condition that does not hold. */
static int
shape_holds(const Step *step, PyObject *const *regs, Py_ssize_t *failed)
{
    const Extra *extra = step->extra;
    int64_t few[FEW_NUMBERS];
    int64_t *numbers = extra->count <= FEW_NUMBERS ? few : PyMem_Malloc(extra->count * sizeof(int64_t));
    if (numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int holds = shape_inputs(extra, regs, numbers);
    if (holds == 1 && step->op == SHAPE_PREDICATE) {
        holds = predicate_holds(extra, regs, numbers);
    }
    else {
        for (Py_ssize_t i = 0; holds == 1 && i < extra->conditions; i++) {
            holds = shape_run(&extra->codes[i], numbers);
            if (failed) {
                *failed = i;
            }
        }
    }
    if (numbers != few) {
        PyMem_Free(numbers);
    }
    return holds;
}

static inline int
check_value(const Step *step, PyObject *const *regs)
{
    PyObject *value = step->src >= 0 ? regs[step->src] : NULL;
    int result;
    switch (step->op) {
    case TYPE:
        return (PyObject *)Py_TYPE(value) == step->object;
    case TYPE_WEAK:
        return (PyObject *)Py_TYPE(value) == weak_target(step->object);
    case IS:
        return value == step->object;
    case IS_WEAK:
        return value == weak_target(step->object);
    case IS_AT:
        return (Py_ssize_t)value == step->number;
    case EQUALS:
        return exactly_equal(value, step->object);
    case TENSOR:
        return tensor_fits(step->object, value);
    case LEN: {
        Py_ssize_t size = contents_size(value);
        return size < 0 ? -1 : size == step->number;
    }
    case DICT_KEYS:
        return keys_are(value, step->object, step->number != 0);
    case HAS_KEY:
    case NO_KEY:
        return key_is_there(value, step);
    case NO_KEYS:
        return holds_none(value, step->object);
    case EMPTY_AT:
        return holds_empty(value, step->object);
    case HAS_ATTR:
    case NO_ATTR:
        result = has_attribute(value, step->object);
        return result < 0 ? -1 : result == (step->op == HAS_ATTR);
    case NO_TYPE_ENTRY:
        return PyType_Check(value) && type_entry(value, step->object) == NULL;
    case EMPTY_CELL:
        return PyCell_Check(value) && PyCell_GET(value) == NULL;
    case PREDICATE:
        return truth_of(PyObject_CallOneArg(step->object, value));
    case SAME:
        return value == regs[step->dst];
    case DISTINCT:
        return all_distinct(step->extra, regs);
    case GRAD_MODE:
        return grad_mode() == (int)step->number;
    case STATE:
        return state_is(step->object);
    case CALL_EQUALS:
        return call_equals(step->object);
    default:
        return shape_holds(step, regs, NULL);
    }
}

#endif
