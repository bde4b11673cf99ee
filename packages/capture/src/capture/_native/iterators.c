/* Where the iterators of itertools are, of which Python itself tells only what they are made of: their `__reduce__` warns. */
#include "compat.h"
#include "iterators.h"
#include <string.h>

/* As Modules/itertoolsmodule.c lays them out; one of another size is none of these. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t next;
    PyObject *long_next, *step; /* the first in the place of `next`, where that is no such number, or `step` is not 1 */
} Count;

typedef struct {
    PyObject_HEAD
    PyObject *inner, *saved;
    Py_ssize_t index; /* from 3.14: -1 while it goes round for the first time, when it always saves */
#if PY_VERSION_HEX < 0x030E0000
    int is_saved;
#endif
} Cycle;

static int
is_saved(const Cycle *self)
{
#if PY_VERSION_HEX < 0x030E0000
    return self->is_saved;
#else
    (void)self;
    return 0;
#endif
}

typedef struct {
    PyObject_HEAD
    PyObject *inner;
    Py_ssize_t wanted, stop, step, taken;
} Slice;

typedef struct {
    PyObject_HEAD
    PyObject *pools;
    Py_ssize_t *indices;
    PyObject *given; /* NULL before the first */
    int is_over;
} Product;

static int
is(PyObject *value, const char *name, size_t size)
{
    return strcmp(Py_TYPE(value)->tp_name, name) == 0 && (size_t)Py_TYPE(value)->tp_basicsize == size;
}

static PyObject *
or_none(PyObject *value)
{
    return value != NULL ? value : Py_None;
}

static PyObject *
row_number(Product *self)
{
    Py_ssize_t count = self->given == NULL ? 0 : PyTuple_GET_SIZE(self->pools);
    PyObject *indices = PyTuple_New(count);
    for (Py_ssize_t i = 0; indices != NULL && i < count; i++) {
        PyObject *index = PyLong_FromSsize_t(self->indices[i]);
        if (index == NULL) {
            Py_CLEAR(indices);
            break;
        }
        PyTuple_SET_ITEM(indices, i, index);
    }
    return indices;
}

PyObject *
iterator_state(PyObject *Py_UNUSED(module), PyObject *value)
{
    if (is(value, "itertools.count", sizeof(Count))) {
        Count *self = (Count *)value;
        return self->long_next != NULL ? Py_BuildValue("OO", self->long_next, self->step)
                                       : Py_BuildValue("nO", self->next, self->step);
    }
    if (is(value, "itertools.cycle", sizeof(Cycle))) {
        Cycle *self = (Cycle *)value;
        return Py_BuildValue("OOni", or_none(self->inner), or_none(self->saved), Py_MAX(self->index, 0), is_saved(self));
    }
    if (is(value, "itertools.islice", sizeof(Slice))) {
        Slice *self = (Slice *)value;
        return Py_BuildValue("Onnnn", or_none(self->inner), self->wanted, self->stop, self->step, self->taken);
    }
    if (is(value, "itertools.product", sizeof(Product))) {
        Product *self = (Product *)value;
        PyObject *indices = row_number(self);
        return indices == NULL ? NULL
                               : Py_BuildValue("ONii", self->pools, indices, self->given != NULL, self->is_over);
    }
    Py_RETURN_NONE;
}
