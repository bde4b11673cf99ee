/* `CompiledCallable` puts a session in force while its function runs, `DisabledCallable` none; both add no Python
   frame, look like the function they wrap, and bind as a method does. */
#include "compat.h"
#include "callables.h"
#include "consult.h"
#include "stack.h"
#include <structmember.h>

/* Each takes less than 1 KiB on a C stack that is 8 MiB where it is smallest among the systems we build for. */
#define DEEPEST_CALLS 5000

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn;
    PyObject *session; /* NULL in a DisabledCallable */
    PyObject *whole;   /* borrowed from `fn`: the function that must be captured whole, NULL for no promise */
    PyObject *dict, *weak_references;
} Wrapper;

/* Wrappers of wrappers take space on the C stack and none in the interpreter's own count of frames. */
static PyObject *
call_within(PyObject *fn, PyObject *const *args, size_t count, PyObject *names)
{
    if (PyFunction_Check(fn)) {
        return PyObject_Vectorcall(fn, args, count, names);
    }
    if (Py_EnterRecursiveCall(" of wrapped callables")) {
        return NULL;
    }
    PyObject *result = PyObject_Vectorcall(fn, args, count, names);
    Py_LeaveRecursiveCall();
    return result;
}

static PyObject *
call_compiled(PyObject *op, PyObject *const *args, size_t count, PyObject *names)
{
    Wrapper *self = (Wrapper *)op;
    if (stance == DO_NOTHING) {
        return call_within(self->fn, args, count, names);
    }
    PyThreadState *tstate = PyThreadState_Get();
    Stack *stack = stack_here(tstate);
    if (stack && stack->compiling) {
        return self->whole ? broken_promise(self->session, NULL, "called while another capture is in progress")
                           : call_within(self->fn, args, count, names);
    }
    if (stack && stack->calls >= DEEPEST_CALLS) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth of compiled callables exceeded");
        return NULL;
    }
    Scope scope;
    if (scope_begin(&scope, tstate, stack, self->session, self->whole, 0) < 0) {
        return NULL;
    }
    Py_INCREF(self); /* and so the session */
    scope.stack->calls++;
    PyObject *result = PyObject_Vectorcall(self->fn, args, count, names);
    scope.stack->calls--;
    int unseen = scope.stack && scope.stack->awaited;
    scope_end(&scope);
    if (unseen && result != NULL) {
        Py_DECREF(result);
        result = broken_promise(self->session, NULL, "the frame hook did not see its frame");
    }
    Py_DECREF(self);
    return result;
}

static PyObject *
call_disabled(PyObject *op, PyObject *const *args, size_t count, PyObject *names)
{
    Wrapper *self = (Wrapper *)op;
    PyThreadState *tstate = PyThreadState_Get();
    Stack *stack = stack_here(tstate);
    if (stack == NULL || stack->session == NULL) {
        return call_within(self->fn, args, count, names);
    }
    Scope scope;
    if (scope_begin(&scope, tstate, stack, NULL, NULL, 0) < 0) {
        return NULL;
    }
    PyObject *result = call_within(self->fn, args, count, names);
    scope_end(&scope);
    return result;
}

/* functools.update_wrapper copies name, doc and so on, and sets __wrapped__. */
static int
look_like(PyObject *self, PyObject *fn)
{
    PyObject *functools = PyImport_ImportModule("functools");
    PyObject *update = functools ? get_attribute(functools, "update_wrapper") : NULL;
    PyObject *done = update ? PyObject_CallFunctionObjArgs(update, self, fn, NULL) : NULL;
    Py_XDECREF(functools);
    Py_XDECREF(update);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *
make(PyTypeObject *type, PyObject *fn, PyObject *session, vectorcallfunc call)
{
    if (!PyCallable_Check(fn)) {
        PyErr_Format(PyExc_TypeError, "%s wraps a callable, not %s", type->tp_name, Py_TYPE(fn)->tp_name);
        return NULL;
    }
    Wrapper *self = (Wrapper *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->fn = Py_NewRef(fn);
    self->session = Py_XNewRef(session);
    self->vectorcall = call;
    if (look_like((PyObject *)self, fn) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *
compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "session", "whole", NULL};
    PyObject *fn, *session;
    int whole = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$p:CompiledCallable", names, &fn, &session, &whole)) {
        return NULL;
    }
    PyObject *function = PyMethod_Check(fn) ? PyMethod_GET_FUNCTION(fn) : fn;
    if (whole && !PyFunction_Check(function)) {
        PyErr_Format(PyExc_TypeError, "only a Python function can be captured whole, not %s", Py_TYPE(fn)->tp_name);
        return NULL;
    }
    PyObject *made = make(type, fn, session, call_compiled);
    if (made != NULL && whole) {
        ((Wrapper *)made)->whole = function;
    }
    return made;
}

static PyObject *
disabled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", NULL};
    PyObject *fn;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:DisabledCallable", names, &fn)) {
        return NULL;
    }
    return make(type, fn, NULL, call_disabled);
}

static int
wrapper_traverse(PyObject *op, visitproc visit, void *arg)
{
    Wrapper *self = (Wrapper *)op;
    Py_VISIT(self->fn);
    Py_VISIT(self->session);
    Py_VISIT(self->dict);
    return 0;
}

static int
wrapper_clear(PyObject *op)
{
    Wrapper *self = (Wrapper *)op;
    Py_CLEAR(self->dict);
    PyObject *fn = self->fn, *session = self->session;
    self->whole = NULL;
    self->fn = Py_NewRef(Py_None); /* a finalizer may still call it: None raises, NULL would crash */
    self->session = session ? Py_NewRef(Py_None) : NULL;
    Py_XDECREF(fn);
    Py_XDECREF(session);
    return 0;
}

static void
wrapper_dealloc(PyObject *op)
{
    Wrapper *self = (Wrapper *)op;
    PyObject_GC_UnTrack(op);
    if (self->weak_references) {
        PyObject_ClearWeakRefs(op);
    }
    Py_XDECREF(self->fn);
    Py_XDECREF(self->session);
    Py_XDECREF(self->dict);
    Py_TYPE(op)->tp_free(op);
}

static PyObject *
wrapper_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *
wrapper_repr(PyObject *op)
{
    Wrapper *self = (Wrapper *)op;
    return PyUnicode_FromFormat(self->session ? "<compiled %R>" : "<disabled %R>", self->fn);
}

/* How copy and pickle see it: `capture.compiled.reduced` says. */
static PyObject *
wrapper_reduce(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *module = PyImport_ImportModule("capture.compiled");
    PyObject *result = module ? call_method_with(module, "reduced", self) : NULL;
    Py_XDECREF(module);
    return result;
}

/* A function's signature; written in C itself, the wrapper would be taken to have none. */
static PyObject *
wrapper_signature(PyObject *self, void *Py_UNUSED(ignored))
{
    PyObject *module = PyImport_ImportModule("capture.compiled");
    PyObject *result = module ? call_method_with(module, "signature_of", self) : NULL;
    Py_XDECREF(module);
    return result;
}

/* Another object's attribute, where an AttributeError was raised. */
static PyObject *
instead_from(PyObject *other, PyObject *name)
{
    PyErr_Clear();
    if (Py_EnterRecursiveCall(" while an attribute is looked up")) {
        return NULL;
    }
    PyObject *result = PyObject_GetAttr(other, name);
    Py_LeaveRecursiveCall();
    return result;
}

/* What else a function has (`__code__`, `__defaults__` ...) is the entered one's, what an object has the user's. */
static PyObject *
wrapper_getattr(PyObject *op, PyObject *name)
{
    Wrapper *self = (Wrapper *)op;
    PyObject *result = PyObject_GenericGetAttr(op, name);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        result = instead_from(self->fn, name);
    }
    if (result == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyObject *users = self->dict ? PyDict_GetItemString(self->dict, "__wrapped__") : NULL;
        if (users != NULL && users != self->fn) {
            Py_INCREF(users);
            result = instead_from(users, name);
            Py_DECREF(users);
        }
    }
    return result;
}

static PyMethodDef wrapper_methods[] = {
    {"__reduce__", wrapper_reduce, METH_NOARGS, "A global's name, or how to wrap the function again."},
    {NULL},
};

static PyMemberDef wrapper_members[] = {
    {"session", T_OBJECT, offsetof(Wrapper, session), READONLY, "The session put in force."},
    {"__dictoffset__", T_PYSSIZET, offsetof(Wrapper, dict), READONLY},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Wrapper, weak_references), READONLY},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapper, vectorcall), READONLY},
    {NULL},
};

static PyGetSetDef wrapper_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {"__signature__", wrapper_signature, NULL, "The signature of the wrapped function."},
    {NULL},
};

/* clang-format off */
#define WRAPPER(NAME, DOC, NEW)                                                                     \
    {                                                                                               \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native." NAME,                           \
        .tp_basicsize = sizeof(Wrapper),                                                            \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |                 \
                    Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,                      \
        .tp_doc = DOC,                                                                              \
        .tp_new = NEW,                                                                              \
        .tp_dealloc = wrapper_dealloc,                                                              \
        .tp_traverse = wrapper_traverse,                                                            \
        .tp_clear = wrapper_clear,                                                                  \
        .tp_getattro = wrapper_getattr,                                                             \
        .tp_call = PyVectorcall_Call,                                                               \
        .tp_descr_get = wrapper_get,                                                                \
        .tp_repr = wrapper_repr,                                                                    \
        .tp_methods = wrapper_methods,                                                              \
        .tp_members = wrapper_members,                                                              \
        .tp_getset = wrapper_getset,                                                                \
        .tp_dictoffset = offsetof(Wrapper, dict),                                                   \
        .tp_weaklistoffset = offsetof(Wrapper, weak_references),                                    \
        .tp_vectorcall_offset = offsetof(Wrapper, vectorcall),                                      \
    }
/* clang-format on */

PyTypeObject CompiledCallable_Type =
    WRAPPER("CompiledCallable", "Calls a function with a session in force.", compiled_new);
PyTypeObject DisabledCallable_Type =
    WRAPPER("DisabledCallable", "Calls a function with no session in force.", disabled_new);
