/* Interpreter-wide settings of torch (autocast, default dtype, modes): functions found and tried out by _torch.py. */
#include "compat.h"
#include "state.h"
#include <string.h>

#define MOST_READERS 32

/* All of them take at most one integer or pointer and return an integer; narrow results leave high bits open. */
typedef uint64_t (*Reader)(uint64_t argument);

static struct {
    Reader read;
    uint64_t argument, mask;
} readers[MOST_READERS];
static Py_ssize_t reader_count;
static Reader grad_enabled;

static inline uint64_t
reading(Py_ssize_t i)
{
    return readers[i].read(readers[i].argument) & readers[i].mask;
}

int
state_is(PyObject *expected)
{
    if (PyBytes_GET_SIZE(expected) != reader_count * (Py_ssize_t)sizeof(uint64_t)) {
        return 0;
    }
    const char *wanted = PyBytes_AS_STRING(expected);
    for (Py_ssize_t i = 0; i < reader_count; i++, wanted += sizeof(uint64_t)) {
        uint64_t found = reading(i);
        if (memcmp(&found, wanted, sizeof found) != 0) {
            return 0;
        }
    }
    return 1;
}

int
grad_mode(void)
{
    return grad_enabled ? (grad_enabled(0) & 0xff) != 0 : -1;
}

PyObject *
state_read(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    uint64_t found[MOST_READERS];
    for (Py_ssize_t i = 0; i < reader_count; i++) {
        found[i] = reading(i);
    }
    return PyBytes_FromStringAndSize((char *)found, reader_count * sizeof(uint64_t));
}

PyObject *
state_configure(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list;
    unsigned long long grad;
    if (!PyArg_ParseTuple(args, "O!K:configure_state", &PyTuple_Type, &list, &grad)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(list) > MOST_READERS) {
        PyErr_Format(PyExc_ValueError, "at most %d readers", MOST_READERS);
        return NULL;
    }
    reader_count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); i++) {
        unsigned long long function, argument;
        int bits;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(list, i), "KKi", &function, &argument, &bits)) {
            return NULL;
        }
        readers[i].read = (Reader)(uintptr_t)function;
        readers[i].argument = argument;
        readers[i].mask = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    }
    reader_count = PyTuple_GET_SIZE(list);
    grad_enabled = (Reader)(uintptr_t)grad;
    Py_RETURN_NONE;
}
