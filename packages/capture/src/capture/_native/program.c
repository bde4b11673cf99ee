/* Running guard programs: linear code over registers. Every read holds a reference until the end, since a property or
   a predicate may run Python in between. What cannot be read fails its guard; only exits and interrupts propagate. */
#include "compat.h"
#include "bindings.h"
#include "program.h"
#include "equal.h"
#include "state.h"
#include "steps.h"
#include "watch.h"
#include <string.h>

/* ---- reads: a new reference, NULL for "not there" (with or without an exception) ---- */

static PyObject *
dict_item(PyObject *dict, PyObject *key)
{
    if (dict == NULL || !PyDict_Check(dict)) {
        return NULL;
    }
    Py_INCREF(dict); /* a key's __eq__ may drop whatever holds it */
    PyObject *item = Py_XNewRef(PyDict_GetItemWithError(dict, key));
    Py_DECREF(dict);
    return item;
}

/* A function's cell; borrowed. */
static PyObject *
cell_of(PyObject *function, Py_ssize_t i)
{
    PyObject *cells = function && PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_closure : NULL;
    if (cells == NULL || !PyTuple_Check(cells) || i < 0 || i >= PyTuple_GET_SIZE(cells) ||
        !PyCell_Check(PyTuple_GET_ITEM(cells, i))) {
        return NULL;
    }
    return PyTuple_GET_ITEM(cells, i);
}

static PyObject *
cell_content(PyObject *function, Py_ssize_t i)
{
    PyObject *cell = cell_of(function, i);
    return cell ? PyCell_Get(cell) : NULL;
}

static PyObject *
instance_dict_item(PyObject *value, PyObject *name)
{
    PyObject *dict = PyObject_GenericGetDict(value, NULL);
    PyObject *item = dict_item(dict, name);
    Py_XDECREF(dict);
    return item;
}

/* Dicts are read as plain ones: no __missing__ of a subclass. */
static PyObject *
subscript(PyObject *value, PyObject *key)
{
    return PyDict_Check(value) ? dict_item(value, key) : PyObject_GetItem(value, key);
}

static PyObject *
sequence_item(PyObject *value, Py_ssize_t i)
{
    if (PyTuple_Check(value) || PyList_Check(value)) {
        Py_ssize_t size = Py_SIZE(value);
        i += i < 0 ? size : 0;
        if (i < 0 || i >= size) {
            return NULL;
        }
        return Py_NewRef(PyTuple_Check(value) ? PyTuple_GET_ITEM(value, i) : PyList_GET_ITEM(value, i));
    }
    PyObject *index = PyLong_FromSsize_t(i);
    PyObject *item = index ? subscript(value, index) : NULL;
    Py_XDECREF(index);
    return item;
}

static PyObject *
key_at(PyObject *dict, Py_ssize_t wanted)
{
    if (!PyDict_Check(dict)) {
        return NULL;
    }
    PyObject *iterator = PyObject_GetIter(dict), *key = NULL;
    for (Py_ssize_t i = 0; iterator && i <= wanted; i++) {
        Py_XDECREF(key);
        key = PyIter_Next(iterator);
        if (key == NULL) {
            break;
        }
    }
    Py_XDECREF(iterator);
    return key;
}

static PyObject *
value_at(PyObject *dict, Py_ssize_t wanted)
{
    PyObject *key = key_at(dict, wanted);
    PyObject *value = key ? dict_item(dict, key) : NULL;
    Py_XDECREF(key);
    return value;
}

/* What the classes of a class's MRO hold under a name, as they hold it; borrowed. */
static PyObject *
type_entry(PyObject *type, PyObject *name)
{
    return PyType_Check(type) ? _PyType_Lookup((PyTypeObject *)type, name) : NULL;
}

/* A class's own dictionary itself: what its `__dict__` gives is a view made anew each time. */
static PyObject *
class_dict(PyObject *type)
{
    if (!PyType_Check(type)) {
        return NULL;
    }
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict((PyTypeObject *)type);
#else
    return Py_XNewRef(((PyTypeObject *)type)->tp_dict);
#endif
}

static PyObject *
function_item(int op, PyObject *value, const Step *step)
{
    if (!PyFunction_Check(value)) {
        return NULL;
    }
    PyFunctionObject *func = (PyFunctionObject *)value;
    switch (op) {
    case DEFAULT:
        if (func->func_defaults == NULL || step->number < 0 ||
            step->number >= PyTuple_GET_SIZE(func->func_defaults)) {
            return NULL;
        }
        return Py_NewRef(PyTuple_GET_ITEM(func->func_defaults, step->number));
    case KWDEFAULT:
        return dict_item(func->func_kwdefaults, step->object);
    case CELL:
        return cell_content(value, step->number);
    default:
        return dict_item(func->func_globals, step->object);
    }
}

static inline PyObject *
read_value(const Step *step, PyObject *const *regs, const GuardFrame *frame)
{
    switch (step->op) {
    case LOCAL:
        return Py_XNewRef(frame->locals[step->number]);
    case FREE:
        return cell_content(frame->func, step->number);
    case FREE_CELL:
        return Py_XNewRef(cell_of(frame->func, step->number));
    case CONST:
        return Py_NewRef(step->object);
    case ATTR:
        return PyObject_GetAttr(regs[step->src], step->object);
    case DICT_ATTR:
        return instance_dict_item(regs[step->src], step->object);
    case INDEX:
        return sequence_item(regs[step->src], step->number);
    case KEY:
        return subscript(regs[step->src], step->object);
    case TYPE_OF:
        return Py_NewRef((PyObject *)Py_TYPE(regs[step->src]));
    case KEY_AT:
        return key_at(regs[step->src], step->number);
    case VALUE_AT:
        return value_at(regs[step->src], step->number);
    case CLASS_DICT:
        return class_dict(regs[step->src]);
    case GLOBALS:
        return Py_XNewRef(frame->globals);
    case BUILTINS:
        return Py_XNewRef(frame->builtins);
    case ROOT:
        return Py_NewRef(frame->roots[step->number]);
    case DEREF:
        return Py_XNewRef(weak_target(step->object));
    case REFERENT:
        return PyWeakref_CheckRef(regs[step->src]) ? Py_NewRef(PyWeakref_GET_OBJECT(regs[step->src])) : NULL;
    case TYPE_ENTRY:
        return Py_XNewRef(type_entry(regs[step->src], step->object));
    default:
        return function_item(step->op, regs[step->src], step);
    }
}

/* ---- checks: 1 holds, 0 does not, -1 with an exception ---- */

/* Keys whose comparison runs no Python, nor anything that could change the dictionary. */
static int
compares_quietly(PyObject *key)
{
    return PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || key == Py_None || PyBool_Check(key);
}

static int
keys_are(PyObject *dict, PyObject *wanted)
{
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(wanted)) {
        return 0;
    }
    Py_ssize_t at = 0;
    int same = 1;
    if (PyDict_CheckExact(dict)) {
        PyObject *key, *value;
        for (Py_ssize_t place = 0; same == 1 && PyDict_Next(dict, &place, &key, &value); at++) {
            if (!compares_quietly(key)) {
                break;
            }
            same = exactly_equal(key, PyTuple_GET_ITEM(wanted, at));
        }
        if (same != 1 || at == PyTuple_GET_SIZE(wanted)) {
            return same;
        }
    }
    /* A comparison may change the dictionary; and an OrderedDict keeps an order of its own. */
    PyObject *keys = PySequence_Tuple(dict), *after = NULL;
    same = keys ? PyTuple_GET_SIZE(keys) == PyTuple_GET_SIZE(wanted) : -1;
    for (at = 0; same == 1 && at < PyTuple_GET_SIZE(wanted); at++) {
        same = exactly_equal(PyTuple_GET_ITEM(keys, at), PyTuple_GET_ITEM(wanted, at));
    }
    if (same == 1) { /* what was compared must be what is there now */
        after = PySequence_Tuple(dict);
        same = after ? PyTuple_GET_SIZE(after) == PyTuple_GET_SIZE(keys) : -1;
    }
    for (at = 0; same == 1 && at < PyTuple_GET_SIZE(keys); at++) {
        same = PyTuple_GET_ITEM(after, at) == PyTuple_GET_ITEM(keys, at);
    }
    Py_XDECREF(keys);
    Py_XDECREF(after);
    return same;
}

static int
has_attribute(PyObject *value, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(value, name);
    if (found == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return -1;
        }
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(found);
    return 1;
}

static int
truth_of(PyObject *result)
{
    int truth = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    return truth;
}

static int
call_equals(PyObject *object)
{
    PyObject *found = PyObject_Call(PyTuple_GET_ITEM(object, 0), PyTuple_GET_ITEM(object, 1), NULL);
    int same = found ? exactly_equal(found, PyTuple_GET_ITEM(object, 2)) : -1;
    Py_XDECREF(found);
    return same;
}

#define FEW_OBJECTS 12

static int
all_distinct(const Extra *extra, PyObject *const *regs)
{
    if (extra->count <= FEW_OBJECTS) {
        for (Py_ssize_t i = 1; i < extra->count; i++) {
            for (Py_ssize_t j = 0; j < i; j++) {
                if (regs[extra->inputs[i].reg] == regs[extra->inputs[j].reg]) {
                    return 0;
                }
            }
        }
        return 1;
    }
    /* A set of addresses, less than half full, with linear probing. */
    size_t room = 32;
    while (room < 2 * (size_t)extra->count) {
        room *= 2;
    }
    PyObject **set = PyMem_Calloc(room, sizeof(PyObject *));
    if (set == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int distinct = 1;
    for (Py_ssize_t i = 0; distinct && i < extra->count; i++) {
        PyObject *object = regs[extra->inputs[i].reg];
        size_t at = ((uintptr_t)object >> 4) * 0x9E3779B97F4A7C15u >> 20 & (room - 1);
        while (set[at] != NULL && set[at] != object) {
            at = (at + 1) & (room - 1);
        }
        distinct = set[at] == NULL;
        set[at] = object;
    }
    PyMem_Free(set);
    return distinct;
}

static int
shape_input(const ShapeInput *input, PyObject *const *regs, int64_t *out)
{
    PyObject *value = regs[input->reg];
    if (input->what != VALUE) {
        return tensor_number(value, input->what, input->dim, out);
    }
    if (!PyLong_Check(value)) {
        return 0;
    }
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
}

static int
shape_holds(const Step *step, PyObject *const *regs)
{
    const Extra *extra = step->extra;
    int64_t few[16];
    int64_t *numbers = extra->count <= 16 ? few : PyMem_Malloc(extra->count * sizeof(int64_t));
    if (numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int holds = 1;
    for (Py_ssize_t i = 0; holds == 1 && i < extra->count; i++) {
        holds = shape_input(&extra->inputs[i], regs, &numbers[i]);
    }
    if (holds == 1 && step->op == SHAPE) {
        holds = shape_run(&extra->code, numbers);
    }
    else if (holds == 1) {
        PyObject *args = PyTuple_New(extra->count);
        for (Py_ssize_t i = 0; args && i < extra->count; i++) {
            PyObject *number = PyLong_FromLongLong(numbers[i]);
            if (number == NULL) {
                Py_CLEAR(args);
                break;
            }
            PyTuple_SET_ITEM(args, i, number);
        }
        holds = args ? truth_of(PyObject_Call(extra->predicate, args, NULL)) : -1;
        Py_XDECREF(args);
    }
    if (numbers != few) {
        PyMem_Free(numbers);
    }
    return holds;
}

static inline int
check_value(const Step *step, PyObject *const *regs)
{
    PyObject *value = step->src >= 0 ? regs[step->src] : NULL;
    int result;
    switch (step->op) {
    case TYPE:
        return (PyObject *)Py_TYPE(value) == step->object;
    case IS:
        return value == step->object;
    case IS_WEAK:
        return value == weak_target(step->object);
    case EQUALS:
        return exactly_equal(value, step->object);
    case TENSOR:
        return tensor_fits(step->object, value);
    case LEN: {
        Py_ssize_t size = PyObject_Size(value);
        return size < 0 ? -1 : size == step->number;
    }
    case DICT_KEYS:
        return keys_are(value, step->object);
    case HAS_KEY:
    case NO_KEY:
        if (Py_IS_TYPE(value, &PyDictProxy_Type)) { /* a class's own dictionary */
            result = PySequence_Contains(value, step->object);
        }
        else {
            result = PyDict_Check(value) ? PyDict_Contains(value, step->object) : -1;
        }
        return result < 0 ? -1 : result == (step->op == HAS_KEY);
    case HAS_ATTR:
    case NO_ATTR:
        result = has_attribute(value, step->object);
        return result < 0 ? -1 : result == (step->op == HAS_ATTR);
    case NO_TYPE_ENTRY:
        return PyType_Check(value) && type_entry(value, step->object) == NULL;
    case EMPTY_CELL:
        return PyCell_Check(value) && PyCell_GET(value) == NULL;
    case PREDICATE:
        return truth_of(PyObject_CallOneArg(step->object, value));
    case SAME:
        return value == regs[step->dst];
    case DISTINCT:
        return all_distinct(step->extra, regs);
    case GRAD_MODE:
        return grad_mode() == (int)step->number;
    case STATE:
        return state_is(step->object);
    case CALL_EQUALS:
        return call_equals(step->object);
    default:
        return shape_holds(step, regs);
    }
}

PyObject *
step_read(const Step *step, PyObject *const *regs, const GuardFrame *frame)
{
    return read_value(step, regs, frame);
}

int
step_check(const Step *step, PyObject *const *regs)
{
    return check_value(step, regs);
}

/* An exception while reading means that the value is not as it was: the guard fails. Others are not ours to keep. */
static int
swallow_exception(void)
{
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return -1;
        }
        PyErr_Clear();
    }
    return 0;
}

#define FEW_REGISTERS 48

/* The registers of a run: on the C stack if they are few. */
typedef struct {
    PyObject *few[FEW_REGISTERS], **regs;
    Py_ssize_t used; /* those from here on hold nothing yet */
} Registers;

static int
registers_begin(Registers *registers, Py_ssize_t count)
{
    registers->used = 0;
    registers->regs = count <= FEW_REGISTERS ? registers->few : PyMem_Malloc(count * sizeof(PyObject *));
    if (registers->regs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static void
registers_end(Registers *registers)
{
    while (registers->used > 0) {
        Py_XDECREF(registers->regs[--registers->used]);
    }
    if (registers->regs != registers->few) {
        PyMem_Free(registers->regs);
    }
}

static inline void
register_set(Registers *registers, Py_ssize_t at, PyObject *value)
{
    while (registers->used <= at) {
        registers->regs[registers->used++] = NULL;
    }
    Py_XSETREF(registers->regs[at], value);
}

static int
is_bound(const GuardProgram *watched, PyObject *const *roots, Watch **watch)
{
    *watch = NULL;
    return watched->bindings && bindings_find(watched->bindings, roots, watch);
}

static int
is_apart(const Step *step, PyObject *value, const Watch *watch)
{
    const Extra *extra = step->extra;
    for (Py_ssize_t i = 0; i < extra->count; i++) {
        if (watch_pin(watch, extra->inputs[i].reg) == value) {
            return 0;
        }
    }
    return 1;
}

static Py_ssize_t run_watched(GuardProgram *self, const GuardFrame *frame, int bound_only, Watch **held);

/* All steps; what they look at goes into `watch`, if given. `*held`: what tells that the watched program holds, shared. */
static inline __attribute__((always_inline)) Py_ssize_t
run_steps(GuardProgram *self, const GuardFrame *frame, Registers *registers, Watch *watch, int bound_only, Watch **held)
{
    PyObject **regs = registers->regs;
    for (const Step *step = self->steps, *end = step + self->count; step < end; step++) {
        int holds;
        if (step->op <= LAST_READ) {
            PyObject *value = step->op == PINNED ? Py_XNewRef(*held ? watch_pin(*held, step->number) : NULL)
                                                 : read_value(step, regs, frame);
            holds = value != NULL;
            if (holds && watch) {
                watch_note(watch, step, regs, value);
            }
            register_set(registers, step->dst, value);
        }
        else if (step->op == WATCHED) {
            const GuardFrame beneath = {frame->locals, frame->func, frame->globals, frame->builtins, regs};
            Py_ssize_t result = run_watched((GuardProgram *)self->watched, &beneath, bound_only, held);
            if (result != GUARDS_HOLD) {
                return result;
            }
            holds = 1;
        }
        else if (step->op == BOUND) {
            Watch *known;
            if (bound_only && !is_bound((GuardProgram *)self->watched, regs, &known)) {
                return GUARDS_UNBOUND;
            }
            holds = 1;
        }
        else {
            holds = step->op == APART ? *held && is_apart(step, regs[step->src], *held) : check_value(step, regs);
            if (holds == 1 && watch) {
                watch_note(watch, step, regs, NULL);
            }
        }
        if (holds != 1) {
            return swallow_exception() < 0 ? GUARDS_ERROR : step->text;
        }
    }
    return GUARDS_HOLD;
}

static int
can_run(const GuardProgram *self)
{
    if (self->steps == NULL) {
        PyErr_SetString(PyExc_ReferenceError, "the collector has cleared this guard program");
    }
    return self->steps != NULL;
}

/* In full, with what it looks at taken down into `*made`. */
static Py_ssize_t
verify(GuardProgram *self, const GuardFrame *frame, Watch **made)
{
    Registers registers;
    Watch *none = NULL;
    if (!can_run(self) || registers_begin(&registers, self->registers) < 0) {
        return GUARDS_ERROR;
    }
    Watch *watch = watch_new(self->count, self->registers, self->pins);
    Py_ssize_t result = watch ? run_steps(self, frame, &registers, watch, 0, &none) : GUARDS_ERROR;
    while (registers.used < self->pins) {
        register_set(&registers, registers.used, NULL);
    }
    if (result == GUARDS_HOLD && watch_seal(watch, registers.regs, frame) < 0) {
        result = swallow_exception() < 0 ? GUARDS_ERROR : watch_reason(watch);
    }
    if (result == GUARDS_HOLD) {
        *made = watch;
    }
    else {
        watch_drop(watch);
    }
    registers_end(&registers);
    return result;
}

/* What lives on: verified in full only for new roots, and where a watch cannot tell that nothing changed. */
static Py_ssize_t
run_watched(GuardProgram *self, const GuardFrame *frame, int bound_only, Watch **held)
{
    Watch *watch, *made = NULL;
    if (!is_bound(self, frame->roots, &watch) && bound_only) {
        return GUARDS_UNBOUND;
    }
    if (watch) {
        *held = watch_share(watch);
        int holds = watch_holds(watch, frame);
        if (holds == 1) {
            return GUARDS_HOLD;
        }
        *held = NULL;
        watch_drop(watch);
        if (holds < 0 && swallow_exception() < 0) {
            return GUARDS_ERROR;
        }
    }
    self->verified++;
    Py_ssize_t result = verify(self, frame, &made);
    if (self->bindings == NULL) { /* what was looked at has brought the collector here */
        watch_drop(made);
        return result == GUARDS_HOLD && !can_run(self) ? GUARDS_ERROR : result;
    }
    if (result != GUARDS_HOLD) {
        bindings_remove(self->bindings, frame->roots);
        return result;
    }
    self->unwatched = watch_reason(made);
    *held = made; /* one that cannot tell keeps its pins for this run, and is not kept itself */
    return bindings_put(self->bindings, frame->roots, watch_points(made) < 0 ? NULL : made) < 0 ? GUARDS_ERROR
                                                                                                : GUARDS_HOLD;
}

/* What the graph takes, once all holds. */
static int
stash_fill(Stash *stash, PyObject *op, PyObject *const *roots, const Watch *held)
{
    const GuardProgram *self = (GuardProgram *)op, *watched = (GuardProgram *)self->watched;
    Py_ssize_t count = self->ends_quietly && watch_is_quiet(held) ? self->inputs : 0;
    PyObject **values = PyMem_Malloc((watched->roots + count + 1) * sizeof(PyObject *));
    if (values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < watched->roots; i++) {
        values[i] = Py_NewRef(roots[i]);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        values[watched->roots + i] = Py_NewRef(watch_pin(held, i));
    }
    *stash = (Stash){op, values, watched->roots, count, NULL};
    return 0;
}

void
stash_drop(Stash *stash)
{
    PyObject **values = stash->values;
    stash->values = NULL;
    for (Py_ssize_t i = 0; values && i < stash->roots + stash->count; i++) {
        Py_DECREF(values[i]);
    }
    PyMem_Free(values);
}

Py_ssize_t
program_run(PyObject *op, const GuardFrame *frame, int bound_only, Stash *stash)
{
    GuardProgram *self = (GuardProgram *)op;
    Registers registers;
    Watch *held = NULL;
    if (!can_run(self) || registers_begin(&registers, self->registers) < 0) {
        return GUARDS_ERROR;
    }
    Py_INCREF(op); /* a property or predicate may drop it */
    Py_ssize_t result = run_steps(self, frame, &registers, NULL, bound_only, &held);
    if (result == GUARDS_HOLD && stash && self->inputs && stash_fill(stash, op, registers.regs, held) < 0) {
        result = GUARDS_ERROR;
    }
    watch_drop(held);
    registers_end(&registers);
    Py_DECREF(op);
    return result;
}

Py_ssize_t
program_pin_count(PyObject *op)
{
    GuardProgram *watched = (GuardProgram *)((GuardProgram *)op)->watched;
    return watched ? watched->pins : 0;
}

Py_ssize_t
program_root_count(PyObject *op)
{
    GuardProgram *watched = (GuardProgram *)((GuardProgram *)op)->watched;
    return watched ? watched->roots : 0;
}

/* Between the check of a frame and its graph other threads, finalizers and properties may have run, so the watch is asked
   again. Where it does not know, the values are read as they are: whoever changes a model while it runs gets what it is
   then. */
static int
read_pins(GuardProgram *self, const GuardFrame *frame, PyObject **out, Py_ssize_t count)
{
    Registers registers;
    if (registers_begin(&registers, self->registers) < 0) {
        return -1;
    }
    for (Step *step = self->steps, *end = step + self->count; step < end; step++) {
        if (step->op > LAST_READ) {
            continue;
        }
        PyObject *value = step_read(step, registers.regs, frame);
        if (value == NULL) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_RuntimeError, "gone while it was about to be used: %U",
                             program_text((PyObject *)self, step->text));
            }
            registers_end(&registers);
            return -1;
        }
        register_set(&registers, step->dst, value);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        out[i] = Py_NewRef(registers.regs[i]);
    }
    registers_end(&registers);
    return 0;
}

int
program_pins(PyObject *op, PyObject *const *roots, PyObject **out, Py_ssize_t count)
{
    GuardProgram *self = (GuardProgram *)((GuardProgram *)op)->watched;
    const GuardFrame frame = {NULL, NULL, PyEval_GetGlobals(), PyEval_GetBuiltins(), roots};
    Watch *watch;
    if (self->bindings && is_bound(self, roots, &watch) && watch) {
        if (watch_stands(watch, &frame) == 1) {
            for (Py_ssize_t i = 0; i < count; i++) {
                out[i] = Py_NewRef(watch_pin(watch, i));
            }
            return 0;
        }
        PyErr_Clear();
    }
    Py_INCREF(op);
    int done = can_run(self) ? read_pins(self, &frame, out, count) : -1;
    Py_DECREF(op);
    return done;
}

void
program_set_inputs(PyObject *op, Py_ssize_t count)
{
    ((GuardProgram *)op)->inputs = count;
}
