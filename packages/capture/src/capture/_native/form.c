/* Taking the form of a tensor, and being told where it lies. */
#include "form.h"
#include "tensor.h"
#include <string.h>

FormPlaces form_places;

int
form_take(PyObject *tensor, Form *form, FormOf *of)
{
    const FormPlaces at = form_places;
    TensorFacts facts;
    if (at.handle == 0 || !tensor_facts(tensor, &facts) || facts.rank > INLINE_DIMS) {
        return 0;
    }
    const char *impl = facts.impl, *autograd = *(const char *const *)(impl + at.autograd);
    const uint64_t *now = (const uint64_t *)(impl + at.rank);
    if (now[0] != (uint64_t)facts.rank || (const uint64_t *)facts.sizes != now + SIZES ||
        (const uint64_t *)facts.strides != now + STRIDES || requires_grad_at(autograd, at) != facts.requires_grad ||
        (autograd != NULL && word_at(autograd) != at.plain)) {
        return 0; /* it answers otherwise than by what lies there */
    }
    memset(form, 0, sizeof(Form)); /* what is unused of it is compared with others' too */
    form->type = Py_TYPE(tensor);
    form->requires_grad = (uint64_t)facts.requires_grad;
    form->rank = (uint64_t)facts.rank;
    form->flags = now[FLAGS];
    form->keys = now[KEYS];
    memcpy(form->sizes, now + SIZES, facts.rank * sizeof(uint64_t));
    memcpy(form->strides, now + STRIDES, facts.rank * sizeof(uint64_t));
    of->tensor = tensor;
    of->impl = impl;
    of->autograd = autograd;
    return 1;
}

PyObject *
form_configure(PyObject *Py_UNUSED(module), PyObject *args)
{
    FormPlaces places;
    unsigned long long plain;
    if (!PyArg_ParseTuple(args, "nnnnnK:configure_forms", &places.handle, &places.autograd, &places.rank,
                          &places.requires_grad, &places.grad_fn, &plain)) {
        return NULL;
    }
    places.plain = plain;
    form_places = places;
    Py_RETURN_NONE;
}

PyObject *
form_is_known(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    Form form;
    FormOf of;
    return PyBool_FromLong(form_take(tensor, &form, &of));
}
