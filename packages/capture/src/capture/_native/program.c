/* Running guard programs: linear code over registers. Every read holds a reference until the end, since a property or
   a predicate may run Python in between. What cannot be read fails its guard; only exits and interrupts propagate. */
#include "compat.h"
#include "bindings.h"
#include "checks.h"
#include "program.h"
#include "reads.h"
#include "steps.h"
#include "watch.h"
#include <string.h>

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
    PyObject *const *pins = watch_pins(watch); /* hundreds, for each tensor that is given */
    for (Py_ssize_t i = 0; i < extra->count; i++) {
        if (pins[extra->inputs[i].reg] == value) {
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
            return swallow_exception() < 0 ? GUARDS_ERROR : step_failed(step, regs);
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

/* In full, with what it looks at taken down into `*made`; before that in full as it is where `doubtful`, since what most
   likely fails would be taken down in vain. */
static Py_ssize_t
verify(GuardProgram *self, const GuardFrame *frame, int doubtful, Watch **made)
{
    Registers registers;
    Watch *none = NULL;
    if (!can_run(self) || registers_begin(&registers, self->registers) < 0) {
        return GUARDS_ERROR;
    }
    Py_ssize_t first = doubtful ? run_steps(self, frame, &registers, NULL, 0, &none) : GUARDS_HOLD;
    if (first != GUARDS_HOLD || !can_run(self)) {
        registers_end(&registers);
        return first != GUARDS_HOLD ? first : GUARDS_ERROR;
    }
    Watch *watch = watch_new(self->looks, self->registers, self->pins);
    Py_ssize_t result = watch ? run_steps(self, frame, &registers, watch, 0, &none) : GUARDS_ERROR;
    while (registers.used < self->pins) {
        register_set(&registers, registers.used, NULL);
    }
    if (result == GUARDS_HOLD && watch_seal(watch, registers.regs, frame) < 0) {
        result = swallow_exception() < 0 ? GUARDS_ERROR : self->steps[self->count - 1].text; /* all had held */
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
    int doubtful = watch != NULL;
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
    Py_ssize_t result = verify(self, frame, doubtful, &made);
    if (self->bindings == NULL) { /* what was looked at has brought the collector here */
        watch_drop(made);
        return result == GUARDS_HOLD && !can_run(self) ? GUARDS_ERROR : result;
    }
    if (result != GUARDS_HOLD) {
        return result; /* the watch stays: what changed may be undone */
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
                PyErr_Format(PyExc_RuntimeError, "gone while it was about to be used: %S",
                             PyTuple_GET_ITEM(self->texts, step->text));
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
