/* The Python type of guard programs: takes instructions only if they can be run safely. */
#include "compat.h"
#include "bindings.h"
#include "program.h"
#include "steps.h"
#include "watch.h"
#include <string.h>

/* What an operation uses: d destination, s source, t the destination as a second source, o an object. */
static const struct {
    const char *name, *uses;
} operations[] = {
    /* clang-format off */
    [LOCAL] = {"local", "d"}, [FREE] = {"free", "d"}, [FREE_CELL] = {"free_cell", "d"}, [ROOT] = {"root", "d"},
    [CONST] = {"const", "do"}, [ATTR] = {"attr", "dso"},
    [DICT_ATTR] = {"dict_attr", "dso"}, [INDEX] = {"index", "ds"}, [KEY] = {"key", "dso"},
    [TYPE_OF] = {"type_of", "ds"}, [KEY_AT] = {"key_at", "ds"}, [VALUE_AT] = {"value_at", "ds"}, [DEFAULT] = {"default", "ds"},
    [KWDEFAULT] = {"kwdefault", "dso"}, [CELL] = {"cell", "ds"}, [FUNC_GLOBAL] = {"func_global", "dso"},
    [TYPE_ENTRY] = {"type_entry", "dso"}, [REFERENT] = {"referent", "ds"}, [CLASS_DICT] = {"class_dict", "ds"},
    [APPLY] = {"apply", "dso"},
    [MADE] = {"made", "dso"},
    [GLOBALS] = {"globals", "d"}, [BUILTINS] = {"builtins", "d"}, [DEREF] = {"deref", "do"},
    [PINNED] = {"pinned", "d"}, [APART] = {"apart", "so"}, [BOUND] = {"bound", ""}, [WATCHED] = {"watched", ""},
    [NO_TYPE_ENTRY] = {"no_type_entry", "so"}, [EMPTY_CELL] = {"empty_cell", "s"},
    [TYPE] = {"type", "so"}, [TYPE_WEAK] = {"type_weak", "so"}, [IS] = {"is", "so"}, [IS_WEAK] = {"is_weak", "so"}, [IS_AT] = {"is_at", "s"},
    [EQUALS] = {"equals", "so"}, [TENSOR] = {"tensor", "so"}, [LEN] = {"len", "s"}, [DICT_KEYS] = {"dict_keys", "so"},
    [HAS_KEY] = {"has_key", "so"}, [NO_KEY] = {"no_key", "so"}, [NO_KEYS] = {"no_keys", "so"}, [EMPTY_AT] = {"empty_at", "so"}, [HAS_ATTR] = {"has_attr", "so"},
    [NO_ATTR] = {"no_attr", "so"}, [PREDICATE] = {"predicate", "so"}, [SAME] = {"same", "st"},
    [DISTINCT] = {"distinct", "o"}, [GRAD_MODE] = {"grad_mode", ""}, [STATE] = {"state", "o"},
    [CALL_EQUALS] = {"call_equals", "o"}, [SHAPE] = {"shape", "o"},
    /* clang-format on */
    [SHAPE_PREDICATE] = {"shape_predicate", "o"},
};

#define OPERATIONS ((int)(sizeof operations / sizeof operations[0]))

int
program_suits(PyObject *op, PyCodeObject *code)
{
    GuardProgram *self = (GuardProgram *)op;
    if (self->locals > code_argument_count(code) || self->frees > code->co_nfreevars) {
        PyErr_Format(PyExc_ValueError, "the guards read %zd arguments and %zd free variables; %U has %d and %d",
                     self->locals, self->frees, code->co_name, code_argument_count(code), code->co_nfreevars);
        return -1;
    }
    return 0;
}

PyObject *
program_text(PyObject *op, Py_ssize_t index)
{
    return PyObject_Str(PyTuple_GET_ITEM(((GuardProgram *)op)->texts, index));
}

/* ---- building ---- */

static int
register_of(PyObject *number, Py_ssize_t registers)
{
    Py_ssize_t reg = PyLong_AsSsize_t(number);
    if (reg < 0 || reg >= registers) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "no register %zd", reg);
        }
        return -1;
    }
    return (int)reg;
}

static Py_ssize_t
pins_of(const GuardProgram *self)
{
    return self->watched ? ((GuardProgram *)self->watched)->pins : 0;
}

/* A sequence of (steps, text). */
static int
build_conditions(const GuardProgram *self, Extra *extra, PyObject *body)
{
    PyObject *items = PySequence_Tuple(body);
    Py_ssize_t count = items ? PyTuple_GET_SIZE(items) : 0;
    extra->codes = items ? PyMem_Calloc(count + 1, sizeof(ShapeCode)) : NULL;
    extra->texts = items ? PyMem_Calloc(count + 1, sizeof(int)) : NULL;
    if (items && (extra->codes == NULL || extra->texts == NULL)) {
        PyErr_NoMemory();
    }
    int ok = extra->codes && extra->texts;
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *steps, *item = PyTuple_GET_ITEM(items, i);
        ok = PyTuple_Check(item) && PyArg_ParseTuple(item, "Oi", &steps, &extra->texts[i]);
        if (!ok || extra->texts[i] < 0 || extra->texts[i] >= PyTuple_GET_SIZE(self->texts)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "a shape's condition is (steps, text)");
            }
            ok = 0;
        }
        ok = ok && shape_compile(&extra->codes[i], steps, extra->count) == 0;
        extra->conditions += ok;
    }
    Py_XDECREF(items);
    return ok ? 0 : -1;
}

/* "distinct": a tuple of registers; "apart": of the watched program's. Shapes: (tuple of (register, what, dim), conditions or
   predicate). */
static int
build_extra(GuardProgram *self, Step *step)
{
    PyObject *inputs = step->object, *body = NULL;
    int plain = step->op == DISTINCT || step->op == APART;
    if (!plain && (!PyTuple_Check(step->object) ||
                   !PyArg_ParseTuple(step->object, "O!O", &PyTuple_Type, &inputs, &body))) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a shape's object is a tuple");
        }
        return -1;
    }
    if (!PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "distinct and apart take a tuple of registers");
        return -1;
    }
    Extra *extra = step->extra = PyMem_Calloc(1, sizeof(Extra));
    if (extra == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    extra->count = PyTuple_GET_SIZE(inputs);
    extra->inputs = PyMem_Calloc(extra->count + 1, sizeof(ShapeInput));
    if (extra->inputs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < extra->count; i++) {
        ShapeInput *input = &extra->inputs[i];
        PyObject *item = PyTuple_GET_ITEM(inputs, i), *number = item;
        if (!plain) {
            if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "Oin", &number, &input->what, &input->dim)) {
                if (!PyErr_Occurred()) {
                    PyErr_SetString(PyExc_TypeError, "a shape's input is (register, what, dim)");
                }
                return -1;
            }
            if (input->what < 0 || input->what > FLOAT || input->dim < 0) {
                PyErr_SetString(PyExc_ValueError, "a shape's input must name something to read");
                return -1;
            }
        }
        input->reg = register_of(number, step->op == APART ? pins_of(self) : self->registers);
        if (input->reg < 0) {
            return -1;
        }
    }
    if (step->op == SHAPE) {
        return build_conditions(self, extra, body);
    }
    extra->predicate = body;
    return 0;
}

static int
are_names(PyObject *object)
{
    int ok = PyTuple_Check(object);
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(object); i++) {
        ok = PyUnicode_CheckExact(PyTuple_GET_ITEM(object, i));
    }
    return ok;
}

static int
object_suits(const Step *step)
{
    PyObject *object = step->object;
    switch (step->op) {
    case ATTR:
    case DICT_ATTR:
    case KWDEFAULT:
    case FUNC_GLOBAL:
    case HAS_ATTR:
    case NO_ATTR:
    case TYPE_ENTRY:
    case NO_TYPE_ENTRY:
        return PyUnicode_Check(object);
    case TYPE_WEAK:
    case IS_WEAK:
    case DEREF:
        return PyWeakref_CheckRef(object);
    case KEY:
    case HAS_KEY:
    case NO_KEY:
        return step->number == 0 || PyWeakref_CheckRef(object);
    case APPLY:
        return PyFunction_Check(object);
    case TENSOR:
        return Py_IS_TYPE(object, &TensorSpec_Type);
    case DICT_KEYS:
        return PyTuple_Check(object);
    case NO_KEYS:
    case EMPTY_AT:
        return are_names(object);
    case STATE:
        return PyBytes_Check(object);
    case CALL_EQUALS:
        return PyTuple_Check(object) && PyTuple_GET_SIZE(object) == 3 &&
               PyTuple_Check(PyTuple_GET_ITEM(object, 1));
    default:
        return 1;
    }
}

static int
build_step(GuardProgram *self, Step *step, PyObject *item, char *written)
{
    const char *name;
    PyObject *object;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "an instruction is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(item, "siinOi", &name, &step->dst, &step->src, &step->number, &object, &step->text)) {
        return -1;
    }
    step->op = -1;
    for (int op = 0; op < OPERATIONS && step->op < 0; op++) {
        if (strcmp(operations[op].name, name) == 0) {
            step->op = op;
        }
    }
    if (step->op < 0) {
        PyErr_Format(PyExc_ValueError, "no guard operation %s", name);
        return -1;
    }
    step->object = Py_NewRef(object);
    self->looks += 1 + (are_names(object) ? PyTuple_GET_SIZE(object) : 0);
    const char *uses = operations[step->op].uses;
    int ok = step->text >= 0 && step->text < PyTuple_GET_SIZE(self->texts) && object_suits(step);
    if (strchr(uses, 's')) {
        ok = ok && step->src >= 0 && step->src < self->registers && written[step->src];
    }
    else {
        step->src = -1;
    }
    if (strchr(uses, 'd') || strchr(uses, 't')) {
        ok = ok && step->dst >= 0 && step->dst < self->registers;
    }
    if (strchr(uses, 't')) {
        ok = ok && written[step->dst];
    }
    if (step->op == LOCAL || step->op == FREE || step->op == FREE_CELL || step->op == ROOT) {
        Py_ssize_t *most = step->op == LOCAL ? &self->locals : step->op == ROOT ? &self->roots
                                                                                : &self->frees;
        ok = ok && step->number >= 0;
        *most = Py_MAX(*most, step->number + 1);
    }
    if (step->op == PINNED) {
        ok = ok && step->number >= 0 && step->number < pins_of(self);
    }
    if (step->op == PINNED || step->op == APART || step->op == WATCHED || step->op == BOUND) {
        ok = ok && self->watched != NULL;
    }
    if (step->op == WATCHED || step->op == BOUND) { /* the roots are the first registers */
        Py_ssize_t roots = self->watched ? ((GuardProgram *)self->watched)->roots : 0;
        for (Py_ssize_t i = 0; ok && i < roots; i++) {
            ok = i < self->registers && written[i];
        }
    }
    self->ends_quietly = step->op == WATCHED || (self->ends_quietly && (step->op == PINNED || step->op == APART ||
                                                                        step->op == SAME || step->op == DISTINCT));
    if (!ok) {
        PyErr_Format(PyExc_ValueError, "the guard instruction %R cannot be run", item);
        return -1;
    }
    if (strchr(uses, 'd')) {
        written[step->dst] = 1;
    }
    if (step->op == DISTINCT || step->op == SHAPE || step->op == SHAPE_PREDICATE || step->op == APART) {
        if (build_extra(self, step) < 0) {
            return -1;
        }
        for (Py_ssize_t i = 0; step->op != APART && i < step->extra->count; i++) {
            if (!written[step->extra->inputs[i].reg]) {
                PyErr_Format(PyExc_ValueError, "the guard instruction %R reads an unset register", item);
                return -1;
            }
        }
    }
    return 0;
}

/* One program's alone, read from constants and roots. */
static int
can_be_watched(const GuardProgram *self)
{
    return self->locals == 0 && self->frees == 0 && self->watched == NULL && self->bindings == NULL;
}

static PyObject *
program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"instructions", "texts", "registers", "watched", "pins", NULL};
    PyObject *instructions, *texts, *watched = Py_None;
    Py_ssize_t registers, pins = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOn|On:GuardProgram", names, &instructions, &texts, &registers,
                                     &watched, &pins)) {
        return NULL;
    }
    if (watched != Py_None && !Py_IS_TYPE(watched, &GuardProgram_Type)) {
        PyErr_SetString(PyExc_TypeError, "watched must be None or a GuardProgram");
        return NULL;
    }
    if (watched != Py_None && !can_be_watched((GuardProgram *)watched)) {
        PyErr_SetString(PyExc_ValueError, "what lives on is not read from a call's arguments");
        return NULL;
    }
    if (registers < 0 || registers > 1 << 24 || pins < 0 || pins > registers) {
        PyErr_SetString(PyExc_ValueError, "too few or too many registers or pins");
        return NULL;
    }
    GuardProgram *self = (GuardProgram *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    char *written = PyMem_Calloc(registers + 1, 1);
    PyObject *items = PySequence_Tuple(instructions);
    self->texts = PySequence_Tuple(texts);
    self->registers = registers;
    self->pins = pins;
    self->unwatched = -1;
    self->watched = watched == Py_None ? NULL : Py_NewRef(watched);
    self->steps = items ? PyMem_Calloc(PyTuple_GET_SIZE(items) + 1, sizeof(Step)) : NULL;
    if (items && (written == NULL || self->steps == NULL)) {
        PyErr_NoMemory();
    }
    int ok = items && self->texts && written && self->steps;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items); i++) {
        self->count = i + 1; /* for the clean-up, should the step fail half-way */
        ok = build_step(self, &self->steps[i], PyTuple_GET_ITEM(items, i), written) == 0;
    }
    Py_XDECREF(items);
    PyMem_Free(written);
    if (ok && self->watched) {
        GuardProgram *beneath = (GuardProgram *)self->watched;
        ok = (beneath->bindings = bindings_new(beneath->roots)) != NULL;
    }
    if (!ok) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
program_traverse(PyObject *op, visitproc visit, void *arg)
{
    GuardProgram *self = (GuardProgram *)op;
    Py_VISIT(self->texts);
    Py_VISIT(self->watched);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_VISIT(self->steps[i].object);
    }
    return 0;
}

static int
program_clear(PyObject *op)
{
    GuardProgram *self = (GuardProgram *)op;
    Py_ssize_t count = self->count;
    Step *steps = self->steps;
    self->count = 0;
    self->steps = NULL; /* it can't be run any more */
    for (Py_ssize_t i = 0; i < count; i++) {
        Extra *extra = steps[i].extra;
        if (extra) {
            for (Py_ssize_t at = 0; at < extra->conditions; at++) {
                shape_free(&extra->codes[at]);
            }
            PyMem_Free(extra->codes);
            PyMem_Free(extra->texts);
            PyMem_Free(extra->inputs);
            PyMem_Free(extra);
        }
        Py_XDECREF(steps[i].object);
    }
    PyMem_Free(steps);
    PyObject *bindings = self->bindings;
    self->bindings = NULL;
    if (bindings) {
        bindings_clear(bindings);
        Py_DECREF(bindings);
    }
    Py_CLEAR(self->watched);
    return 0;
}

static void
program_dealloc(PyObject *op)
{
    PyObject_GC_UnTrack(op);
    program_clear(op);
    Py_CLEAR(((GuardProgram *)op)->texts);
    Py_TYPE(op)->tp_free(op);
}

/* ---- for Python ---- */

static int
run_from_python(PyObject *op, PyObject *args, PyObject *kwargs, Py_ssize_t *result)
{
    static char *names[] = {"args", "func", "globals", "builtins", NULL};
    PyObject *values, *func = Py_None, *globals = Py_None, *builtins = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOO", names, &values, &func, &globals, &builtins)) {
        return -1;
    }
    PyObject *locals = PySequence_Tuple(values);
    if (locals == NULL) {
        return -1;
    }
    GuardProgram *self = (GuardProgram *)op;
    if (PyTuple_GET_SIZE(locals) < self->locals) {
        PyErr_Format(PyExc_ValueError, "the guards read %zd arguments, not %zd", self->locals,
                     PyTuple_GET_SIZE(locals));
        Py_DECREF(locals);
        return -1;
    }
    FrameSlot *slots = PyMem_Malloc((PyTuple_GET_SIZE(locals) + 1) * sizeof(FrameSlot));
    for (Py_ssize_t i = 0; slots && i < PyTuple_GET_SIZE(locals); i++) {
        slots[i] = borrowed_slot(PyTuple_GET_ITEM(locals, i));
    }
    GuardFrame frame = {slots, func, globals, builtins, NULL};
    *result = slots ? program_run(op, &frame, 0, NULL) : (PyErr_NoMemory(), GUARDS_ERROR);
    PyMem_Free(slots);
    Py_DECREF(locals);
    return *result == GUARDS_ERROR ? -1 : 0;
}

static PyObject *
program_check(PyObject *op, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t result;
    return run_from_python(op, args, kwargs, &result) < 0 ? NULL : PyBool_FromLong(result == GUARDS_HOLD);
}

static PyObject *
program_failing(PyObject *op, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t result;
    if (run_from_python(op, args, kwargs, &result) < 0) {
        return NULL;
    }
    return result == GUARDS_HOLD ? Py_NewRef(Py_None) : PyLong_FromSsize_t(result);
}

static PyObject *
program_explain(PyObject *op, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t result;
    if (run_from_python(op, args, kwargs, &result) < 0) {
        return NULL;
    }
    return result == GUARDS_HOLD ? Py_NewRef(Py_None) : program_text(op, result);
}

static PyMethodDef program_methods[] = {
    {"check", (PyCFunction)(void (*)(void))program_check, METH_VARARGS | METH_KEYWORDS,
     "check(args, func=None, globals=None, builtins=None): whether all guards hold."},
    {"failing", (PyCFunction)(void (*)(void))program_failing, METH_VARARGS | METH_KEYWORDS,
     "The index of the first guard that does not hold, or None."},
    {"explain_failure", (PyCFunction)(void (*)(void))program_explain, METH_VARARGS | METH_KEYWORDS,
     "The text of the first guard that does not hold, or None."},
    {NULL},
};

static PyObject *
program_points(PyObject *op, void *Py_UNUSED(closure))
{
    const GuardProgram *watched = (GuardProgram *)((GuardProgram *)op)->watched;
    if (watched == NULL || watched->bindings == NULL || bindings_count(watched->bindings) == 0) {
        Py_RETURN_NONE;
    }
    const Watch *last = bindings_last(watched->bindings);
    return PyLong_FromSsize_t(last ? watch_points(last) : -1);
}

static PyObject *
program_bindings(PyObject *op, void *Py_UNUSED(closure))
{
    const GuardProgram *watched = (GuardProgram *)((GuardProgram *)op)->watched;
    return PyLong_FromSsize_t(watched && watched->bindings ? bindings_count(watched->bindings) : 0);
}

static PyObject *
program_unwatched(PyObject *op, void *Py_UNUSED(closure))
{
    const GuardProgram *watched = (GuardProgram *)((GuardProgram *)op)->watched;
    return watched && watched->unwatched >= 0 ? program_text(op, watched->unwatched) : Py_NewRef(Py_None);
}

static PyObject *
program_verified(PyObject *op, void *Py_UNUSED(closure))
{
    const GuardProgram *watched = (GuardProgram *)((GuardProgram *)op)->watched;
    return PyLong_FromUnsignedLongLong(watched ? watched->verified : 0);
}

static PyObject *
program_texts(PyObject *op, void *Py_UNUSED(closure))
{
    Py_ssize_t count = PyTuple_GET_SIZE(((GuardProgram *)op)->texts);
    PyObject *told = PyTuple_New(count);
    for (Py_ssize_t i = 0; told && i < count; i++) {
        PyObject *text = program_text(op, i);
        if (text == NULL) {
            Py_CLEAR(told);
            break;
        }
        PyTuple_SET_ITEM(told, i, text);
    }
    return told;
}

static PyGetSetDef program_getset[] = {
    {"texts", program_texts, NULL, "The guards in words.", NULL},
    {"unwatched", program_unwatched, NULL, "The guard because of which what lives on is always verified in full, or None.",
     NULL},
    {"verified", program_verified, NULL, "How often what lives on was verified in full.", NULL},
    {"bindings", program_bindings, NULL, "For how many roots, or combinations of roots, what lives on was verified.", NULL},
    {"points", program_points, NULL, "How many points are watched for the roots bound last; -1: they are verified in full each time; None: not yet run.",
     NULL},
    {NULL},
};

PyTypeObject GuardProgram_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native.GuardProgram",
    .tp_basicsize = sizeof(GuardProgram),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Guards as a list of native operations over registers.",
    .tp_new = program_new,
    .tp_dealloc = program_dealloc,
    .tp_traverse = program_traverse,
    .tp_clear = program_clear,
    .tp_methods = program_methods,
    .tp_getset = program_getset,
};
