/* Addresses of tensors' data, for callables of compiled kernels: the head of an extension's one file.
 *
 * An address comes from torch's stable C shim, given the at::Tensor inside of the Python object; of a subclass, or where
 * the shim is missing, from the method data_ptr(). */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t (*DataPtr)(void *, void **);

static DataPtr get_data_ptr;
static Py_ssize_t tensor_offset;
static PyObject *tensor_type, *parameter_type, *data_ptr_name;

static int
address_of(PyObject *tensor, void **address)
{
    PyObject *type = (PyObject *)Py_TYPE(tensor);
    if (get_data_ptr && (type == tensor_type || type == parameter_type))
        if (get_data_ptr((char *)tensor + tensor_offset, address) == 0)
            return 0;
    PyObject *number = PyObject_CallMethodNoArgs(tensor, data_ptr_name);
    if (!number)
        return -1;
    *address = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return *address == NULL && PyErr_Occurred() ? -1 : 0;
}

/* What `inductor.address_facts()` returned: tensor type, parameter type, address of aoti_torch_get_data_ptr or 0, offset of
 * the at::Tensor in the Python object. */
static int
set_address_facts(PyObject *facts)
{
    PyObject *tensor, *parameter;
    unsigned long long function;
    if (!PyArg_ParseTuple(facts, "OOKn", &tensor, &parameter, &function, &tensor_offset))
        return -1;
    if (!data_ptr_name && !(data_ptr_name = PyUnicode_InternFromString("data_ptr")))
        return -1;
    Py_XSETREF(tensor_type, Py_NewRef(tensor));
    Py_XSETREF(parameter_type, Py_NewRef(parameter));
    get_data_ptr = (DataPtr)(uintptr_t)function;
    return 0;
}

/* An argument of a kernel, and what each is: see `inductor.argument_kinds`. */
typedef union {
    void *pointer;
    int64_t integer;
    double number;
} Word;
enum { BUFFER,
       INTEGER,
       FLOAT };

static int
read_word(PyObject *value, int kind, Word *word)
{
    switch (kind) {
    case BUFFER:
        return address_of(value, &word->pointer);
    case INTEGER:
        word->integer = PyLong_AsLongLong(value);
        return word->integer == -1 && PyErr_Occurred() ? -1 : 0;
    default:
        word->number = PyFloat_AsDouble(value);
        return word->number == -1 && PyErr_Occurred() ? -1 : 0;
    }
}

/* A kernel as a Python callable begins with these. */
#define CALLABLE_HEAD          \
    PyObject_HEAD              \
    vectorcallfunc vectorcall; \
    PyObject *name;            \
    Py_ssize_t nargs;
typedef struct {
    CALLABLE_HEAD
} Callable;

static PyMemberDef callable_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, vectorcall), READONLY, NULL},
    {"__name__", T_OBJECT, offsetof(Callable, name), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* How many arguments a call has; -1 with an exception if that is not what the kernel takes. */
static Py_ssize_t
arguments_of(Callable *kernel, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (nargs == kernel->nargs && !(kwnames && PyTuple_GET_SIZE(kwnames)))
        return nargs;
    PyErr_Format(PyExc_TypeError, "kernel %U takes %zd positional arguments, got %zd", kernel->name, kernel->nargs, nargs);
    return -1;
}
