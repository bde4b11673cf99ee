/* Dictionaries that tell: from 3.12 the interpreter calls back before a watched dictionary changes. The watches that looked
   at the changed entry are then in doubt; others go on. A watched dictionary that dies tells, too. */
#include "points.h"

#if PY_VERSION_HEX >= 0x030C0000

/* One dictionary in one watch. */
typedef struct Listed {
    PyObject *dict; /* borrowed: it tells when it dies */
    Watch *watch;   /* borrowed: it takes itself off */
    int first;      /* of the parts looked at */
    int changed;    /* one of them may be; told where there is no version to tell */
    struct Listed *next, **link;
} Listed;

static struct {
    int watcher; /* -1: not asked for yet; -2: none to be had */
    size_t capacity, count;
    Listed **heads;
} registry = {.watcher = -1};

static Listed **
head_of(PyObject *dict)
{
    size_t hash = ((uintptr_t)dict >> 4) * 0x9E3779B97F4A7C15u >> 20;
    return &registry.heads[hash & (registry.capacity - 1)];
}

static void
link_in(Listed *listed)
{
    Listed **head = head_of(listed->dict);
    listed->next = *head;
    listed->link = head;
    if (*head) {
        (*head)->link = &listed->next;
    }
    *head = listed;
}

static void
link_out(Listed *listed)
{
    *listed->link = listed->next;
    if (listed->next) {
        listed->next->link = listed->link;
    }
    registry.count--;
}

static int
grow_table(size_t more)
{
    if (registry.count + more <= registry.capacity) {
        return 0;
    }
    size_t before = registry.capacity, capacity = before ? before : 1024;
    while (capacity < registry.count + more) {
        capacity *= 2;
    }
    Listed **old = registry.heads, **heads = PyMem_Calloc(capacity, sizeof(Listed *));
    if (heads == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    registry.heads = heads;
    registry.capacity = capacity;
    for (size_t i = 0; i < before; i++) {
        for (Listed *each = old[i], *next; each; each = next) {
            next = each->next;
            link_in(each);
        }
    }
    PyMem_Free(old);
    return 0;
}

static int
same_name(PyObject *left, PyObject *right)
{
    return left == right || (PyUnicode_CheckExact(left) && PyUnicode_CheckExact(right) &&
                             PyUnicode_GET_LENGTH(left) == PyUnicode_GET_LENGTH(right) &&
                             PyUnicode_Compare(left, right) == 0);
}

/* Whether a key stays where it is, with another value. To 3.12 one that instances of the class have had before, and this one has not,
   counts as modified when it gets a value: their tables of keys are one. All keys there are texts, which are compared without a call. */
static int
only_modifies(PyDict_WatchEvent event, PyObject *dict, PyObject *key)
{
    if (event != PyDict_EVENT_MODIFIED) {
        return 0;
    }
    return ((PyDictObject *)dict)->ma_values == NULL || PyDict_GetItemWithError(dict, key) != NULL;
}

static int
concerns(const Listed *listed, PyDict_WatchEvent event, PyObject *key)
{
    if (key == NULL || !PyUnicode_CheckExact(key)) {
        return 1; /* all of it, or a key that may be equal to anything */
    }
    for (int i = listed->first; i >= 0; i = listed->watch->part[i].next) {
        const Part *part = &listed->watch->part[i];
        if (part->key == NULL ? !(part->only_presence && only_modifies(event, listed->dict, key)) : same_name(part->key, key)) {
            return 1;
        }
    }
    return 0;
}

static int
told(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *Py_UNUSED(value))
{
    if (registry.capacity == 0) {
        return 0;
    }
    for (Listed *each = *head_of(dict), *next; each; each = next) {
        next = each->next;
        if (each->dict != dict) {
            continue;
        }
        if (event == PyDict_EVENT_DEALLOCATED) {
            each->watch->gone = 1;
            each->dict = NULL;
            link_out(each);
        }
        else if ((!each->watch->doubt || !DICTS_HAVE_VERSIONS) && concerns(each, event, key)) {
            each->watch->doubt = each->changed = 1;
        }
    }
    return 0;
}

static int
is_listed(PyObject *dict)
{
    for (Listed *each = *head_of(dict); each; each = each->next) {
        if (each->dict == dict) {
            return 1;
        }
    }
    return 0;
}

static int
begin(void)
{
    if (registry.watcher == -1) {
        registry.watcher = PyDict_AddWatcher(told);
        if (registry.watcher < 0) { /* others took them all */
            PyErr_Clear();
            registry.watcher = -2;
        }
    }
    return registry.watcher >= 0;
}

/* NULL with an exception. */
static Listed *
list_dict(Watch *watch, const Point *point)
{
    Listed *listed = PyMem_Calloc(1, sizeof(Listed));
    if (listed == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyDict_Watch(registry.watcher, point->object) < 0) {
        PyMem_Free(listed);
        return NULL;
    }
    listed->dict = point->object;
    listed->watch = watch;
    listed->first = point->first;
    link_in(listed);
    registry.count++;
    return watch->listed[watch->told++] = listed;
}

void
watch_listen_to(Watch *watch, Point *at)
{
    at->is.listed = NULL;
    if (begin() && grow_table(1) == 0) {
        if (watch->listed == NULL) {
            watch->listed = PyMem_Calloc(watch->capacity, sizeof(Listed *));
        }
        at->is.listed = watch->listed != NULL ? list_dict(watch, at) : NULL;
    }
    if (at->is.listed == NULL) {
        PyErr_Clear(); /* of memory, or that it is no plain dictionary */
        watch->unwatchable = 1;
    }
}

void
listed_part(Listed *listed, int first)
{
    listed->first = first;
}

int
listed_changed(const Listed *listed)
{
    return listed->changed;
}

void
listed_found_again(Listed *listed)
{
    listed->changed = 0;
}

int
watch_listen(Watch *watch)
{
    if (!DICTS_HAVE_VERSIONS || !begin()) {
        return 0;
    }
    if (grow_table(watch->count) < 0) {
        return -1;
    }
    watch->listed = PyMem_Calloc(watch->count + 1, sizeof(Listed *));
    if (watch->listed == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < watch->late; i++) {
        if (watch->points[i].kind == DICTIONARY && list_dict(watch, &watch->points[i]) == NULL) {
            return -1;
        }
    }
    return 0;
}

void
watch_unlisten(Watch *watch)
{
    for (Py_ssize_t i = 0; i < watch->told; i++) {
        Listed *listed = watch->listed[i];
        PyObject *dict = listed->dict;
        if (dict != NULL) {
            link_out(listed);
            if (!is_listed(dict) && PyDict_Unwatch(registry.watcher, dict) < 0) {
                PyErr_WriteUnraisable(NULL);
            }
        }
        PyMem_Free(listed);
    }
    PyMem_Free(watch->listed);
    watch->listed = NULL;
    watch->told = 0;
}

#else

int
watch_listen(Watch *Py_UNUSED(watch))
{
    return 0;
}

void
watch_unlisten(Watch *Py_UNUSED(watch))
{
}

void
watch_listen_to(Watch *Py_UNUSED(watch), Point *Py_UNUSED(at))
{
}

void
listed_part(struct Listed *Py_UNUSED(listed), int Py_UNUSED(first))
{
}

int
listed_changed(const struct Listed *Py_UNUSED(listed))
{
    return 1;
}

void
listed_found_again(struct Listed *Py_UNUSED(listed))
{
}

#endif
