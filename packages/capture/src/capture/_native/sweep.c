/* The quick look. Each point is words that must be what they were, or a tensor. They are compared in the order of the
   points, and the first that differs ends it, so nothing is read that hangs from what changed. What differs is asked of
   its point: if that holds all the same (an entry put back, another version of the same dictionary), the new words are
   taken. */
#include "sweep.h"
#include <string.h>

/* What always differs: its point is asked each time. */
static const uint64_t nothing;
#define ASKED ((Word){&nothing, 1})

static Word
word(const void *where)
{
    return (Word){where, *(const uint64_t *)where};
}

static Word
wanted(const void *where, const void *value)
{
    return (Word){where, (uint64_t)(uintptr_t)value};
}

/* ---- dictionaries: unless they tell ---- */

/* A store drops the old value before the version moves on. Where that may run a finalizer the value is looked at too. */
static int
drops_quietly(const PyObject *value)
{
    return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyUnicode_CheckExact(value);
}

/* The version, the table of entries (which an update makes larger before the version moves on), and values in it. */
static Py_ssize_t
dictionary_words(const Watch *watch, const Point *at, Word *out)
{
    Py_ssize_t count = 2;
    if (out) {
        int known = DICTS_HAVE_VERSIONS && dict_version(at->object) == at->is.version;
        out[0] = known ? word(dict_version_place(at->object)) : ASKED;
        out[1] = word(&((PyDictObject *)at->object)->ma_keys);
    }
    for (int i = at->first; i >= 0; i = watch->part[i].next) {
        const Part *part = &watch->part[i];
        if (part->key == NULL || part->value == NULL || part->only_presence || drops_quietly(part->value)) {
            continue;
        }
        if (out) {
            out[count] = part->place < 0 ? ASKED : wanted(dict_value_place(at->object, part->place), part->value);
        }
        count++;
    }
    return count;
}

/* ---- dictionaries that share their values with an object: no attribute stored there is told of ---- */

/* What counts the attributes, then in which order they came, lie around the values: whatever adds or deletes one changes these. */
static Py_ssize_t
order_words(const PyDictValues *values, Py_ssize_t capacity, Word *out)
{
    Py_ssize_t count = 1 + (capacity + 7) / 8;
    if (out) {
        out[0] = word(values);
        for (Py_ssize_t i = 1; i < count; i++) {
            out[i] = word(&values->values[capacity + i - 1]);
        }
    }
    return count;
}

/* The count is what it was at first, also when the dictionary has its own values by now, and tells. */
static Py_ssize_t
inline_words(const Watch *watch, const Point *at, Word *out)
{
    if (!at->capacity || at->first < 0) {
        return 0;
    }
    const PyDictValues *values = dict_inline_values(at->object);
    Word *to = values ? out : NULL;
    Py_ssize_t count = 1;
    int by_order = 0, all = 0;
    if (to) {
        to[0] = word(&((PyDictObject *)at->object)->ma_values);
    }
    for (int i = at->first; i >= 0; i = watch->part[i].next) {
        const Part *part = &watch->part[i];
        by_order |= part->key == NULL || part->value == NULL || part->only_presence;
        all |= part->key == NULL && !part->only_presence;
    }
    if (by_order) {
        count += order_words(values, at->capacity, to ? to + count : NULL);
    }
    for (Py_ssize_t i = 0; all && i < at->capacity; i++, count++) {
        if (to) {
            to[count] = word(&values->values[i]);
        }
    }
    for (int i = at->first; !all && i >= 0; i = watch->part[i].next) {
        const Part *part = &watch->part[i];
        if (part->key == NULL || part->value == NULL || part->only_presence) {
            continue;
        }
        if (to) {
            to[count] = part->place < 0 ? ASKED : wanted(&values->values[part->place], part->value);
        }
        count++;
    }
    for (Py_ssize_t i = 0; out && !values && i < count; i++) {
        out[i] = word(&nothing);
    }
    return count;
}

/* ---- points ---- */

static Py_ssize_t
class_words(const Point *at, Word *out)
{
    const PyTypeObject *type = (PyTypeObject *)at->object;
    _Static_assert(offsetof(PyTypeObject, tp_finalize) - offsetof(PyTypeObject, tp_version_tag) == 8,
                   "the tag and what pads it");
    if (out) {
        int known = at->is.version != 0 && class_version(at->object) == at->is.version;
        out[0] = known ? word(&type->tp_flags) : ASKED;
        out[1] = word(&type->tp_version_tag);
    }
    return 2;
}

static Py_ssize_t
element_words(const Point *at, Word *out)
{
    const PyListObject *list = (PyListObject *)at->object;
    if (out) {
        out[0] = word(&list->ob_item);
        out[1] = word(&((PyVarObject *)list)->ob_size);
        out[2] = wanted(&list->ob_item[at->is.part.at], at->is.part.value);
    }
    return 3;
}

/* How many words a point has; into `out`, if given, as they are now. */
static Py_ssize_t
words_of(const Watch *watch, const Point *at, Word *out)
{
    switch (at->kind) {
    case WORD:
        if (out) {
            out[0] = wanted(at->is.word.where, at->is.word.value);
        }
        return 1;
    case DICTIONARY: {
        Py_ssize_t count = inline_words(watch, at, out);
        return watch->listed ? count : count + dictionary_words(watch, at, out ? out + count : NULL);
    }
    case CLASS:
        return class_words(at, out);
    case ELEMENT:
        return element_words(at, out);
    default:
        return 0;
    }
}

/* ---- tensors ---- */

/* Tensors that are alike share a form, so that few are looked at. There is space for one each. */
static Form *
shared_form(Sweep *sweep, const Form *form)
{
    Form *unused = NULL;
    for (Form *each = sweep->form, *end = each + sweep->forms; each < end; each++) {
        if (each->users == 0) {
            unused = each;
        }
        else if (memcmp(each, form, offsetof(Form, users)) == 0) {
            each->users++;
            return each;
        }
    }
    if (unused == NULL) {
        unused = &sweep->form[sweep->forms++];
    }
    *unused = *form;
    unused->users = 1;
    return unused;
}

static void
take_tensor(Sweep *sweep, FormOf *of, PyObject *tensor)
{
    Form form;
    if (of->form) {
        of->form->users--;
    }
    of->form = form_take(tensor, &form, of) ? shared_form(sweep, &form) : NULL;
}

/* ---- making ---- */

static int
allocate(Sweep *sweep)
{
    sweep->word = PyMem_Calloc(sweep->words + 1, sizeof(Word));
    sweep->word_of = PyMem_Calloc(sweep->words + 1, sizeof(int));
    sweep->tensor = PyMem_Calloc(sweep->tensors + 1, sizeof(FormOf));
    sweep->tensor_of = PyMem_Calloc(sweep->tensors + 1, sizeof(int));
    sweep->form = PyMem_Calloc(sweep->tensors + 1, sizeof(Form));
    sweep->root = PyMem_Calloc(sweep->roots + 1, sizeof(int));
    if (!sweep->word || !sweep->word_of || !sweep->tensor || !sweep->tensor_of || !sweep->form || !sweep->root) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

int
sweep_make(Watch *watch)
{
    Sweep *sweep = &watch->sweep;
    for (int i = 0; i < watch->late; i++) {
        const Point *at = &watch->points[i];
        sweep->roots += at->kind == FRAME_VALUE;
        sweep->tensors += at->kind == TENSOR_META;
        sweep->words += words_of(watch, at, NULL);
    }
    if (allocate(sweep) < 0) {
        return -1;
    }
    sweep->roots = sweep->words = sweep->tensors = 0;
    for (int i = 0; i < watch->late; i++) {
        const Point *at = &watch->points[i];
        if (at->kind == FRAME_VALUE) {
            sweep->root[sweep->roots++] = i;
        }
        else if (at->kind == TENSOR_META) {
            take_tensor(sweep, &sweep->tensor[sweep->tensors], at->object);
            sweep->tensor_of[sweep->tensors++] = i;
        }
        for (Py_ssize_t count = words_of(watch, at, sweep->word + sweep->words); count > 0; count--) {
            sweep->word_of[sweep->words++] = i;
        }
    }
    return 0;
}

void
sweep_free(Sweep *sweep)
{
    PyMem_Free(sweep->word);
    PyMem_Free(sweep->word_of);
    PyMem_Free(sweep->tensor);
    PyMem_Free(sweep->tensor_of);
    PyMem_Free(sweep->form);
    PyMem_Free(sweep->root);
}

/* ---- looking ---- */

/* As sweep_holds, of the point that a word belongs to. */
static __attribute__((noinline)) int
ask_word(Watch *watch, Py_ssize_t i, const GuardFrame *frame)
{
    const int *of = watch->sweep.word_of;
    int holds = point_holds(watch, &watch->points[of[i]], frame);
    if (holds == 1) {
        while (i > 0 && of[i - 1] == of[i]) {
            i--;
        }
        words_of(watch, &watch->points[of[i]], &watch->sweep.word[i]);
    }
    return holds;
}

static __attribute__((noinline)) int
ask_tensor(Watch *watch, Py_ssize_t i, const GuardFrame *frame)
{
    Point *at = &watch->points[watch->sweep.tensor_of[i]];
    int holds = point_holds(watch, at, frame);
    if (holds == 1) {
        take_tensor(&watch->sweep, &watch->sweep.tensor[i], at->object);
    }
    return holds;
}

int
sweep_holds(Watch *watch, const GuardFrame *frame)
{
    const Sweep *sweep = &watch->sweep;
    int holds;
    for (Py_ssize_t i = 0; i < sweep->roots; i++) {
        if ((holds = point_holds(watch, &watch->points[sweep->root[i]], frame)) != 1) {
            return holds;
        }
    }
    const Word *word = sweep->word;
    for (Py_ssize_t i = 0, count = sweep->words; i < count; i++) {
        if (*word[i].where != word[i].value && (holds = ask_word(watch, i, frame)) != 1) {
            return holds;
        }
    }
    const FormOf *tensor = sweep->tensor;
    const FormPlaces places = form_places;
    for (Py_ssize_t i = 0, count = sweep->tensors; i < count; i++) {
        if (!form_holds(&tensor[i], places) && (holds = ask_tensor(watch, i, frame)) != 1) {
            return holds;
        }
    }
    return 1;
}
