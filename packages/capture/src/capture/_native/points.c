/* Looking at one point that runs no Python: whether what was read there is there still. */
#include "compat.h"
#include "equal.h"
#include "points.h"
#include "tensor.h"

/* Of a dictionary whose keys are names: nothing that is compared here runs Python. */
static int
same_keys(PyObject *dict, PyObject *wanted)
{
    if (!PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(wanted)) {
        return 0;
    }
    PyObject *key, *value;
    int same = 1;
    for (Py_ssize_t place = 0, at = 0; same == 1 && PyDict_Next(dict, &place, &key, &value); at++) {
        same = exactly_equal(key, PyTuple_GET_ITEM(wanted, at));
    }
    return same == 1;
}

static int
dict_part_holds(PyObject *dict, const Part *part)
{
    if (part->key == NULL) {
        return part->only_presence && part->value ? same_keys(dict, part->value) : 0;
    }
    PyObject *now = PyDict_GetItemWithError(dict, part->key);
    return part->only_presence ? (now == NULL) == (part->value == NULL) : now == part->value;
}

static int
dict_holds(Watch *watch, Point *at)
{
    if (!DK_IS_UNICODE(((PyDictObject *)at->object)->ma_keys)) {
        return 0; /* finding a key may run a comparison in Python */
    }
    for (int i = at->first; i >= 0; i = watch->part[i].next) {
        Part *part = &watch->part[i];
        if (!dict_part_holds(at->object, part)) {
            return 0;
        }
        part->place = part->value && !part->only_presence ? dict_place(at->object, part->key, part->place) : -1;
    }
    if (DICTS_HAVE_VERSIONS) {
        at->is.version = dict_version(at->object);
    }
    else if (at->is.listed != NULL) {
        listed_found_again(at->is.listed);
    }
    return 1;
}

/* An attribute that is stored anew drops its old value, whose finalizer may call anything, before the version moves on. So
   the version tells of the places, and the values are looked at there. */
static int
values_stand(const Watch *watch, const Point *at)
{
    for (int i = at->first; i >= 0; i = watch->part[i].next) {
        const Part *part = &watch->part[i];
        if (part->place >= 0 && *dict_value_place(at->object, part->place) != part->value) {
            return 0;
        }
    }
    return 1;
}

static int
class_holds(Watch *watch, Point *at)
{
    for (int i = at->first; i >= 0; i = watch->part[i].next) {
        if (_PyType_Lookup((PyTypeObject *)at->object, watch->part[i].key) != watch->part[i].value) {
            return 0;
        }
    }
    at->is.version = class_version(at->object);
    return 1;
}

static int
frame_value_holds(const Point *at, const GuardFrame *frame)
{
    return (at->is.again.step->op == GLOBALS ? frame->globals : frame->builtins) == at->object;
}

int
point_holds(Watch *watch, Point *at, const GuardFrame *frame)
{
    switch (at->kind) {
    case FRAME_VALUE:
        return frame_value_holds(at, frame);
    case WORD:
        return *at->is.word.where == at->is.word.value;
    case DICTIONARY:
        if (!at->capacity && (DICTS_HAVE_VERSIONS ? dict_version(at->object) == at->is.version && values_stand(watch, at)
                                                  : at->is.listed != NULL && !listed_changed(at->is.listed))) {
            return 1;
        }
        return dict_holds(watch, at);
    case CLASS:
        return (at->is.version && class_version(at->object) == at->is.version) || class_holds(watch, at);
    case ELEMENT:
        return at->is.part.at < PyList_GET_SIZE(at->object) &&
               PyList_GET_ITEM(at->object, at->is.part.at) == at->is.part.value;
    default:
        return tensor_fits(at->is.again.step->object, at->object);
    }
}
