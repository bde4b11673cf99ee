/* Tensor metadata read without Python: through torch's stable C shim where `configure` found it, else by attribute. */
#ifndef CAPTURE_TENSOR_H
#define CAPTURE_TENSOR_H
#include <Python.h>
#include <stdint.h>

extern PyTypeObject TensorSpec_Type;

/* 1 fits, 0 does not, -1 with an exception. */
int tensor_fits(PyObject *spec, PyObject *value);
/* Whether that runs no Python. */
int tensor_fits_quietly(PyObject *spec, PyObject *value);

enum {
    READ_SIZE,
    READ_STRIDE,
    READ_OFFSET,
};
/* One integer of a tensor's metadata. 1 read, 0 not there, -1 with an exception. */
int tensor_number(PyObject *tensor, int what, Py_ssize_t dim, int64_t *out);
/* All sizes or strides at once, without Python; `*rank` is asked for if it is negative. 1 read, 0 not there; -1, without an exception, if it takes Python. */
int tensor_numbers(PyObject *tensor, int what, int64_t *rank, const int64_t **numbers);

/* What a tensor answers, read natively. */
typedef struct {
    const char *impl; /* the C++ object */
    int64_t rank, *sizes, *strides;
    int requires_grad;
} TensorFacts;

/* Whether it could be read, and no Python of its class takes part in its answers. */
int tensor_facts(PyObject *tensor, TensorFacts *facts);

PyObject *tensor_configure(PyObject *module, PyObject *args);
PyObject *tensor_keys(PyObject *module, PyObject *tensor);
PyObject *is_held(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *tensor_codes(PyObject *module, PyObject *tensor);

#endif
