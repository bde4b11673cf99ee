/* Entries: one way to run a code object, and marks, which say to leave it alone. */
#include "compat.h"
#include "cache.h"
#include "program.h"
#include <structmember.h>

PyObject *
entry_mark(int recursive, int limit)
{
    Entry *entry = (Entry *)Entry_Type.tp_alloc(&Entry_Type, 0);
    if (entry != NULL) {
        entry->info = Py_NewRef(Py_None);
        entry->recursive = (char)recursive;
        entry->limit = (char)limit;
    }
    return (PyObject *)entry;
}

static PyObject *
entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"guards", "code", "recursive", "info", "traced", NULL};
    PyObject *guards, *code, *info = Py_None;
    int recursive = 0, traced = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$pOp:Entry", names, &guards, &code, &recursive, &info,
                                     &traced)) {
        return NULL;
    }
    if (guards != Py_None && !Py_IS_TYPE(guards, &GuardProgram_Type)) {
        PyErr_SetString(PyExc_TypeError, "guards must be a GuardProgram or None");
        return NULL;
    }
    if (code != Py_None && !PyCode_Check(code)) {
        PyErr_SetString(PyExc_TypeError, "code must be a code object or None");
        return NULL;
    }
    if (code != Py_None) {
        PyCodeObject *co = (PyCodeObject *)code;
        if (!code_is_plain_function(co) || co->co_flags & (CO_VARARGS | CO_VARKEYWORDS) || co->co_kwonlyargcount) {
            PyErr_SetString(PyExc_ValueError, "a replacement is a plain function's code with positional parameters");
            return NULL;
        }
        CodeCache *cache = cache_make(co);
        if (cache == NULL) {
            return NULL;
        }
        cache->flags |= IS_REPLACEMENT;
    }
    Entry *entry = (Entry *)type->tp_alloc(type, 0);
    if (entry != NULL) {
        entry->guards = guards == Py_None ? NULL : Py_NewRef(guards);
        entry->code = code == Py_None ? NULL : Py_NewRef(code);
        entry->info = Py_NewRef(info);
        entry->recursive = (char)recursive;
        entry->traced = (char)traced;
    }
    return (PyObject *)entry;
}

static int
entry_traverse(PyObject *op, visitproc visit, void *arg)
{
    Entry *self = (Entry *)op;
    Py_VISIT(self->guards);
    Py_VISIT(self->code);
    Py_VISIT(self->info);
    return 0;
}

static int
entry_clear(PyObject *op)
{
    /* `guards` stays: an entry without guards always fits. A program breaks its cycles itself. */
    Py_CLEAR(((Entry *)op)->info);
    return 0;
}

static void
entry_dealloc(PyObject *op)
{
    Entry *self = (Entry *)op;
    PyObject_GC_UnTrack(op);
    Py_XDECREF(self->guards);
    Py_XDECREF(self->code);
    Py_XDECREF(self->info);
    Py_TYPE(op)->tp_free(op);
}

static PyMemberDef entry_members[] = {
    {"guards", T_OBJECT, offsetof(Entry, guards), READONLY, "GuardProgram or None."},
    {"code", T_OBJECT, offsetof(Entry, code), READONLY, "The replacement, or None."},
    {"info", T_OBJECT, offsetof(Entry, info), 0, "Anything."},
    {"recursive", T_BOOL, offsetof(Entry, recursive), READONLY, "Nothing beneath is captured either."},
    {"traced", T_BOOL, offsetof(Entry, traced), READONLY, "For threads that are traced."},
    {"hits", T_ULONGLONG, offsetof(Entry, hits), READONLY, "How often it was run."},
    {NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native.Entry",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "One way to run a code object.",
    .tp_new = entry_new,
    .tp_dealloc = entry_dealloc,
    .tp_traverse = entry_traverse,
    .tp_clear = entry_clear,
    .tp_members = entry_members,
};
