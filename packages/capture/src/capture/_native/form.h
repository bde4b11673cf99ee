/* The form of a tensor: the bytes of torch's C++ object that tell of its metadata, compared where they lie. */
#ifndef CAPTURE_FORM_H
#define CAPTURE_FORM_H
#include <Python.h>
#include <stdint.h>

enum { INLINE_DIMS = 5, REST_WORDS = 4 };

/* Where they lie; all 0 until it is known. In the C++ object: the pointer to what autograd knows, and the rank, which
   sizes, strides (room for INLINE_DIMS each) and the rest follow, to the end. In what autograd knows: a byte and a pointer,
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
    uint64_t rest[REST_WORDS]; /* storage offset, number of elements, dtype, device, flags, dispatch keys */
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
    const uint64_t *numbers = (const uint64_t *)(of->impl + at.rank);
    uint64_t rank = form->rank, differ = numbers[0] ^ rank;
    for (uint64_t i = 0; i < rank; i++) {
        differ |= (numbers[1 + i] ^ form->sizes[i]) | (numbers[1 + INLINE_DIMS + i] ^ form->strides[i]);
    }
    for (int i = 0; i < REST_WORDS; i++) {
        differ |= numbers[1 + 2 * INLINE_DIMS + i] ^ form->rest[i];
    }
    return differ == 0 && (uint64_t)requires_grad_at(of->autograd, at) == form->requires_grad;
}

/* Takes a tensor's form as it is now: 1 into `form` and `of` (whose own form is left alone), 0 if the bytes do not tell all. */
int form_take(PyObject *tensor, Form *form, FormOf *of);

PyObject *form_configure(PyObject *module, PyObject *args);
PyObject *form_is_known(PyObject *module, PyObject *tensor);

#endif
