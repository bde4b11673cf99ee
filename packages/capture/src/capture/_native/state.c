/* Settings of torch outside of tensors (autocast, default dtype, modes), read through functions of torch's libraries, or
   where they lie in memory: state_readers.py has found both, and tried them. */
#include "compat.h"
#include "state.h"
#include <string.h>
#ifndef _WIN32
#include <dlfcn.h>
#endif

#define MOST_READERS 32

/* All of them take at most one integer or pointer and return an integer; narrow results leave high bits open. */
typedef uint64_t (*Reader)(uint64_t argument);

static struct {
    Reader read; /* NULL: one of the thread's keys, or what lies at the argument */
    uint64_t argument, mask, unused; /* a power of two */
} readers[MOST_READERS];
static Py_ssize_t reader_count;
static Reader grad_enabled;

/* The thread's own included and excluded dispatch keys: two words in torch's thread-local storage. */
static void *library;
static char symbol[128];
static _Thread_local const uint64_t *thread_keys;

static const uint64_t *
find_thread_keys(void)
{
#ifndef _WIN32
    if (library != NULL) {
        thread_keys = dlsym(library, symbol); /* of this thread */
    }
#endif
    return thread_keys;
}

/* `keys`: this thread's, if they have been looked up already. */
static inline uint64_t
reading(uint64_t i, const uint64_t **keys)
{
    if (readers[i].read != NULL) {
        return readers[i].read(readers[i].argument) & readers[i].mask;
    }
    if (readers[i].argument > 1) {
        uint64_t word;
        memcpy(&word, (const void *)(uintptr_t)readers[i].argument, sizeof word);
        return word & readers[i].mask;
    }
    if (*keys == NULL) {
        const uint64_t *known = thread_keys;
        *keys = known ? known : find_thread_keys();
    }
    return *keys ? (*keys)[readers[i].argument] : 0;
}

int
state_is(PyObject *expected)
{
    const char *at = PyBytes_AS_STRING(expected), *end = at + PyBytes_GET_SIZE(expected);
    const uint64_t *keys = NULL;
    uint64_t pair[2]; /* which reader, its value */
    for (; at + sizeof pair <= end; at += sizeof pair) {
        memcpy(pair, at, sizeof pair);
        if (pair[0] >= (uint64_t)reader_count || reading(pair[0], &keys) != pair[1]) {
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
    PyObject *values = PyTuple_New(reader_count);
    const uint64_t *keys = NULL;
    for (Py_ssize_t i = 0; values && i < reader_count; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(reading(i, &keys));
        if (value == NULL) {
            Py_CLEAR(values);
            break;
        }
        PyTuple_SET_ITEM(values, i, value);
    }
    return values;
}

PyObject *
state_configure(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list;
    unsigned long long grad, handle;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!KKs:configure_state", &PyTuple_Type, &list, &grad, &handle, &name)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(list) > MOST_READERS || strlen(name) >= sizeof symbol) {
        PyErr_Format(PyExc_ValueError, "at most %d readers, and a shorter name", MOST_READERS);
        return NULL;
    }
    reader_count = 0;
    library = (void *)(uintptr_t)handle;
    strcpy(symbol, name);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); i++) {
        unsigned long long function, argument, mask;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(list, i), "KKK", &function, &argument, &mask)) {
            return NULL;
        }
        if (function == 0 && argument <= 1 && find_thread_keys() == NULL) {
            PyErr_SetString(PyExc_ValueError, "the thread's dispatch keys are not to be found");
            return NULL;
        }
        readers[i].read = (Reader)(uintptr_t)function;
        readers[i].argument = argument;
        readers[i].mask = mask;
    }
    reader_count = PyTuple_GET_SIZE(list);
    grad_enabled = (Reader)(uintptr_t)grad;
    Py_RETURN_NONE;
}
