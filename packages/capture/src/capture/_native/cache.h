/* What is remembered about a code object: flags, and for each session entries (guards and replacement). */
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
    Entry *entry; /* strong */
    char own;     /* made for this session, not found at another that captures alike */
} Slot;

/* What one session has of a code, in order of last use. */
typedef struct SessionEntries {
    struct SessionEntries *next; /* in its bucket */
    PyObject *address;  /* borrowed, to find the bucket alone: the session may be gone */
    PyObject *session;  /* strong, a weak reference: an entry does not keep its session alive */
    Py_ssize_t count, capacity;
    Slot *slots;
} SessionEntries;

enum {
    SKIP_CODE = 1,      /* never captured */
    SKIP_BENEATH = 2,   /* nor what it calls */
    IS_REPLACEMENT = 4, /* our own product */
    TRIMMED = 8,        /* stands for a frame of the user's: its traceback is shown as a captured one's */
};

typedef struct CodeCache {
    struct CodeCache *previous, *next; /* all caches, for reset */
    int flags;
    unsigned version; /* changes with any entry */
    Py_ssize_t count; /* of sessions */
    size_t capacity;  /* of the table: a power of two, or 0 */
    SessionEntries **buckets, *last;
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
/* The session's entries, NULL if it has none. */
SessionEntries *cache_find(CodeCache *cache, const PyObject *session);

static inline SessionEntries *
cache_session_entries(CodeCache *cache, const PyObject *session)
{
    return cache->last && weak_target(cache->last->session) == session ? cache->last : cache_find(cache, session);
}

/* Puts an entry in front of the session's. */
int cache_add(CodeCache *cache, PyObject *entry, PyObject *session, int own);
/* Moves an entry to the front. */
void cache_promote(CodeCache *cache, const PyObject *session, const Entry *entry);
/* A list of what the sessions of the same `group` have and this one has not, those with guards. NULL with an exception. */
PyObject *cache_shared(CodeCache *cache, PyObject *session, const PyObject *group);
/* Drops the entries whose session is gone; how many that were made for this one hold a replacement, and in `*plain` how many none. */
Py_ssize_t cache_prune(CodeCache *cache, const PyObject *session, Py_ssize_t *plain);
/* Drops every session's entries with this `info`. */
void cache_drop(CodeCache *cache, const PyObject *info);
void cache_clear(CodeCache *cache);
void cache_clear_all(void);
/* Drops what a session has that dies: its entries hold on to their graphs. */
void cache_forget(const PyObject *session);
PyObject *cache_entries(CodeCache *cache, PyObject *session);
/* An entry without guards or code. */
PyObject *entry_mark(int recursive, int limit);

#endif
