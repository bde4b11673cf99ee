/* See lookups.h. */
#include "compat.h"
#include "lookups.h"

static PyObject *
dict_of(PyTypeObject *cls)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict(cls); /* classes of the interpreter have theirs elsewhere */
#else
    return Py_XNewRef(cls->tp_dict);
#endif
}

/* Whether a class says in Python what its objects are equal to. */
static int
compares_in_python(PyTypeObject *cls)
{
    PyTypeObject *base = cls;
    while (base->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        base = base->tp_base;
    }
    return cls->tp_richcompare != base->tp_richcompare;
}

/* Whether a look-up in a dictionary may ask one of its keys whether it is equal, in code of the program's, who makes it when it sees fit. */
static int
asks_keys(PyObject *dict)
{
    PyObject *key;
    Py_ssize_t at = 0;
    if (DK_IS_UNICODE(((PyDictObject *)dict)->ma_keys)) {
        return 0;
    }
    while (PyDict_Next(dict, &at, &key, NULL)) {
        if (compares_in_python(Py_TYPE(key))) {
            return 1;
        }
    }
    return 0;
}

/* (what the first class along the MRO holds under a name, that class); None if none does. */
PyObject *
class_entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *op, *name;
    if (!PyArg_ParseTuple(args, "O!U:class_entry", &PyType_Type, &op, &name)) {
        return NULL;
    }
    PyObject *order = Py_XNewRef(((PyTypeObject *)op)->tp_mro), *found = NULL;
    for (Py_ssize_t i = 0; order != NULL && i < PyTuple_GET_SIZE(order); i++) {
        PyObject *owner = PyTuple_GET_ITEM(order, i), *dict = dict_of((PyTypeObject *)owner);
        if (dict == NULL) {
            continue;
        }
        if (asks_keys(dict)) {
            PyErr_Format(PyExc_LookupError, "names in the class %s that say what they are equal to",
                         ((PyTypeObject *)owner)->tp_name);
        }
        else {
            PyObject *value = PyDict_GetItemWithError(dict, name);
            found = value != NULL ? PyTuple_Pack(2, value, owner) : NULL;
        }
        Py_DECREF(dict);
        if (found != NULL || PyErr_Occurred()) {
            break;
        }
    }
    Py_XDECREF(order);
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

PyObject *
keys_act(PyObject *Py_UNUSED(module), PyObject *dict)
{
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "keys_act() takes a dictionary");
        return NULL;
    }
    return PyBool_FromLong(asks_keys(dict));
}

/* A function's annotations if they have been made, or given to it: nothing is run to make them. */
PyObject *
annotations_held(PyObject *Py_UNUSED(module), PyObject *op)
{
    if (!PyFunction_Check(op)) {
        PyErr_SetString(PyExc_TypeError, "annotations_held() takes a function written in Python");
        return NULL;
    }
    PyObject *held = ((PyFunctionObject *)op)->func_annotations;
    return Py_NewRef(held != NULL && PyDict_Check(held) ? held : Py_None);
}

/* What reading a function's own variable says where it has no value: no frame of ours is to be in the traceback. */
PyObject *
check_bound(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *cell, *name;
    if (!PyArg_ParseTuple(args, "O!U:check_bound", &PyCell_Type, &cell, &name)) {
        return NULL;
    }
    if (PyCell_GET(cell) == NULL) {
        return PyErr_Format(PyExc_UnboundLocalError,
                            "cannot access local variable '%U' where it is not associated with a value", name);
    }
    Py_RETURN_NONE;
}

/* What type.__call__ says of what __init__ returns. */
PyObject *
check_initialised(PyObject *Py_UNUSED(module), PyObject *result)
{
    if (result != Py_None) {
        return PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result)->tp_name);
    }
    Py_RETURN_NONE;
}

#if PY_VERSION_HEX >= 0x030E0000
/* As setting its __annotate__, which would drop the annotations that are there. */
PyObject *
annotate_with(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *op, *annotate;
    if (!PyArg_ParseTuple(args, "O!O:annotate_with", &PyFunction_Type, &op, &annotate)) {
        return NULL;
    }
    Py_XSETREF(((PyFunctionObject *)op)->func_annotate, Py_NewRef(annotate));
    Py_RETURN_NONE;
}

/* What the interpreter finds by its number, bound to the object, where that may push a function and the object. */
PyObject *
special_method(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *op;
    int number;
    if (!PyArg_ParseTuple(args, "Oi:special_method", &op, &number)) {
        return NULL;
    }
    const _Py_SpecialMethod *wanted = &_Py_SpecialMethods[number];
    PyObject *found = Py_XNewRef(_PyType_Lookup(Py_TYPE(op), wanted->name));
    if (found == NULL) {
        PyErr_Format(PyExc_TypeError,
                     _PyEval_SpecialMethodCanSuggest(op, number) ? wanted->error_suggestion : wanted->error, op);
        return NULL;
    }
    descrgetfunc get = Py_TYPE(found)->tp_descr_get;
    if (get != NULL) {
        Py_SETREF(found, get(found, op, (PyObject *)Py_TYPE(op)));
    }
    return found;
}
#endif

/* Whether a frame was left for good: what is left of it is its object's. */
PyObject *
is_over(PyObject *Py_UNUSED(module), PyObject *op)
{
    if (!PyFrame_Check(op)) {
        PyErr_SetString(PyExc_TypeError, "is_over() takes a frame");
        return NULL;
    }
    return PyBool_FromLong(((PyFrameObject *)op)->f_frame->owner == FRAME_OWNED_BY_FRAME_OBJECT);
}

/* Extensions may put their own in the place of what runs a function's code. */
PyObject *
is_overridden(PyObject *Py_UNUSED(module), PyObject *op)
{
    static vectorcallfunc usual; /* exported by no version */
    if (!PyFunction_Check(op)) {
        PyErr_SetString(PyExc_TypeError, "is_overridden() takes a function written in Python");
        return NULL;
    }
    if (usual == NULL) {
        PyObject *fresh = PyFunction_New(PyFunction_GET_CODE(op), PyFunction_GET_GLOBALS(op));
        if (fresh == NULL) {
            return NULL;
        }
        usual = ((PyFunctionObject *)fresh)->vectorcall;
        Py_DECREF(fresh);
    }
    return PyBool_FromLong(((PyFunctionObject *)op)->vectorcall != usual);
}
