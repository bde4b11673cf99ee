/* The code cache: one `CodeCache` in each known code object's extra slot, freed with it. */
#include "compat.h"
#include "cache.h"
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

/* ---- what each session has, in a table by its address ---- */

#define FIRST_CAPACITY 4

static SessionEntries **
bucket_of(const CodeCache *cache, const PyObject *session)
{
    return &cache->buckets[((uintptr_t)session >> 4) * 0x9E3779B97F4A7C15u >> 40 & (cache->capacity - 1)];
}

SessionEntries *
cache_find(CodeCache *cache, const PyObject *session)
{
    for (SessionEntries *each = cache->count ? *bucket_of(cache, session) : NULL; each; each = each->next) {
        if (weak_target(each->session) == session) {
            return cache->last = each;
        }
    }
    return NULL;
}

static int
grow_table(CodeCache *cache)
{
    size_t capacity = cache->capacity ? 2 * cache->capacity : FIRST_CAPACITY;
    SessionEntries **before = cache->buckets, **buckets = PyMem_Calloc(capacity, sizeof(SessionEntries *));
    if (buckets == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    size_t old_capacity = cache->capacity;
    cache->buckets = buckets;
    cache->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        for (SessionEntries *each = before[i], *next; each; each = next) {
            next = each->next;
            SessionEntries **bucket = bucket_of(cache, each->address);
            each->next = *bucket;
            *bucket = each;
        }
    }
    PyMem_Free(before);
    return 0;
}

static void drop_dead(CodeCache *cache);

static SessionEntries *
make_session_entries(CodeCache *cache, PyObject *session)
{
    if ((size_t)cache->count >= cache->capacity) {
        drop_dead(cache); /* sessions come and go while their code stays */
        SessionEntries *made = cache_find(cache, session);
        if (made != NULL || (2 * (size_t)cache->count >= cache->capacity && grow_table(cache) < 0)) {
            return made;
        }
    }
    PyObject *reference = PyWeakref_NewRef(session, NULL);
    SessionEntries *made = reference ? PyMem_Calloc(1, sizeof(SessionEntries)) : NULL;
    if (made == NULL) {
        Py_XDECREF(reference);
        return (SessionEntries *)(reference ? PyErr_NoMemory() : NULL);
    }
    SessionEntries **bucket = bucket_of(cache, session);
    *made = (SessionEntries){.next = *bucket, .address = session, .session = reference};
    cache->count++;
    return *bucket = cache->last = made;
}

/* Takes it off first, since what is freed may run Python. */
static void
drop_session_entries(CodeCache *cache, SessionEntries *entries)
{
    SessionEntries **link = bucket_of(cache, entries->address);
    while (*link != entries) {
        link = &(*link)->next;
    }
    *link = entries->next;
    cache->last = NULL;
    cache->count--;
    cache->version++;
    for (Py_ssize_t i = 0; i < entries->count; i++) {
        Py_DECREF(entries->slots[i].entry);
    }
    Py_DECREF(entries->session);
    PyMem_Free(entries->slots);
    PyMem_Free(entries);
}

int
cache_add(CodeCache *cache, PyObject *entry, PyObject *session, int own)
{
    SessionEntries *entries = cache_session_entries(cache, session);
    if (entries == NULL && (entries = make_session_entries(cache, session)) == NULL) {
        return -1;
    }
    if (entries->count == entries->capacity) {
        Py_ssize_t capacity = entries->capacity ? 2 * entries->capacity : 1;
        Slot *slots = PyMem_Realloc(entries->slots, capacity * sizeof(Slot));
        if (slots == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        entries->slots = slots;
        entries->capacity = capacity;
    }
    memmove(entries->slots + 1, entries->slots, entries->count * sizeof(Slot));
    entries->slots[0] = (Slot){(Entry *)Py_NewRef(entry), (char)own};
    entries->count++;
    cache->version++;
    return 0;
}

void
cache_promote(CodeCache *cache, const PyObject *session, const Entry *entry)
{
    SessionEntries *entries = cache_session_entries(cache, session);
    for (Py_ssize_t i = 0; entries && i < entries->count; i++) {
        if (entries->slots[i].entry == entry) {
            if (i > 0) {
                Slot slot = entries->slots[i];
                memmove(entries->slots + 1, entries->slots, i * sizeof(Slot));
                entries->slots[0] = slot;
                cache->version++;
            }
            return;
        }
    }
}

static void
drop_dead(CodeCache *cache)
{
    for (size_t i = 0; i < cache->capacity; i++) {
        for (SessionEntries *each = cache->buckets[i]; each;) {
            if (weak_target(each->session) != NULL) {
                each = each->next;
                continue;
            }
            drop_session_entries(cache, each);
            /* Freeing it may have run Python that changed the table. */
            each = i < cache->capacity ? cache->buckets[i] : NULL;
        }
    }
}

/* Takes one such entry off, for the caller to free: that may run Python, which changes the table. */
static Entry *
take_entry(CodeCache *cache, const PyObject *info)
{
    for (size_t i = 0; i < cache->capacity; i++) {
        for (SessionEntries *each = cache->buckets[i]; each; each = each->next) {
            for (Py_ssize_t at = 0; at < each->count; at++) {
                Entry *entry = each->slots[at].entry;
                if (entry->info == info) {
                    each->count--;
                    memmove(each->slots + at, each->slots + at + 1, (each->count - at) * sizeof(Slot));
                    cache->version++;
                    return entry;
                }
            }
        }
    }
    return NULL;
}

void
cache_drop(CodeCache *cache, const PyObject *info)
{
    for (Entry *entry; (entry = take_entry(cache, info)) != NULL;) {
        Py_DECREF(entry);
    }
}

Py_ssize_t
cache_prune(CodeCache *cache, const PyObject *session, Py_ssize_t *plain)
{
    drop_dead(cache);
    const SessionEntries *entries = cache_session_entries(cache, session);
    Py_ssize_t ours = 0;
    *plain = 0;
    for (Py_ssize_t i = 0; entries && i < entries->count; i++) {
        int has_code = entries->slots[i].entry->code != NULL;
        ours += entries->slots[i].own && has_code;
        *plain += entries->slots[i].own && !has_code;
    }
    return ours;
}

void
cache_clear(CodeCache *cache)
{
    for (size_t i = 0; cache->count > 0; i = (i + 1) & (cache->capacity - 1)) {
        if (cache->buckets[i]) {
            drop_session_entries(cache, cache->buckets[i]);
        }
    }
    PyMem_Free(cache->buckets);
    cache->buckets = NULL;
    cache->capacity = 0;
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

void
cache_forget(const PyObject *session)
{
    CodeCache *cache = all.next;
    while (cache != &all) {
        SessionEntries *each = cache->count ? *bucket_of(cache, session) : NULL;
        while (each && each->address != session) {
            each = each->next;
        }
        if (each == NULL) {
            cache = cache->next;
            continue;
        }
        drop_session_entries(cache, each);
        cache = all.next; /* as above */
    }
}

PyObject *
cache_entries(CodeCache *cache, PyObject *session)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && cache && i < cache->capacity; i++) {
        for (SessionEntries *each = cache->buckets[i]; list && each; each = each->next) {
            const PyObject *target = weak_target(each->session);
            int wanted = target != NULL && (session == Py_None || target == session);
            for (Py_ssize_t at = 0; list && wanted && at < each->count; at++) {
                Entry *entry = each->slots[at].entry;
                if (!entry->limit && PyList_Append(list, (PyObject *)entry) < 0) {
                    Py_CLEAR(list);
                }
            }
        }
    }
    return list;
}

/* ---- what sessions share ---- */

/* How the session of `entries` stands to this one: 1 captures alike, 0 does not or is this one, -1 with an exception. */
static int
captures_alike(const SessionEntries *entries, const PyObject *session, const PyObject *group)
{
    PyObject *target = weak_target(entries->session);
    if (target == NULL || target == session) {
        return 0;
    }
    PyObject *theirs = get_attribute(target, "group");
    Py_XDECREF(theirs); /* the session has it */
    return theirs ? theirs == group : -1;
}

PyObject *
cache_shared(CodeCache *cache, PyObject *session, const PyObject *group)
{
    PyObject *found = PyDict_New(), *own = cache_entries(cache, session); /* in order, each once */
    int ok = found && own;
    for (size_t i = 0; ok && i < cache->capacity; i++) {
        for (const SessionEntries *each = cache->buckets[i]; ok && each; each = each->next) {
            int alike = captures_alike(each, session, group);
            ok = alike >= 0;
            for (Py_ssize_t at = 0; ok && alike && at < each->count; at++) {
                PyObject *entry = (PyObject *)each->slots[at].entry;
                ok = each->slots[at].entry->guards == NULL || PyDict_SetItem(found, entry, Py_None) == 0;
            }
        }
    }
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(own); i++) {
        PyObject *entry = PyList_GET_ITEM(own, i);
        ok = !PyDict_Contains(found, entry) || PyDict_DelItem(found, entry) == 0;
    }
    PyObject *list = ok ? PyDict_Keys(found) : NULL;
    Py_XDECREF(found);
    Py_XDECREF(own);
    return list;
}
