/* A graph with the inputs that live on put in at each call: emitted code loads only what the call brings. */
#include "compat.h"
#include "bound.h"
#include "program.h"
#include "stack.h"
#include <structmember.h>
#include <string.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn;
    PyObject *program; /* GuardProgram whose first pins are the inputs; NULL until `bind` */
    Py_ssize_t total, count;
    Py_ssize_t *places; /* of the inputs that live on, among all */
} Bound;

#define FEW_INPUTS 32

/* The inputs that live on as they are now; new references. -1 with an exception. */
static int
inputs_now(const Bound *self, PyObject **out)
{
    const Stack *stack = stack_here(PyThreadState_Get());
    Stash *stash = stack ? stack->stash : NULL;
    int known = stash != NULL && stash->program == self->program;
    if (!known && program_root_count(self->program) > 0) {
        PyErr_SetString(PyExc_RuntimeError, "a bound graph is called by the code that was written for it");
        return -1;
    }
    if (!known || stash->count != self->count) {
        return program_pins(self->program, known ? stash->values : NULL, out, self->count);
    }
    memcpy(out, stash->values + stash->roots, self->count * sizeof(PyObject *));
    stash->count = 0;
    return 0;
}

static PyObject *
call_with_inputs(const Bound *self, PyObject *const *args, PyObject **all)
{
    PyObject **pins = all + 1 + self->total;
    if (inputs_now(self, pins) < 0) {
        return NULL;
    }
    Py_ssize_t next = 0;
    for (Py_ssize_t i = 0, at = 0; i < self->total; i++) {
        int lives_on = next < self->count && self->places[next] == i;
        all[1 + i] = lives_on ? pins[next++] : args[at++];
    }
    Py_ssize_t count = self->count;
    PyObject *fn = Py_NewRef(self->fn);
    PyObject *result = PyObject_Vectorcall(fn, all + 1, self->total | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_DECREF(fn);
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_DECREF(pins[i]);
    }
    return result;
}

static PyObject *
bound_call(PyObject *op, PyObject *const *args, size_t count, PyObject *names)
{
    Bound *self = (Bound *)op;
    if (self->program == NULL || names != NULL || PyVectorcall_NARGS(count) != self->total - self->count) {
        PyErr_SetString(PyExc_TypeError, "a bound graph is called with just the inputs that a call brings");
        return NULL;
    }
    PyObject *few[FEW_INPUTS], **all = few;
    size_t needed = 1 + self->total + self->count;
    if (needed > FEW_INPUTS && (all = PyMem_Malloc(needed * sizeof(PyObject *))) == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = call_with_inputs(self, args, all);
    if (all != few) {
        PyMem_Free(all);
    }
    return result;
}

static int
read_places(Bound *self, PyObject *places)
{
    self->count = PyTuple_GET_SIZE(places);
    self->places = PyMem_Calloc(self->count + 1, sizeof(Py_ssize_t));
    if (self->places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->count; i++) {
        self->places[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i));
        Py_ssize_t least = i ? self->places[i - 1] + 1 : 0;
        if (self->places[i] < least || self->places[i] >= self->total) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "places rise, and are below the number of inputs");
            }
            return -1;
        }
    }
    return 0;
}

static PyObject *
bound_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "total", "places", NULL};
    PyObject *fn, *places;
    Py_ssize_t total;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OnO!:BoundGraph", names, &fn, &total, &PyTuple_Type, &places)) {
        return NULL;
    }
    Bound *self = (Bound *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->fn = Py_NewRef(fn);
    self->total = total;
    self->vectorcall = bound_call;
    if (read_places(self, places) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *
bound_bind(PyObject *op, PyObject *program)
{
    Bound *self = (Bound *)op;
    if (!Py_IS_TYPE(program, &GuardProgram_Type) || program_pin_count(program) < self->count) {
        PyErr_SetString(PyExc_TypeError, "a guard program that gives the inputs as its watched part's first pins");
        return NULL;
    }
    program_set_inputs(program, self->count);
    Py_XSETREF(self->program, Py_NewRef(program));
    Py_RETURN_NONE;
}

static int
bound_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(((Bound *)op)->fn);
    Py_VISIT(((Bound *)op)->program);
    return 0;
}

static int
bound_clear(PyObject *op)
{
    /* Without its program it cannot be called any more, so that `fn` is not missed. */
    Py_CLEAR(((Bound *)op)->program);
    return 0;
}

static void
bound_dealloc(PyObject *op)
{
    Bound *self = (Bound *)op;
    PyObject_GC_UnTrack(op);
    Py_XDECREF(self->program);
    Py_XDECREF(self->fn);
    PyMem_Free(self->places);
    Py_TYPE(op)->tp_free(op);
}

static PyMethodDef bound_methods[] = {
    {"bind", bound_bind, METH_O, "Where the inputs that live on are from; before the first call."},
    {NULL},
};

static PyMemberDef bound_members[] = {
    {"fn", T_OBJECT, offsetof(Bound, fn), READONLY, "The graph, which takes all inputs."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Bound, vectorcall), READONLY},
    {NULL},
};

PyTypeObject BoundGraph_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native.BoundGraph",
    .tp_basicsize = sizeof(Bound),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Calls a graph with the inputs that live on put among those of the call.",
    .tp_new = bound_new,
    .tp_dealloc = bound_dealloc,
    .tp_traverse = bound_traverse,
    .tp_clear = bound_clear,
    .tp_call = PyVectorcall_Call,
    .tp_methods = bound_methods,
    .tp_members = bound_members,
    .tp_vectorcall_offset = offsetof(Bound, vectorcall),
};
