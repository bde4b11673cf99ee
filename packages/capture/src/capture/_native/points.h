/* The inside of watches: what was looked at, point by point. */
#ifndef CAPTURE_POINTS_H
#define CAPTURE_POINTS_H
#include "compat.h"
#include "internal/pycore_dict.h"
#include "watch.h"

enum {
    FRAME_VALUE, /* the globals or the builtins of the frame */
    TARGET,      /* a weak reference's object */
    DICTIONARY,
    CLASS,
    INSTANCE, /* an object's class and its dictionary */
    FUNCTION,
    CELL_VALUE,
    SLOT,
    ELEMENT, /* of a list */
    LENGTH,  /* of a list */
    TENSOR_META,
    /* these may run Python, and come last */
    READ_AGAIN,
    CHECK_AGAIN,
};

typedef struct {
    int kind, first; /* of the entries, -1: none */
    PyObject *object;
    union {
        uint64_t version;
        struct {
            PyTypeObject *type;
            PyObject **where, *dict;
        } instance;
        struct {
            PyObject *code, *defaults, *kwdefaults;
        } function;
        struct {
            PyObject **where, *value;
        } slot;
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
   are. */
typedef struct {
    int next, only_presence;
    PyObject *key, *value; /* NULL: was not there */
    Py_ssize_t place;      /* in the dictionary, while its version stays; -1: unknown */
} Part;

struct Watch {
    int owners, sealed, hopeless, made_loose, late;
    int reason; /* the text of the step that cannot be watched, -1 */ /* `late`: the first point that may run Python */
    int doubt; /* a dictionary's entry changed, or there is nothing that would tell */
    int gone;  /* a dictionary died: the points cannot be looked at any more */
    Py_ssize_t count, parts, room, pins, asked;
    Point *points;
    int *always; /* the `asked` points that nothing tells of */
    struct Listed **listed; /* the dictionaries that tell; NULL: none does */
    Py_ssize_t told;
    Part *part;
    PyObject **pin, **kept; /* `kept` until sealed: strong */
    Py_ssize_t held;
    int *found; /* until sealed: a table from objects to points */
    size_t table;
    char *loose; /* until sealed, by register: nothing that is watched holds the value */
};

static inline uint64_t
dict_version(PyObject *dict)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return ((PyDictObject *)dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

static inline uint64_t
class_version(PyObject *type)
{
    PyTypeObject *cls = (PyTypeObject *)type;
    return PyType_HasFeature(cls, Py_TPFLAGS_VALID_VERSION_TAG) ? cls->tp_version_tag : 0;
}

/* A name's place in a dictionary of names; -1 if it has none. Runs no Python. */
static inline Py_ssize_t
dict_place(PyObject *op, PyObject *name)
{
    PyDictKeysObject *keys = ((PyDictObject *)op)->ma_keys;
    Py_ssize_t place = DK_IS_UNICODE(keys) ? keys->dk_nentries - 1 : -1;
    while (place >= 0) {
        PyObject *key = DK_UNICODE_ENTRIES(keys)[place].me_key;
        if (key == name || (key != NULL && PyUnicode_Compare(key, name) == 0)) {
            break;
        }
        place--;
    }
    return place;
}

static inline PyObject *
dict_value_at(PyObject *op, Py_ssize_t place)
{
    const PyDictObject *dict = (PyDictObject *)op;
    return dict->ma_values ? dict->ma_values->values[place] : DK_UNICODE_ENTRIES(dict->ma_keys)[place].me_value;
}

/* From 3.12 dictionaries tell of their changes; until then nothing does, and -1 says so. */
int watch_listen(Watch *watch);
void watch_unlisten(Watch *watch);

#endif
