/* The code cache: one `CodeCache` in each known code object's extra slot, freed with it. */
#include "compat.h"
#include "cache.h"
#include "program.h"
#include <structmember.h>
#include <string.h>

Py_ssize_t cache_extra_index = -1;
static CodeCache all = {.previous = &all, .next = &all}; /* list head */

static void
cache_free(void *extra)
{
    CodeCache *cache = extra;
    if (cache == NULL) {
        return;
    }
    cache->previous->next = cache->next;
    cache->next->previous = cache->previous;
    cache_clear(cache);
    PyMem_Free(cache);
}

CodeCache *
cache_make(PyCodeObject *code)
{
    CodeCache *cache = cache_of(code);
    if (cache != NULL) {
        return cache;
    }
    cache = PyMem_Calloc(1, sizeof *cache);
    if (cache == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (code_set_extra((PyObject *)code, cache_extra_index, cache) < 0) {
        PyMem_Free(cache);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_RuntimeError, "cannot attach a cache to the code object");
        }
        return NULL;
    }
    cache->previous = &all;
    cache->next = all.next;
    all.next->previous = cache;
    all.next = cache;
    return cache;
}

int
cache_init(void)
{
    cache_extra_index = request_extra_index(cache_free);
    if (cache_extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter has no code-extra slot left");
        return -1;
    }
    PyCodeObject *probe = PyCode_NewEmpty("", "", 1);
    CodeCache *made = probe ? cache_make(probe) : NULL;
    if (made != NULL && cache_of(probe) != made) {
        PyErr_SetString(PyExc_ImportError, "this Python keeps what is attached to code objects in an unknown place");
        return -1;
    }
    Py_XDECREF(probe);
    return made ? 0 : -1;
}

int
cache_add(CodeCache *cache, PyObject *entry, PyObject *session, int own)
{
    PyObject *reference = PyWeakref_NewRef(session, NULL);
    if (reference == NULL) {
        return -1;
    }
    if (cache->count == cache->room) {
        Py_ssize_t room = cache->room ? 2 * cache->room : 2;
        Slot *slots = PyMem_Realloc(cache->slots, room * sizeof(Slot));
        if (slots == NULL) {
            Py_DECREF(reference);
            PyErr_NoMemory();
            return -1;
        }
        cache->slots = slots;
        cache->room = room;
    }
    memmove(cache->slots + 1, cache->slots, cache->count * sizeof(Slot));
    cache->slots[0] = (Slot){(Entry *)Py_NewRef(entry), reference, (char)own};
    cache->count++;
    cache->version++;
    return 0;
}

void
cache_promote(CodeCache *cache, Py_ssize_t i, const Entry *entry, const PyObject *session)
{
    if (i >= cache->count || cache->slots[i].entry != entry || weak_target(cache->slots[i].session) != session) {
        i = 0;
        while (i < cache->count &&
               (cache->slots[i].entry != entry || weak_target(cache->slots[i].session) != session)) {
            i++;
        }
    }
    if (i > 0 && i < cache->count) {
        Slot slot = cache->slots[i];
        memmove(cache->slots + 1, cache->slots, i * sizeof(Slot));
        cache->slots[0] = slot;
        cache->version++;
    }
}

/* How the slot's session stands to this one: 1 captures alike, 0 does not or is this one, -1 with an exception. */
static int
captures_alike(const Slot *slot, PyObject *session, PyObject *group)
{
    PyObject *target = weak_target(slot->session);
    if (target == NULL || target == session) {
        return 0;
    }
    PyObject *theirs = get_attribute(target, "group");
    Py_XDECREF(theirs); /* the session has it */
    return theirs ? theirs == group : -1;
}

static int
is_among(PyObject *list, PyObject *item)
{
    Py_ssize_t at = PyList_GET_SIZE(list);
    while (at > 0 && PyList_GET_ITEM(list, at - 1) != item) {
        at--;
    }
    return at > 0;
}

PyObject *
cache_shared(CodeCache *cache, PyObject *session, PyObject *group)
{
    PyObject *list = PyList_New(0), *own = cache_entries(cache, session);
    for (Py_ssize_t i = 0; list && own && i < cache->count; i++) {
        PyObject *entry = (PyObject *)cache->slots[i].entry;
        int alike = captures_alike(&cache->slots[i], session, group);
        if (alike < 0 || (alike && ((Entry *)entry)->guards && !is_among(list, entry) && !is_among(own, entry) &&
                          PyList_Append(list, entry) < 0)) {
            Py_CLEAR(list);
        }
    }
    Py_XDECREF(own);
    if (own == NULL) {
        Py_CLEAR(list);
    }
    return list;
}

Py_ssize_t
cache_prune(CodeCache *cache, PyObject *session)
{
    Py_ssize_t ours = 0;
    for (Py_ssize_t i = 0; i < cache->count;) {
        PyObject *target = weak_target(cache->slots[i].session);
        if (target != NULL) {
            ours += target == session && cache->slots[i].own && cache->slots[i].entry->code != NULL;
            i++;
            continue;
        }
        Slot dead = cache->slots[i];
        cache->count--;
        cache->version++;
        memmove(cache->slots + i, cache->slots + i + 1, (cache->count - i) * sizeof(Slot));
        Py_DECREF(dead.entry);
        Py_DECREF(dead.session);
        /* Freeing it may have run Python that changed the cache: start again. */
        i = 0;
        ours = 0;
    }
    return ours;
}

void
cache_clear(CodeCache *cache)
{
    Slot *slots = cache->slots;
    Py_ssize_t count = cache->count;
    cache->slots = NULL;
    cache->count = cache->room = 0;
    cache->version++;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_DECREF(slots[i].entry);
        Py_DECREF(slots[i].session);
    }
    PyMem_Free(slots);
}

void
cache_clear_all(void)
{
    /* Freeing entries frees code objects and so caches: look for the next one from the start each time. */
    CodeCache *cache = all.next;
    while (cache != &all) {
        if (cache->count == 0) {
            cache = cache->next;
            continue;
        }
        cache_clear(cache);
        cache = all.next;
    }
}

PyObject *
cache_entries(CodeCache *cache, PyObject *session)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && cache && i < cache->count; i++) {
        PyObject *target = weak_target(cache->slots[i].session);
        if (target == NULL || (session != Py_None && target != session) || cache->slots[i].entry->limit) {
            continue;
        }
        if (PyList_Append(list, (PyObject *)cache->slots[i].entry) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* ---- Entry ---- */

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
