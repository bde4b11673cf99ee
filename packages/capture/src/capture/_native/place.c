/* Sources and guards are made, hashed and compared tens of thousands of times in a capture, so their fields are set and read
   here. What they are is said in Python, as dataclasses with slots; `lay_out` notes where a class has its fields. */
#include "place.h"
#include <descrobject.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    Py_hash_t hash; /* 0: not asked for yet, or 0 */
} Record;

typedef struct {
    Record record;
    PyObject *root; /* NULL: not asked for yet, or itself */
    PyObject *name; /* NULL: not asked for yet */
} Place;

/* What a field is to equality. */
enum { EQUAL,
       SAME,
       APART };

typedef struct {
    PyObject *name, *initial; /* `initial` is NULL for one that must be given */
    Py_ssize_t offset;
    int how;
} Field;

typedef struct {
    Py_ssize_t count;
    int counted; /* whether any field counts: without, each is equal to itself alone */
    Field fields[];
} Layout;

#define LAYOUT "capture._native.Layout"

static PyObject *layout_name, *parent_name, *spelled_name;

/* Borrowed from the class, or NULL without an exception. */
static const Layout *
layout_of(PyTypeObject *type)
{
    PyObject *held = _PyType_Lookup(type, layout_name);
    return held ? PyCapsule_GetPointer(held, LAYOUT) : NULL;
}

static inline PyObject **
field_at(PyObject *self, const Field *field)
{
    return (PyObject **)((char *)self + field->offset);
}

static void
layout_free(Layout *layout)
{
    for (Py_ssize_t i = 0; i < layout->count; i++) {
        Py_XDECREF(layout->fields[i].name);
        Py_XDECREF(layout->fields[i].initial);
    }
    PyMem_Free(layout);
}

static void
layout_drop(PyObject *capsule)
{
    layout_free(PyCapsule_GetPointer(capsule, LAYOUT));
}

/* (name, how, default in a tuple, or an empty one) */
static int
layout_field(Field *field, PyTypeObject *type, PyObject *item)
{
    PyObject *name, *initial;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "UiO!", &name, &field->how, &PyTuple_Type, &initial)) {
        return -1;
    }
    PyObject *slot = _PyType_Lookup(type, name);
    if (slot == NULL || !Py_IS_TYPE(slot, &PyMemberDescr_Type) ||
        ((PyMemberDescrObject *)slot)->d_member->type != T_OBJECT_EX) {
        PyErr_Format(PyExc_TypeError, "%U is no slot of %s", name, type->tp_name);
        return -1;
    }
    field->offset = ((PyMemberDescrObject *)slot)->d_member->offset;
    field->name = Py_NewRef(name);
    field->initial = PyTuple_GET_SIZE(initial) ? Py_NewRef(PyTuple_GET_ITEM(initial, 0)) : NULL;
    return 0;
}

PyObject *
place_lay_out(PyObject *module, PyObject *args)
{
    PyTypeObject *type;
    PyObject *items;
    if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &type, &PyTuple_Type, &items)) {
        return NULL;
    }
    if (!PyType_IsSubtype(type, &Record_Type)) {
        return PyErr_Format(PyExc_TypeError, "%s is no Record", type->tp_name);
    }
    Layout *layout = PyMem_Calloc(1, sizeof(Layout) + PyTuple_GET_SIZE(items) * sizeof(Field));
    if (layout == NULL) {
        return PyErr_NoMemory();
    }
    for (; layout->count < PyTuple_GET_SIZE(items); layout->count++) {
        if (layout_field(&layout->fields[layout->count], type, PyTuple_GET_ITEM(items, layout->count)) < 0) {
            layout_free(layout);
            return NULL;
        }
        layout->counted |= layout->fields[layout->count].how != APART;
    }
    PyObject *capsule = PyCapsule_New(layout, LAYOUT, layout_drop);
    if (capsule == NULL) {
        layout_free(layout);
        return NULL;
    }
    int done = PyObject_SetAttr((PyObject *)type, layout_name, capsule);
    Py_DECREF(capsule);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

static int
record_init(PyObject *self, PyObject *args, PyObject *named)
{
    const Layout *layout = layout_of(Py_TYPE(self));
    if (layout == NULL) {
        return PyBaseObject_Type.tp_init(self, args, named);
    }
    Py_ssize_t given = PyTuple_GET_SIZE(args), left = named ? PyDict_GET_SIZE(named) : 0;
    if (given > layout->count) {
        PyErr_Format(PyExc_TypeError, "%s takes %zd values, not %zd", Py_TYPE(self)->tp_name, layout->count, given);
        return -1;
    }
    for (Py_ssize_t i = 0; i < layout->count; i++) {
        const Field *field = &layout->fields[i];
        PyObject *value = i < given ? PyTuple_GET_ITEM(args, i) : NULL;
        if (value == NULL && left) {
            value = PyDict_GetItemWithError(named, field->name);
            left -= value != NULL;
        }
        value = value ? value : field->initial;
        if (value == NULL) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_TypeError, "%s needs %U", Py_TYPE(self)->tp_name, field->name);
            }
            return -1;
        }
        Py_XSETREF(*field_at(self, field), Py_NewRef(value));
    }
    if (left) {
        PyErr_Format(PyExc_TypeError, "%s takes no such values: %R", Py_TYPE(self)->tp_name, named);
        return -1;
    }
    return 0;
}

/* What a field holds may be another place, which may hold another, and so on. */
static Py_hash_t
hash_within(PyObject *value)
{
    if (Py_EnterRecursiveCall(" while hashing a source")) {
        return -1;
    }
    Py_hash_t found = PyObject_Hash(value);
    Py_LeaveRecursiveCall();
    return found;
}

static Py_hash_t
record_hash(PyObject *self)
{
    Record *record = (Record *)self;
    if (record->hash) {
        return record->hash;
    }
    const Layout *layout = layout_of(Py_TYPE(self));
    if (layout == NULL || !layout->counted) {
        return PyBaseObject_Type.tp_hash(self);
    }
    Py_uhash_t found = (Py_uhash_t)Py_TYPE(self) >> 4;
    for (Py_ssize_t i = 0; i < layout->count; i++) {
        const Field *field = &layout->fields[i];
        PyObject *value = *field_at(self, field);
        if (field->how == APART || value == NULL) {
            continue;
        }
        Py_hash_t each = field->how == SAME ? (Py_hash_t)((Py_uhash_t)value >> 4) : hash_within(value);
        if (each == -1 && PyErr_Occurred()) {
            return -1;
        }
        /* As FNV does, of whole words, with the high bits brought down: tables look at the low ones. */
        found = (found ^ (Py_uhash_t)each) * (Py_uhash_t)0x100000001b3;
        found ^= found >> 29;
    }
    record->hash = (Py_hash_t)found == -1 ? -2 : (Py_hash_t)found;
    return record->hash;
}

static PyObject *
record_compare(PyObject *self, PyObject *other, int op)
{
    if ((op != Py_EQ && op != Py_NE) || (self != other && !Py_IS_TYPE(other, Py_TYPE(self)))) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    int equal = self == other;
    const Layout *layout = equal ? NULL : layout_of(Py_TYPE(self));
    if (layout != NULL && layout->counted) {
        Py_hash_t mine = ((Record *)self)->hash, theirs = ((Record *)other)->hash;
        equal = !mine || !theirs || mine == theirs;
    }
    for (Py_ssize_t i = 0; layout && equal > 0 && i < layout->count; i++) {
        const Field *field = &layout->fields[i];
        PyObject *mine = *field_at(self, field), *theirs = *field_at(other, field);
        if (field->how == APART || mine == theirs) {
            continue;
        }
        equal = field->how == EQUAL && mine && theirs ? PyObject_RichCompareBool(mine, theirs, Py_EQ) : 0;
    }
    return equal < 0 ? NULL : PyBool_FromLong(equal == (op == Py_EQ));
}

/* The outermost of those that this is read from, by `parent`; itself where that is None. */
static PyObject *
place_root(PyObject *self, void *closure)
{
    Place *place = (Place *)self;
    if (place->root) {
        return Py_NewRef(place->root);
    }
    PyObject *at = Py_NewRef(self);
    while (1) {
        PyObject *next = PyObject_TypeCheck(at, &Place_Type) ? Py_XNewRef(((Place *)at)->root) : NULL;
        int known = next != NULL;
        next = known ? next : PyObject_GetAttr(at, parent_name);
        if (next == Py_None) {
            Py_DECREF(next);
            break;
        }
        Py_DECREF(at);
        if (next == NULL) {
            return NULL;
        }
        at = next;
        if (known) {
            break;
        }
    }
    if (at != self) {
        Py_XSETREF(place->root, Py_NewRef(at));
    }
    return at;
}

/* What `spelled` gives, asked for once: names are made of those that places are read from. */
static PyObject *
place_name(PyObject *self, void *closure)
{
    Place *place = (Place *)self;
    if (place->name == NULL) {
        PyObject *name = PyObject_CallMethodNoArgs(self, spelled_name);
        if (name == NULL) {
            return NULL;
        }
        Py_XSETREF(place->name, name);
    }
    return Py_NewRef(place->name);
}

static int
place_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Place *)self)->root);
    Py_VISIT(((Place *)self)->name);
    return 0;
}

static int
place_clear(PyObject *self)
{
    Py_CLEAR(((Place *)self)->root);
    Py_CLEAR(((Place *)self)->name);
    return 0;
}

static void
place_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    place_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyGetSetDef place_getset[] = {
    {"root", place_root, NULL, "The outermost of those that it is read from; itself, if from none.", NULL},
    {"name", place_name, NULL, "The place as a user would write it, as `spelled` says.", NULL},
    {NULL},
};

PyTypeObject Record_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
        .tp_name = "capture._native.Record",
    .tp_doc = "The base of values that are made, hashed and compared by their fields: where a class has those `lay_out` notes.",
    .tp_basicsize = sizeof(Record),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = record_init,
    .tp_hash = record_hash,
    .tp_richcompare = record_compare,
};

PyTypeObject Place_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
        .tp_name = "capture._native.Place",
    .tp_doc = "The base of sources.",
    .tp_base = &Record_Type,
    .tp_basicsize = sizeof(Place),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = place_dealloc,
    .tp_traverse = place_traverse,
    .tp_clear = place_clear,
    .tp_getset = place_getset,
};

int
place_ready(void)
{
    layout_name = PyUnicode_InternFromString("__layout__");
    parent_name = PyUnicode_InternFromString("parent");
    spelled_name = PyUnicode_InternFromString("spelled");
    return layout_name && parent_name && spelled_name ? 0 : -1;
}
