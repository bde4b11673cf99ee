/* What is remembered about a code object: flags, and entries (guards and replacement) in order of last use. */
#ifndef CAPTURE_CACHE_H
#define CAPTURE_CACHE_H
#include "compat.h"

typedef struct {
    PyObject_HEAD
    PyObject *guards; /* GuardProgram, or NULL: always */
    PyObject *code;   /* replacement, or NULL: run eagerly */
    PyObject *info;
    char recursive;   /* with no code: hold the hook back beneath */
    char traced;      /* passes the lines of what it replaces: for threads that are traced, and only those */
    char limit;       /* marks that the session has had its fill of this code */
    unsigned long long hits;
} Entry;

typedef struct {
    Entry *entry;      /* strong */
    PyObject *session; /* strong, a weak reference: an entry does not keep its session alive */
    char own;          /* made for this session, not found at another that captures alike */
} Slot;

enum {
    SKIP_CODE = 1,      /* never captured */
    SKIP_BENEATH = 2,   /* nor what it calls */
    IS_REPLACEMENT = 4, /* our own product */
};

typedef struct CodeCache {
    struct CodeCache *previous, *next; /* all caches, for reset */
    int flags;
    unsigned version; /* changes with `slots` */
    Py_ssize_t count, room;
    Slot *slots;
    struct Claim *claims; /* captures under way */
} CodeCache;

extern PyTypeObject Entry_Type;

int cache_init(void);
extern Py_ssize_t cache_extra_index;

/* NULL if nothing is known of the code. */
static inline CodeCache *
cache_of(const PyCodeObject *code)
{
    const CodeExtras *known = code->co_extra;
    return known && known->size > cache_extra_index ? known->extras[cache_extra_index] : NULL;
}

/* Made if need be; NULL with an exception. */
CodeCache *cache_make(PyCodeObject *code);
/* Puts an entry in front. */
int cache_add(CodeCache *cache, PyObject *entry, PyObject *session, int own);
/* Moves the session's slot with the entry to the front; it was at `i` a moment ago. */
void cache_promote(CodeCache *cache, Py_ssize_t i, const Entry *entry, const PyObject *session);
/* A list of what the sessions of the same `group` have and this one has not, those with guards. NULL with an exception. */
PyObject *cache_shared(CodeCache *cache, PyObject *session, PyObject *group);
/* Drops the entries whose session is gone; how many that were made for this one hold a replacement. */
Py_ssize_t cache_prune(CodeCache *cache, PyObject *session);
void cache_clear(CodeCache *cache);
void cache_clear_all(void);
PyObject *cache_entries(CodeCache *cache, PyObject *session);
/* An entry without guards or code. */
PyObject *entry_mark(int recursive, int limit);

#endif
