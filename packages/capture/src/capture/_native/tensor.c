/* Tensor metadata against what a guard expects: some loads and shim calls, or attributes where torch hides them. */
#include "compat.h"
#include "tensor.h"
#include "equal.h"
#include <stdbool.h>
#include <structmember.h>

/* The shim's functions return an error code, 0 for none, and write through the pointer. */
typedef int32_t (*ReadLong)(void *handle, int64_t *out);
typedef int32_t (*ReadInt)(void *handle, int32_t *out);
typedef int32_t (*ReadLongs)(void *handle, int64_t **out);

static struct {
    PyTypeObject *base;       /* torch.Tensor: nothing else is read natively */
    Py_ssize_t handle_offset; /* of the at::Tensor within its Python object; 0: use attributes */
    Py_ssize_t keys_offset;   /* of the dispatch key set within the TensorImpl; 0: unknown */
    uint64_t special_keys;    /* the conjugate and negative bits */
    uint64_t dense_key;       /* of tensors with kernels for plain memory */
    uint64_t asking_key;      /* of those whose classes are asked below autograd */
    ReadLong dim, storage_offset;
    ReadLongs sizes, strides;
    ReadInt dtype, device_type, device_index, layout;
    bool (*requires_grad)(const void *impl);
} torch;

typedef struct {
    PyObject_HEAD
    PyObject *python_type, *dtype, *device, *layout; /* strong */
    PyObject *sizes, *strides;                        /* tuples of int or None; strides may be None */
    int requires_grad;
    int has_codes;
    int32_t dtype_code, device_type, device_index, layout_code;
    int has_keys;
    uint64_t keys;
    Py_ssize_t rank;
    int64_t *numbers; /* sizes, then strides; -1: any */
} TensorSpec;

static inline void *
handle_of(PyObject *tensor)
{
    return (char *)tensor + torch.handle_offset;
}

static inline char *
impl_of(PyObject *tensor)
{
    return *(char **)handle_of(tensor);
}

static inline int
readable(PyObject *value)
{
    return torch.handle_offset && PyObject_TypeCheck(value, torch.base) && impl_of(value) != NULL;
}

/* ---- reading natively ---- */

static int
fits_native(TensorSpec *spec, PyObject *value)
{
    void *handle = handle_of(value);
    char *impl = impl_of(value);
    if (torch.keys_offset) {
        uint64_t keys = *(uint64_t *)(impl + torch.keys_offset);
        if (spec->has_keys ? keys != spec->keys : (keys & torch.special_keys) != 0) {
            return 0;
        }
    }
    int64_t rank;
    int32_t code;
    int64_t *found;
    if (torch.layout(handle, &code) || code != spec->layout_code) {
        return 0; /* before sizes and strides, which other layouts do not have */
    }
    if (torch.dim(handle, &rank) || rank != spec->rank || torch.dtype(handle, &code) ||
        code != spec->dtype_code || torch.device_type(handle, &code) || code != spec->device_type ||
        torch.device_index(handle, &code) || code != spec->device_index) {
        return 0;
    }
    if (rank > 0) {
        if (torch.sizes(handle, &found)) {
            return 0;
        }
        const int64_t *wanted = spec->numbers;
        for (int64_t i = 0; i < rank; i++) {
            if (wanted[i] >= 0 && wanted[i] != found[i]) {
                return 0;
            }
        }
        if (spec->strides != Py_None) {
            if (torch.strides(handle, &found)) {
                return 0;
            }
            wanted += rank;
            for (int64_t i = 0; i < rank; i++) {
                if (wanted[i] >= 0 && wanted[i] != found[i]) {
                    return 0;
                }
            }
        }
    }
    return torch.requires_grad(impl) == (spec->requires_grad != 0);
}

/* ---- reading by attribute ---- */

static int
attribute_is(PyObject *value, const char *name, PyObject *wanted, int by_identity)
{
    PyObject *found = get_attribute(value, name);
    if (found == NULL) {
        return -1;
    }
    int same = by_identity ? found == wanted : exactly_equal(found, wanted);
    Py_DECREF(found);
    return same;
}

static int
numbers_fit(PyObject *found, PyObject *wanted)
{
    if (!PyTuple_Check(found) || PyTuple_GET_SIZE(found) != PyTuple_GET_SIZE(wanted)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); i++) {
        PyObject *number = PyTuple_GET_ITEM(wanted, i);
        if (number != Py_None) {
            int equal = PyObject_RichCompareBool(PyTuple_GET_ITEM(found, i), number, Py_EQ);
            if (equal <= 0) {
                return equal;
            }
        }
    }
    return 1;
}

static int
method_is(PyObject *value, const char *name, PyObject *wanted)
{
    PyObject *found = call_method(value, name);
    if (found == NULL) {
        return -1;
    }
    int same = found == wanted;
    Py_DECREF(found);
    return same;
}

static int
fits_by_attributes(TensorSpec *spec, PyObject *value)
{
    int fits = attribute_is(value, "layout", spec->layout, 1);
    if (fits == 1) {
        fits = attribute_is(value, "dtype", spec->dtype, 1);
    }
    if (fits == 1) {
        fits = attribute_is(value, "device", spec->device, 0);
    }
    if (fits == 1) {
        fits = attribute_is(value, "requires_grad", spec->requires_grad ? Py_True : Py_False, 1);
    }
    if (fits == 1) {
        fits = method_is(value, "is_conj", Py_False);
    }
    if (fits == 1) {
        fits = method_is(value, "is_neg", Py_False);
    }
    if (fits == 1) {
        PyObject *found = get_attribute(value, "shape");
        fits = found ? numbers_fit(found, spec->sizes) : -1;
        Py_XDECREF(found);
    }
    if (fits == 1 && spec->strides != Py_None) {
        PyObject *found = call_method(value, "stride");
        fits = found ? numbers_fit(found, spec->strides) : -1;
        Py_XDECREF(found);
    }
    return fits;
}

int
tensor_fits(PyObject *self, PyObject *value)
{
    TensorSpec *spec = (TensorSpec *)self;
    if ((PyObject *)Py_TYPE(value) != spec->python_type) {
        return 0;
    }
    if (spec->has_codes && readable(value)) {
        return fits_native(spec, value);
    }
    return fits_by_attributes(spec, value);
}

int
tensor_fits_quietly(PyObject *spec, PyObject *value)
{
    return ((TensorSpec *)spec)->has_codes && readable(value);
}

int
tensor_numbers(PyObject *tensor, int what, int64_t *rank, const int64_t **numbers)
{
    if (!readable(tensor)) {
        return -1;
    }
    void *handle = handle_of(tensor);
    int64_t *found = NULL;
    int failed = (*rank < 0 && torch.dim(handle, rank)) || (what == READ_SIZE ? torch.sizes : torch.strides)(handle, &found);
    *numbers = found;
    return !failed;
}

int
tensor_number(PyObject *tensor, int what, Py_ssize_t dim, int64_t *out)
{
    if (readable(tensor)) {
        void *handle = handle_of(tensor);
        if (what == READ_OFFSET) {
            return torch.storage_offset(handle, out) == 0;
        }
        int64_t rank, *numbers;
        if (torch.dim(handle, &rank) || dim >= rank ||
            (what == READ_SIZE ? torch.sizes : torch.strides)(handle, &numbers)) {
            return 0;
        }
        *out = numbers[dim];
        return 1;
    }
    static const char *const methods[] = {"size", "stride", "storage_offset"};
    PyObject *which = what == READ_OFFSET ? NULL : PyLong_FromSsize_t(dim), *found = NULL;
    if (what == READ_OFFSET) {
        found = call_method(tensor, methods[what]);
    }
    else if (which != NULL) {
        found = call_method_with(tensor, methods[what], which);
        Py_DECREF(which);
    }
    if (found == NULL) {
        return -1;
    }
    *out = PyLong_AsLongLong(found);
    Py_DECREF(found);
    return *out == -1 && PyErr_Occurred() ? -1 : 1;
}

int
tensor_facts(PyObject *tensor, TensorFacts *facts)
{
    static PyObject *name;
    if (name == NULL && (name = PyUnicode_InternFromString("__torch_dispatch__")) == NULL) {
        PyErr_Clear();
        return 0;
    }
    if (!readable(tensor) || _PyType_Lookup(Py_TYPE(tensor), name) != _PyType_Lookup(torch.base, name)) {
        return 0;
    }
    void *handle = handle_of(tensor);
    if (torch.dim(handle, &facts->rank) || torch.sizes(handle, &facts->sizes) ||
        torch.strides(handle, &facts->strides)) {
        return 0;
    }
    facts->impl = impl_of(tensor);
    facts->requires_grad = torch.requires_grad(facts->impl);
    return 1;
}

/* ---- configuration ---- */

static int
address(PyObject *addresses, const char *name, void *slot)
{
    PyObject *number = PyDict_GetItemString(addresses, name); /* borrowed */
    if (number == NULL) {
        PyErr_Format(PyExc_KeyError, "no address of %s", name);
        return -1;
    }
    *(void **)slot = PyLong_AsVoidPtr(number);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *
tensor_configure(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_ssize_t handle_offset, keys_offset;
    unsigned long long special, dense, asking;
    PyObject *addresses, *base;
    if (!PyArg_ParseTuple(args, "O!nO!nKKK:configure_tensors", &PyType_Type, &base, &handle_offset, &PyDict_Type, &addresses,
                          &keys_offset, &special, &dense, &asking)) {
        return NULL;
    }
    if (handle_offset != 0 &&
        (address(addresses, "dim", &torch.dim) || address(addresses, "sizes", &torch.sizes) ||
         address(addresses, "strides", &torch.strides) || address(addresses, "dtype", &torch.dtype) ||
         address(addresses, "device_type", &torch.device_type) ||
         address(addresses, "device_index", &torch.device_index) || address(addresses, "layout", &torch.layout) ||
         address(addresses, "storage_offset", &torch.storage_offset) ||
         address(addresses, "requires_grad", &torch.requires_grad))) {
        torch.handle_offset = 0;
        return NULL;
    }
    Py_INCREF(base);
    Py_XSETREF(torch.base, (PyTypeObject *)base);
    torch.handle_offset = handle_offset;
    torch.keys_offset = handle_offset ? keys_offset : 0;
    torch.special_keys = special;
    torch.dense_key = dense;
    torch.asking_key = asking;
    Py_RETURN_NONE;
}

/* Where the keys are not known every tensor counts as one. `followed` is a tuple of addresses, or NULL. */
static int
tensor_is_held(PyObject *value, PyObject *followed)
{
    if (torch.base == NULL || !PyObject_TypeCheck(value, torch.base)) {
        return 0;
    }
    char *impl = torch.keys_offset && torch.dense_key ? impl_of(value) : NULL;
    if (impl == NULL) {
        return 1;
    }
    uint64_t keys = *(uint64_t *)(impl + torch.keys_offset);
    if ((keys & torch.asking_key) == 0) {
        return (keys & torch.dense_key) != 0;
    }
    for (Py_ssize_t i = 0; followed != NULL && i < PyTuple_GET_SIZE(followed); i++) {
        if (PyLong_AsVoidPtr(PyTuple_GET_ITEM(followed, i)) == (void *)Py_TYPE(value)) {
            return !torch.requires_grad(impl);
        }
    }
    return 0;
}

PyObject *
is_held(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *value = args[0], *followed = count > 1 ? args[1] : NULL;
    int held = tensor_is_held(value, followed);
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; !held && i < PySequence_Fast_GET_SIZE(value); i++) {
            held = tensor_is_held(PySequence_Fast_GET_ITEM(value, i), followed);
        }
    }
    return PyBool_FromLong(held);
}

PyObject *
tensor_keys(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    if (!torch.keys_offset || !readable(tensor)) {
        Py_RETURN_NONE;
    }
    return PyLong_FromUnsignedLongLong(*(uint64_t *)(impl_of(tensor) + torch.keys_offset));
}

PyObject *
tensor_codes(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    int32_t dtype, type, index, layout;
    if (!readable(tensor)) {
        Py_RETURN_NONE;
    }
    void *handle = handle_of(tensor);
    if (torch.dtype(handle, &dtype) || torch.device_type(handle, &type) ||
        torch.device_index(handle, &index) || torch.layout(handle, &layout)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("iiii", dtype, type, index, layout);
}

/* ---- the Python type ---- */

static int
store_numbers(int64_t *out, PyObject *numbers)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        PyObject *number = PyTuple_GET_ITEM(numbers, i);
        out[i] = number == Py_None ? -1 : PyLong_AsLongLong(number);
        if (number != Py_None && out[i] < 0) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "sizes and strides are not negative");
            }
            return -1;
        }
    }
    return 0;
}

static PyObject *
spec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"python_type", "dtype", "device", "layout", "requires_grad",
                            "sizes", "strides", "codes", "keys", NULL};
    PyObject *python_type, *dtype, *device, *layout, *sizes, *strides, *codes, *keys;
    int requires_grad;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOOpO!OOO:TensorSpec", names, &PyType_Type, &python_type,
                                     &dtype, &device, &layout, &requires_grad, &PyTuple_Type, &sizes, &strides,
                                     &codes, &keys)) {
        return NULL;
    }
    Py_ssize_t rank = PyTuple_GET_SIZE(sizes);
    if (strides != Py_None && (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != rank)) {
        PyErr_SetString(PyExc_ValueError, "strides must be None or a tuple as long as sizes");
        return NULL;
    }
    TensorSpec *self = (TensorSpec *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->python_type = Py_NewRef(python_type);
    self->dtype = Py_NewRef(dtype);
    self->device = Py_NewRef(device);
    self->layout = Py_NewRef(layout);
    self->sizes = Py_NewRef(sizes);
    self->strides = Py_NewRef(strides);
    self->requires_grad = requires_grad;
    self->rank = rank;
    self->has_codes = codes != Py_None;
    self->has_keys = keys != Py_None;
    if (self->has_keys) {
        self->keys = PyLong_AsUnsignedLongLong(keys);
    }
    self->numbers = PyMem_Calloc(2 * rank + 1, sizeof(int64_t));
    if (self->numbers == NULL) {
        PyErr_NoMemory();
    }
    if (!PyErr_Occurred() && self->has_codes) {
        PyArg_ParseTuple(codes, "iiii", &self->dtype_code, &self->device_type, &self->device_index,
                         &self->layout_code);
    }
    if (PyErr_Occurred() || store_numbers(self->numbers, sizes) < 0 ||
        (strides != Py_None && store_numbers(self->numbers + rank, strides) < 0)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
spec_traverse(PyObject *op, visitproc visit, void *arg)
{
    TensorSpec *self = (TensorSpec *)op;
    Py_VISIT(self->python_type);
    Py_VISIT(self->dtype);
    Py_VISIT(self->device);
    Py_VISIT(self->layout);
    Py_VISIT(self->sizes);
    Py_VISIT(self->strides);
    return 0;
}

static int
spec_clear(PyObject *op)
{
    /* The type alone can lead back here; None is no tensor's. */
    TensorSpec *self = (TensorSpec *)op;
    Py_XSETREF(self->python_type, Py_NewRef(Py_None));
    return 0;
}

static void
spec_dealloc(PyObject *op)
{
    TensorSpec *self = (TensorSpec *)op;
    PyObject_GC_UnTrack(op);
    Py_XDECREF(self->python_type);
    Py_XDECREF(self->dtype);
    Py_XDECREF(self->device);
    Py_XDECREF(self->layout);
    Py_XDECREF(self->sizes);
    Py_XDECREF(self->strides);
    PyMem_Free(self->numbers);
    Py_TYPE(op)->tp_free(op);
}

static PyObject *
spec_fits(PyObject *self, PyObject *value)
{
    int fits = tensor_fits(self, value);
    return fits < 0 ? NULL : PyBool_FromLong(fits);
}

static PyMethodDef spec_methods[] = {
    {"fits", spec_fits, METH_O, "Whether a value is such a tensor."},
    {NULL},
};

PyTypeObject TensorSpec_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native.TensorSpec",
    .tp_basicsize = sizeof(TensorSpec),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "What a guard expects of a tensor.",
    .tp_traverse = spec_traverse,
    .tp_clear = spec_clear,
    .tp_new = spec_new,
    .tp_dealloc = spec_dealloc,
    .tp_methods = spec_methods,
};
