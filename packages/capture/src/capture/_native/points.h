/* The inside of watches: what was looked at, point by point. */
#ifndef CAPTURE_POINTS_H
#define CAPTURE_POINTS_H
#include "compat.h"
#include "form.h"
#include "watch.h"

enum {
    FRAME_VALUE, /* the globals or the builtins of the frame */
    WORD,        /* of an object: its class, where its dictionary is, a slot, a function's field, a cell, a length */
    DICTIONARY,
    CLASS,
    ELEMENT, /* of a list */
    TENSOR_META,
    /* these may run Python, and come last */
    READ_AGAIN,
    CHECK_AGAIN,
};

typedef struct {
    int kind, first; /* of the parts; -1: none */
    PyObject *object; /* of a WORD its place, which no other point has */
    Py_ssize_t capacity; /* of a DICTIONARY that shared its values with its object when it was read, and may since; else 0 */
    union {
        uint64_t version;
        struct Listed *listed; /* of a DICTIONARY without a version: NULL if it cannot tell */
        struct {
            void *const *where, *value;
        } word;
        struct {
            Py_ssize_t at;
            PyObject *value;
        } part;
        struct {
            const Step *step;
            PyObject *value;
        } again;
    } is;
} Point;

/* What was read of a dictionary or class. Without a key: anything; with `only_presence`, no more than which keys there
   are: those of the tuple `value`, if there is one. */
typedef struct {
    int next, only_presence;
    PyObject *key, *value; /* NULL: was not there */
    Py_ssize_t place;      /* in the dictionary, while its version stays; -1: unknown */
} Part;

/* The quick look; sweep.h. */
typedef struct {
    const uint64_t *where;
    uint64_t value;
} Word;

typedef struct {
    Py_ssize_t roots, words, tensors, forms;
    int *root; /* the points that are about the frame */
    Word *word;
    FormOf *tensor;
    Form *form;
    int *word_of, *tensor_of; /* the points that these belong to */
} Sweep;

struct Watch {
    int owners, unwatchable, made_loose;
    int reason; /* the text of the step that cannot be watched; -1: all of it can be */
    int late;   /* the first point that may run Python */
    int doubt;  /* a dictionary that tells has told that an entry looked at may change */
    int gone;   /* a dictionary died: the points cannot be looked at any more */
    Py_ssize_t count, parts, capacity, pins;
    Point *points;
    Sweep sweep;
    struct Listed **listed; /* the dictionaries that tell; NULL: none does */
    Py_ssize_t told;
    Part *part;
    PyObject **pin, **kept; /* `kept` until sealed: strong; `pin` from then on, strong if unwatchable */
    PyObject **constant; /* strong: what equals a constant of a guard; its address is not another's meanwhile */
    Py_ssize_t held, constants;
    int *found; /* until sealed: a table from objects to points */
    size_t table;
    char *loose; /* until sealed, by register: nothing that is watched holds the value */
};

/* Whether a point that runs no Python is as it was: 1, 0, -1 with an exception. A version that moved is taken if so. */
int point_holds(Watch *watch, Point *at, const GuardFrame *frame);

/* Until 3.13 a dictionary has a number that no other has, and another one after each change. From 3.14 only those that tell can be
   watched. */
#if PY_VERSION_HEX >= 0x030E0000
#define DICTS_HAVE_VERSIONS 0
static inline const void *
dict_version_place(PyObject *Py_UNUSED(dict))
{
    return NULL;
}

static inline uint64_t
dict_version(PyObject *Py_UNUSED(dict))
{
    return 0;
}
#else
#define DICTS_HAVE_VERSIONS 1
static inline const void *
dict_version_place(PyObject *dict)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return &((PyDictObject *)dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

static inline uint64_t
dict_version(PyObject *dict)
{
    return *(const uint64_t *)dict_version_place(dict);
}
#endif

/* 0: none that tells anything. */
static inline uint64_t
class_version(PyObject *type)
{
    PyTypeObject *cls = (PyTypeObject *)type;
#if PY_VERSION_HEX >= 0x030E0000
    return cls->tp_version_tag;
#else
    return PyType_HasFeature(cls, Py_TPFLAGS_VALID_VERSION_TAG) ? cls->tp_version_tag : 0;
#endif
}

/* A name's place in a dictionary of names, perhaps where it was; -1 if it has none. Runs no Python. */
static inline Py_ssize_t
dict_place(PyObject *op, PyObject *name, Py_ssize_t was)
{
    PyDictKeysObject *keys = ((PyDictObject *)op)->ma_keys;
    Py_ssize_t place = DK_IS_UNICODE(keys) ? keys->dk_nentries - 1 : -1;
    if (was >= 0 && was <= place && DK_UNICODE_ENTRIES(keys)[was].me_key == name) {
        return was;
    }
    while (place >= 0) {
        PyObject *key = DK_UNICODE_ENTRIES(keys)[place].me_key;
        if (key == name || (key != NULL && PyUnicode_Compare(key, name) == 0)) {
            break;
        }
        place--;
    }
    return place;
}

static inline PyObject **
dict_value_place(PyObject *op, Py_ssize_t place)
{
    const PyDictObject *dict = (PyDictObject *)op;
    return dict->ma_values ? &dict->ma_values->values[place] : &DK_UNICODE_ENTRIES(dict->ma_keys)[place].me_value;
}

/* From 3.12 dictionaries tell of their changes; until then, or if others took all that the interpreter has to tell, nothing
   does. -1 with an exception. */
int watch_listen(Watch *watch);
/* The same of one without a version, from when it is first looked at. */
void watch_listen_to(Watch *watch, Point *at);
/* Its first part is this one now. */
void listed_part(struct Listed *listed, int first);
/* Whether one without a version has told that what was looked at may have changed; and that it has not. */
int listed_changed(const struct Listed *listed);
void listed_found_again(struct Listed *listed);
void watch_unlisten(Watch *watch);

#endif
