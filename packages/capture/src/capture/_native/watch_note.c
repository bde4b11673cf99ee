/* Taking down what a run of a guard program looked at. */
#include "points.h"
#include "tensor.h"
#include <structmember.h>
#include <string.h>

static Point *
point(Watch *watch, int kind, PyObject *object)
{
    Point *made = &watch->points[watch->count++];
    made->kind = kind;
    made->first = -1;
    made->object = object;
    return made;
}

/* The point of this kind for an object, made if need be: `*is_new` says which. */
static Point *
point_of(Watch *watch, int kind, PyObject *object, int *is_new)
{
    size_t at = (((uintptr_t)object >> 4) + (size_t)kind) * 0x9E3779B97F4A7C15u >> 24 & (watch->table - 1);
    for (; watch->found[at]; at = (at + 1) & (watch->table - 1)) {
        Point *known = &watch->points[watch->found[at] - 1];
        if (known->object == object && known->kind == kind) {
            *is_new = 0;
            return known;
        }
    }
    *is_new = 1;
    watch->found[at] = (int)watch->count + 1;
    return point(watch, kind, object);
}

static void
keep(Watch *watch, PyObject *object)
{
    watch->kept[watch->held++] = Py_NewRef(object);
}

static void
note_part(Watch *watch, Point *of, PyObject *key, PyObject *value, int only_presence)
{
    int placed = of->kind == DICTIONARY && key != NULL && value != NULL && !only_presence;
    Py_ssize_t place = placed ? dict_place(of->object, key, -1) : -1;
    watch->part[watch->parts] = (Part){of->first, only_presence, key, value, place};
    of->first = (int)watch->parts++;
    if (!DICTS_HAVE_VERSIONS && of->kind == DICTIONARY && of->is.listed != NULL) {
        listed_part(of->is.listed, of->first);
    }
}

/* Without a part: that it is this very dictionary, which tells of its death, or has a version that no other has. */
static Point *
dict_point(Watch *watch, PyObject *dict)
{
    int is_new;
    Point *made = point_of(watch, DICTIONARY, dict, &is_new);
    if (is_new) {
        made->capacity = dict_inline_capacity(dict);
        if (DICTS_HAVE_VERSIONS) {
            made->is.version = dict_version(dict);
        }
        else {
            watch_listen_to(watch, made);
        }
    }
    return made;
}

/* `key` NULL: anything of the dictionary, or, with `only_presence`, its keys: they are `value`, if given. */
static void
note_dict(Watch *watch, PyObject *dict, PyObject *key, PyObject *value, int only_presence)
{
    note_part(watch, dict_point(watch, dict), key, value, only_presence);
}

static void
note_class(Watch *watch, PyObject *type, PyObject *name, PyObject *value)
{
    if (PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_IMMUTABLETYPE)) {
        return;
    }
    int is_new;
    Point *made = point_of(watch, CLASS, type, &is_new);
    if (is_new) {
        made->is.version = class_version(type);
    }
    note_part(watch, made, name, value, 0);
}

/* What lies in an object, where it can be changed. */
static void
note_word(Watch *watch, void *place)
{
    int is_new;
    Point *made = point_of(watch, WORD, place, &is_new);
    if (is_new) {
        made->is.word.where = place;
        made->is.word.value = *(void **)place;
    }
}

/* Points compare addresses. So what is found where something else was may only be taken for it if that is alive still, or if
   what was looked at of it is looked at again: here what cannot change, which else would need no look. */
static void
note_tuple(Watch *watch, const Step *step, PyObject *tuple, Py_ssize_t at)
{
    if (!watch->loose[step->src]) {
        note_word(watch, &((PyVarObject *)tuple)->ob_size);
        at += at < 0 ? PyTuple_GET_SIZE(tuple) : 0;
        if (at >= 0 && at < PyTuple_GET_SIZE(tuple)) {
            note_word(watch, &((PyTupleObject *)tuple)->ob_item[at]);
        }
    }
}

static void
keep_constant(Watch *watch, PyObject *constant)
{
    watch->constant[watch->constants++] = Py_NewRef(constant);
}

static void
note_type(Watch *watch, PyObject *object)
{
    if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) || PyModule_Check(object)) {
        note_word(watch, &object->ob_type);
    }
}

/* Where an object keeps its dictionary; NULL: it has none. */
static PyObject *
note_dict_of(Watch *watch, PyObject *object)
{
    PyObject **where = _PyObject_GetDictPtr(object);
    if (where == NULL) {
        return NULL;
    }
    note_type(watch, object);
    note_word(watch, where);
    return *where;
}

static void
note_function(Watch *watch, PyObject *object)
{
    PyFunctionObject *function = (PyFunctionObject *)object;
    note_word(watch, &function->func_code);
    note_word(watch, &function->func_defaults);
    note_word(watch, &function->func_kwdefaults);
}

static void
note_again(Watch *watch, int kind, const Step *step, PyObject *source, PyObject *value)
{
    Point *made = point(watch, kind, source);
    made->is.again.step = step;
    made->is.again.value = value;
}

/* What nothing watched holds: it is read again at each look. */
static void
note_loose(Watch *watch, const Step *step, PyObject *source, PyObject *value)
{
    note_again(watch, READ_AGAIN, step, source, value);
    watch->made_loose = 1;
}

/* Where an object's slot lies, if that is what generic attribute reading finds under the name; else NULL. */
static PyObject **
slot_of(PyObject *source, PyObject *name, PyObject **descriptor)
{
    PyTypeObject *type = Py_TYPE(source);
    *descriptor = type->tp_getattro == PyObject_GenericGetAttr ? _PyType_Lookup(type, name) : NULL;
    if (*descriptor == NULL || !Py_IS_TYPE(*descriptor, &PyMemberDescr_Type)) {
        return NULL;
    }
    const PyMemberDef *member = ((PyMemberDescrObject *)*descriptor)->d_member;
    if (member->type != T_OBJECT_EX && member->type != T_OBJECT) {
        return NULL;
    }
    return (PyObject **)((char *)source + member->offset);
}

static void
note_slot(Watch *watch, const Step *step, PyObject *source, PyObject *value)
{
    PyObject *descriptor, **where = slot_of(source, step->object, &descriptor);
    /* Of what C wrote, nothing may stand for None (a property's missing setter); of a class's own slot that would have raised. */
    if (where == NULL || (*where != value && (*where != NULL || value != Py_None))) {
        note_loose(watch, step, source, value);
        return;
    }
    note_type(watch, source);
    note_class(watch, (PyObject *)Py_TYPE(source), step->object, descriptor);
    note_word(watch, where);
}

static int
named(PyObject *name, const char *text)
{
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

/* The attributes of functions that lie in the function. */
static const struct {
    const char *name;
    size_t offset;
} function_fields[] = {
    {"__code__", offsetof(PyFunctionObject, func_code)},
    {"__defaults__", offsetof(PyFunctionObject, func_defaults)},
    {"__kwdefaults__", offsetof(PyFunctionObject, func_kwdefaults)},
    {"__closure__", offsetof(PyFunctionObject, func_closure)},
    {"__globals__", offsetof(PyFunctionObject, func_globals)},
    {"__annotations__", offsetof(PyFunctionObject, func_annotations)},
    {"__name__", offsetof(PyFunctionObject, func_name)},
    {"__qualname__", offsetof(PyFunctionObject, func_qualname)},
    {"__module__", offsetof(PyFunctionObject, func_module)},
    {"__doc__", offsetof(PyFunctionObject, func_doc)},
};

/* NULL: it is no such attribute. */
static PyObject **
function_field(PyObject *function, PyObject *name)
{
    for (size_t i = 0; i < sizeof function_fields / sizeof function_fields[0]; i++) {
        if (named(name, function_fields[i].name)) {
            return (PyObject **)((char *)function + function_fields[i].offset);
        }
    }
    return NULL;
}

static void
note_attribute(Watch *watch, const Step *step, PyObject *source, PyObject *value)
{
    PyObject *name = step->object;
    PyObject **field = PyFunction_Check(source) ? function_field(source, name) : NULL;
    if (field != NULL && (*field == value || (*field == NULL && value == Py_None))) {
        note_word(watch, field);
    }
    else if (Py_IS_TYPE(source, &PyMethod_Type) && named(name, "__func__")) {
        note_word(watch, &((PyMethodObject *)source)->im_func);
    }
    else if (Py_IS_TYPE(source, &PyMethod_Type) && named(name, "__self__")) {
        note_word(watch, &((PyMethodObject *)source)->im_self);
    }
    else if (PyCell_Check(source) && named(name, "cell_contents")) {
        note_word(watch, &((PyCellObject *)source)->ob_ref);
    }
    else if (named(name, "__dict__") && _PyObject_GetDictPtr(source) && *_PyObject_GetDictPtr(source) == value) {
        note_dict_of(watch, source);
    }
    else {
        note_slot(watch, step, source, value);
    }
}

static void
note_item(Watch *watch, const Step *step, PyObject *source, PyObject *key, PyObject *value)
{
    if (PyDict_Check(source)) {
        note_dict(watch, source, key, value, 0);
    }
    else if (PyList_Check(source)) {
        Point *made = point(watch, ELEMENT, source);
        made->is.part.at = step->number + (step->number < 0 ? PyList_GET_SIZE(source) : 0);
        made->is.part.value = value;
    }
    else if (PyTuple_Check(source)) {
        note_tuple(watch, step, source, step->number);
    }
    else {
        note_loose(watch, step, source, value);
    }
}

static void
note_frame_value(Watch *watch, const Step *step, PyObject *value)
{
    Point *made = point(watch, FRAME_VALUE, value);
    made->is.again.step = step;
}

/* An OrderedDict's order changes in silence, once it has one. */
static int
order_tells(PyObject *dict)
{
    return PyDict_CheckExact(dict) || (PyODict_CheckExact(dict) && PyDict_GET_SIZE(dict) < 2);
}

static void
note_length(Watch *watch, const Step *step, PyObject *source)
{
    if (PyDict_Check(source)) {
        note_dict(watch, source, NULL, NULL, 1);
    }
    else if (PyList_Check(source)) {
        note_word(watch, &((PyVarObject *)source)->ob_size);
    }
    else if (PyTuple_Check(source)) {
        note_tuple(watch, step, source, PyTuple_GET_SIZE(source));
    }
    else if (PyUnicode_CheckExact(source)) {
        keep_constant(watch, source);
    }
    else {
        note_again(watch, CHECK_AGAIN, step, source, NULL);
    }
}

static void
note_read(Watch *watch, const Step *step, PyObject *source, PyObject *value)
{
    PyObject *held;
    switch (step->op) {
    case GLOBALS:
    case BUILTINS:
        note_frame_value(watch, step, value);
        return;
    case DEREF:
        note_word(watch, &((PyWeakReference *)step->object)->wr_object);
        return;
    case REFERENT:
        note_word(watch, &((PyWeakReference *)source)->wr_object);
        return;
    case CONST:
    case CLASS_DICT:
    case ROOT:
        return; /* the program or the class holds it for good, or what is looked at is bound to it */
    case ATTR:
        note_attribute(watch, step, source, value);
        return;
    case DICT_ATTR:
        held = note_dict_of(watch, source);
        if (held == NULL) {
            watch->unwatchable = 1;
            return;
        }
        note_dict(watch, held, step->object, value, 0);
        return;
    case INDEX:
        /* A dictionary's integer key: the entry is found by the number, so any change is a doubt. */
        note_item(watch, step, source, NULL, value);
        return;
    case KEY:
        note_item(watch, step, source, PyUnicode_CheckExact(step->object) ? step->object : NULL, value);
        return;
    case TYPE_OF:
        note_type(watch, source);
        return;
    case KEY_AT:
    case VALUE_AT:
        if (order_tells(source)) {
            note_dict(watch, source, NULL, NULL, 0);
            return;
        }
        note_loose(watch, step, source, value);
        return;
    case DEFAULT:
        note_function(watch, source);
        note_tuple(watch, step, ((PyFunctionObject *)source)->func_defaults, step->number);
        return;
    case KWDEFAULT:
        note_function(watch, source);
        note_dict(watch, ((PyFunctionObject *)source)->func_kwdefaults, step->object, value, 0);
        return;
    case CELL:
        held = ((PyFunctionObject *)source)->func_closure;
        note_word(watch, &((PyFunctionObject *)source)->func_closure);
        note_tuple(watch, step, held, step->number);
        note_word(watch, &((PyCellObject *)PyTuple_GET_ITEM(held, step->number))->ob_ref);
        return;
    case FUNC_GLOBAL:
        note_dict(watch, ((PyFunctionObject *)source)->func_globals, step->object, value, 0);
        return;
    case TYPE_ENTRY:
        note_class(watch, source, step->object, value);
        return;
    default:
        watch->unwatchable = 1;
    }
}

static void
note_class_of(Watch *watch, const Step *step, PyObject *source)
{
    if (PyDict_CheckExact(source)) {
        dict_point(watch, source);
    }
    else if (!watch->loose[step->src]) {
        note_word(watch, &source->ob_type);
    }
    else {
        note_type(watch, source);
    }
}

static void
note_check(Watch *watch, const Step *step, PyObject *source)
{
    PyObject *name = step->object;
    switch (step->op) {
    case TYPE_WEAK: /* once the class is gone, another may be where it was */
        note_word(watch, &((PyWeakReference *)step->object)->wr_object);
        note_class_of(watch, step, source);
        return;
    case TYPE:
        note_class_of(watch, step, source);
        return;
    case EQUALS:
        keep_constant(watch, source);
        return;
    case IS_WEAK:
        note_word(watch, &((PyWeakReference *)step->object)->wr_object);
        return;
    case IS:
    case IS_AT:
    case SAME:
    case DISTINCT:
        return; /* what was read is the same object, and these look at nothing that changes within it */
    case TENSOR:
        note_again(watch, tensor_fits_quietly(name, source) ? TENSOR_META : CHECK_AGAIN, step, source, NULL);
        return;
    case LEN:
        note_length(watch, step, source);
        return;
    case DICT_KEYS:
        if (order_tells(source)) {
            note_dict(watch, source, NULL, step->object, 1);
            return;
        }
        break;
    case HAS_KEY:
    case NO_KEY:
        if (!PyDict_Check(source)) { /* a view of one: it has no version */
            break;
        }
        note_dict(watch, source, PyUnicode_CheckExact(name) ? name : NULL, step->op == HAS_KEY ? name : NULL, 1);
        return;
    case NO_KEYS:
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(name); i++) {
            note_dict(watch, source, PyTuple_GET_ITEM(name, i), NULL, 1);
        }
        return;
    case EMPTY_AT:
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(name); i++) {
            PyObject *key = PyTuple_GET_ITEM(name, i), *held = PyDict_GetItemWithError(source, key);
            if (held == NULL) { /* it was there a moment ago */
                PyErr_Clear();
                watch->unwatchable = 1;
                return;
            }
            keep(watch, held);
            note_dict(watch, source, key, held, 0);
            note_dict(watch, held, NULL, NULL, 1);
        }
        return;
    case NO_TYPE_ENTRY:
        note_class(watch, source, name, NULL);
        return;
    case EMPTY_CELL:
        note_word(watch, &((PyCellObject *)source)->ob_ref);
        return;
    case HAS_ATTR:
    case NO_ATTR:
    case PREDICATE:
        break;
    default:
        watch->unwatchable = 1;
        return;
    }
    note_again(watch, CHECK_AGAIN, step, source, NULL);
}

static void
note(Watch *watch, const Step *step, PyObject *const *regs, PyObject *value)
{
    PyObject *source = step->src >= 0 ? regs[step->src] : NULL;
    Py_ssize_t before = watch->count + watch->parts;
    int loose = source != NULL && watch->loose[step->src];
    watch->made_loose = 0;
    if (step->op <= LAST_READ) {
        if (Py_REFCNT(value) == 1) { /* made by the reading: nothing holds it */
            watch->unwatchable = 1;
            return;
        }
        keep(watch, value);
        note_read(watch, step, source, value);
    }
    else {
        note_check(watch, step, source);
    }
    /* What hangs from a value that nothing watched holds could be gone when it is looked at. */
    if (loose && watch->count + watch->parts > before && step->op != IS_WEAK) {
        watch->unwatchable = 1;
    }
    if (step->op <= LAST_READ) {
        watch->loose[step->dst] = (char)(loose || watch->made_loose);
    }
}

void
watch_note(Watch *watch, const Step *step, PyObject *const *regs, PyObject *value)
{
    if (!watch->unwatchable) {
        note(watch, step, regs, value);
        watch->reason = watch->unwatchable ? step->text : -1;
    }
}
