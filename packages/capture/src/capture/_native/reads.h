/* How each read of a guard program is done. In a header, so that a run has no call a step. */
#ifndef CAPTURE_READS_H
#define CAPTURE_READS_H
#include "compat.h"
#include "steps.h"

/* Each gives a new reference, NULL for "not there" (with or without an exception). */

static PyObject *
dict_item(PyObject *dict, PyObject *key)
{
    if (dict == NULL || !PyDict_Check(dict)) {
        return NULL;
    }
    Py_INCREF(dict); /* a key's __eq__ may drop whatever holds it */
    PyObject *item = Py_XNewRef(PyDict_GetItemWithError(dict, key));
    Py_DECREF(dict);
    return item;
}

/* A function's cell; borrowed. */
static PyObject *
cell_of(PyObject *function, Py_ssize_t i)
{
    PyObject *cells = function && PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_closure : NULL;
    if (cells == NULL || !PyTuple_Check(cells) || i < 0 || i >= PyTuple_GET_SIZE(cells) ||
        !PyCell_Check(PyTuple_GET_ITEM(cells, i))) {
        return NULL;
    }
    return PyTuple_GET_ITEM(cells, i);
}

static PyObject *
cell_content(PyObject *function, Py_ssize_t i)
{
    PyObject *cell = cell_of(function, i);
    return cell ? PyCell_Get(cell) : NULL;
}

static PyObject *
instance_dict_item(PyObject *value, PyObject *name)
{
    PyObject *dict = PyObject_GenericGetDict(value, NULL);
    PyObject *item = dict_item(dict, name);
    Py_XDECREF(dict);
    return item;
}

/* An attribute as the program gets it. Where an object keeps its attributes is seen without asking its class, which may notice. */
static PyObject *
attribute(PyObject *value, PyObject *name)
{
    int asks = Py_TYPE(value)->tp_getattro != PyObject_GenericGetAttr && !PyType_Check(value);
    if (asks && PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) {
        PyObject *dict = PyObject_GenericGetDict(value, NULL);
        if (dict != NULL) {
            return dict;
        }
        PyErr_Clear();
    }
    return PyObject_GetAttr(value, name);
}

/* What a step about a key asks for; NULL: it is gone, and so in no dictionary. */
static inline PyObject *
wanted_key(const Step *step)
{
    return Py_XNewRef(step->number ? weak_target(step->object) : step->object);
}

/* Dicts are read as plain ones: no __missing__ of a subclass. */
static PyObject *
subscript(PyObject *value, PyObject *key)
{
    return PyDict_Check(value) ? dict_item(value, key) : PyObject_GetItem(value, key);
}

static PyObject *
item_at_key(PyObject *value, const Step *step)
{
    PyObject *key = wanted_key(step), *item = key ? subscript(value, key) : NULL;
    Py_XDECREF(key);
    return item;
}

static PyObject *
sequence_item(PyObject *value, Py_ssize_t i)
{
    if (PyTuple_Check(value) || PyList_Check(value)) {
        Py_ssize_t size = Py_SIZE(value);
        i += i < 0 ? size : 0;
        if (i < 0 || i >= size) {
            return NULL;
        }
        return Py_NewRef(PyTuple_Check(value) ? PyTuple_GET_ITEM(value, i) : PyList_GET_ITEM(value, i));
    }
    PyObject *index = PyLong_FromSsize_t(i);
    PyObject *item = index ? subscript(value, index) : NULL;
    Py_XDECREF(index);
    return item;
}

static PyObject *
key_at(PyObject *dict, Py_ssize_t wanted)
{
    if (!PyDict_Check(dict)) {
        return NULL;
    }
    PyObject *iterator = PyObject_GetIter(dict), *key = NULL;
    for (Py_ssize_t i = 0; iterator && i <= wanted; i++) {
        Py_XDECREF(key);
        key = PyIter_Next(iterator);
        if (key == NULL) {
            break;
        }
    }
    Py_XDECREF(iterator);
    return key;
}

static PyObject *
value_at(PyObject *dict, Py_ssize_t wanted)
{
    PyObject *key = key_at(dict, wanted);
    PyObject *value = key ? dict_item(dict, key) : NULL;
    Py_XDECREF(key);
    return value;
}

/* What the classes of a class's MRO hold under a name, as they hold it; borrowed. */
static PyObject *
type_entry(PyObject *type, PyObject *name)
{
    return PyType_Check(type) ? _PyType_Lookup((PyTypeObject *)type, name) : NULL;
}

/* A class's own dictionary itself: what its `__dict__` gives is a view made anew each time. */
static PyObject *
class_dict(PyObject *type)
{
    if (!PyType_Check(type)) {
        return NULL;
    }
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict((PyTypeObject *)type);
#else
    return Py_XNewRef(((PyTypeObject *)type)->tp_dict);
#endif
}

static PyObject *
function_item(int op, PyObject *value, const Step *step)
{
    if (!PyFunction_Check(value)) {
        return NULL;
    }
    PyFunctionObject *func = (PyFunctionObject *)value;
    switch (op) {
    case DEFAULT:
        if (func->func_defaults == NULL || step->number < 0 ||
            step->number >= PyTuple_GET_SIZE(func->func_defaults)) {
            return NULL;
        }
        return Py_NewRef(PyTuple_GET_ITEM(func->func_defaults, step->number));
    case KWDEFAULT:
        return dict_item(func->func_kwdefaults, step->object);
    case CELL:
        return cell_content(value, step->number);
    default:
        return dict_item(func->func_globals, step->object);
    }
}

static inline PyObject *
read_value(const Step *step, PyObject *const *regs, const GuardFrame *frame)
{
    switch (step->op) {
    case LOCAL:
        return Py_XNewRef(slot_object(frame->locals[step->number]));
    case FREE:
        return cell_content(frame->func, step->number);
    case FREE_CELL:
        return Py_XNewRef(cell_of(frame->func, step->number));
    case CONST:
        return Py_NewRef(step->object);
    case ATTR:
        return attribute(regs[step->src], step->object);
    case DICT_ATTR:
        return instance_dict_item(regs[step->src], step->object);
    case INDEX:
        return sequence_item(regs[step->src], step->number);
    case KEY:
        return item_at_key(regs[step->src], step);
    case TYPE_OF:
        return Py_NewRef((PyObject *)Py_TYPE(regs[step->src]));
    case KEY_AT:
        return key_at(regs[step->src], step->number);
    case VALUE_AT:
        return value_at(regs[step->src], step->number);
    case CLASS_DICT:
        return class_dict(regs[step->src]);
    case APPLY:
        return PyObject_CallFunction(step->object, "On", regs[step->src], step->number);
    case GLOBALS:
        return Py_XNewRef(frame->globals);
    case BUILTINS:
        return Py_XNewRef(frame->builtins);
    case ROOT:
        return Py_NewRef(frame->roots[step->number]);
    case DEREF:
        return Py_XNewRef(weak_target(step->object));
    case REFERENT:
        return PyWeakref_CheckRef(regs[step->src]) ? Py_NewRef(PyWeakref_GET_OBJECT(regs[step->src])) : NULL;
    case MADE: /* anew each time: nothing that hangs from it can be watched */
        return PyObject_CallOneArg(step->object, regs[step->src]);
    case TYPE_ENTRY:
        return Py_XNewRef(type_entry(regs[step->src], step->object));
    default:
        return function_item(step->op, regs[step->src], step);
    }
}

#endif
