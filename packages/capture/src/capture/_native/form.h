/* The form of a tensor: the bytes of torch's C++ object that tell of its metadata, compared where they lie. */
#ifndef CAPTURE_FORM_H
#define CAPTURE_FORM_H
#include <Python.h>
#include <stdint.h>

/* Words from the rank on: the rank, sizes, strides, storage offset, number of elements, the flags with dtype and device, the
   dispatch keys. */
enum {
    INLINE_DIMS = 5,
    SIZES = 1,
    STRIDES = SIZES + INLINE_DIMS,
    FLAGS = STRIDES + INLINE_DIMS + 2,
    KEYS,
};

/* Where they lie; all 0 until it is known. In the C++ object: the pointer to what autograd knows, and the rank. In what autograd knows: a byte and a pointer,
   either of which makes the tensor require a gradient; a view's class, other than the `plain` one, asks its base too. */
typedef struct {
    Py_ssize_t handle, autograd, rank, requires_grad, grad_fn;
    uint64_t plain;
} FormPlaces;

extern FormPlaces form_places;

typedef struct {
    PyTypeObject *type;
    uint64_t requires_grad, rank;
    uint64_t sizes[INLINE_DIMS], strides[INLINE_DIMS]; /* as many as `rank` */
    uint64_t flags, keys;
    Py_ssize_t users; /* how many tensors are to be like this */
} Form;

/* One tensor, borrowed, and what it is to be like. */
typedef struct {
    PyObject *tensor;
    const char *impl, *autograd;
    Form *form; /* NULL: the bytes do not tell all */
} FormOf;

static inline uint64_t
word_at(const char *place)
{
    return *(const uint64_t *)place;
}

static inline int
requires_grad_at(const char *autograd, FormPlaces at)
{
    return autograd != NULL && (autograd[at.requires_grad] != 0 || word_at(autograd + at.grad_fn) != 0);
}

/* Whether the tensor, which lives, is as it was. Nothing is called. */
static inline int
form_holds(const FormOf *of, FormPlaces at)
{
    const Form *form = of->form;
    if (form == NULL || Py_TYPE(of->tensor) != form->type || *(char **)((char *)of->tensor + at.handle) != of->impl ||
        *(char **)(of->impl + at.autograd) != of->autograd) {
        return 0;
    }
    const uint64_t *now = (const uint64_t *)(of->impl + at.rank);
    uint64_t differ = (now[0] ^ form->rank) | (now[FLAGS] ^ form->flags) | (now[KEYS] ^ form->keys);
#define DIM(i) (now[SIZES + (i)] ^ form->sizes[i]) | (now[STRIDES + (i)] ^ form->strides[i])
    switch (form->rank) {
    case 5: differ |= DIM(4); /* fall through */
    case 4: differ |= DIM(3); /* fall through */
    case 3: differ |= DIM(2); /* fall through */
    case 2: differ |= DIM(1); /* fall through */
    case 1: differ |= DIM(0);
    }
#undef DIM
    return differ == 0 && (uint64_t)requires_grad_at(of->autograd, at) == form->requires_grad;
}

/* Takes a tensor's form as it is now: 1 into `form` and `of` (whose own form is left alone), 0 if the bytes do not tell all. */
int form_take(PyObject *tensor, Form *form, FormOf *of);

PyObject *form_configure(PyObject *module, PyObject *args);
PyObject *form_is_known(PyObject *module, PyObject *tensor);

#endif
