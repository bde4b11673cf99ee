/* Watches. What lives on (modules, their dictionaries, classes, functions) is not read again at each call: version tags
   and pointers tell whether anything that was looked at has changed since.

   Points keep nothing alive but constants. They are looked at in the order in which they were read, each object after the one that
   holds it: while the holder is unchanged the object lives. A point whose tag changed compares just what was read of it;
   if that is the same object still, the new tag is taken and all goes on. */
#include "compat.h"
#include "points.h"
#include "sweep.h"

/* ---- the end of the taking down ---- */

/* Those that may run Python to the end; the order is kept otherwise. */
static int
sort_points(Watch *watch)
{
    Point *sorted = PyMem_Calloc(watch->count + 1, sizeof(Point));
    if (sorted == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t at = 0;
    for (int late = 0; late < 2; late++) {
        for (Py_ssize_t i = 0; i < watch->count; i++) {
            if ((watch->points[i].kind >= READ_AGAIN) == late) {
                sorted[at++] = watch->points[i];
            }
        }
        if (!late) {
            watch->late = (int)at;
        }
    }
    PyMem_Free(watch->points);
    watch->points = sorted;
    return 0;
}

int
watch_seal(Watch *watch, PyObject *const *pins, const GuardFrame *frame)
{
    if (!watch->unwatchable) {
        PyMem_Free(watch->found);
        watch->found = NULL;
        if (sort_points(watch) < 0) {
            return -1;
        }
        PyObject **constant = PyMem_Realloc(watch->constant, (watch->constants + 1) * sizeof(PyObject *));
        watch->constant = constant ? constant : watch->constant;
        Part *fewer = PyMem_Realloc(watch->part, (watch->parts + 1) * sizeof(Part));
        watch->part = fewer ? fewer : watch->part;
        watch->doubt = 1;
        /* All of it is alive still. What a check of ours changed must not be taken for what was looked at. */
        int holds = watch_holds(watch, frame);
        if (holds < 0) {
            return -1;
        }
        watch->unwatchable = !holds;
        if (holds && (watch_listen(watch) < 0 || sweep_make(watch) < 0)) {
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < watch->pins; i++) {
        watch->pin[i] = watch->unwatchable ? Py_XNewRef(pins[i]) : pins[i];
    }
    PyObject **kept = watch->kept;
    watch->kept = NULL;
    for (Py_ssize_t i = 0; i < watch->held; i++) {
        Py_DECREF(kept[i]);
    }
    PyMem_Free(kept);
    return 0;
}

/* ---- looking whether all is as it was ---- */

static int
all_early_hold(Watch *watch, const GuardFrame *frame)
{
    int holds = 1;
    for (int i = 0; holds == 1 && i < watch->late; i++) {
        holds = point_holds(watch, &watch->points[i], frame);
    }
    return holds;
}

static int
late_holds(const Point *at, const GuardFrame *frame)
{
    Step step = *at->is.again.step;
    step.src = 0;
    PyObject *source = at->object;
    if (at->kind == CHECK_AGAIN) {
        return step_check(&step, &source);
    }
    PyObject *value = step_read(&step, &source, frame);
    int same = value == at->is.again.value;
    Py_XDECREF(value);
    return PyErr_Occurred() ? -1 : same;
}

static int
all_late_hold(Watch *watch, const GuardFrame *frame)
{
    int holds = 1;
    for (Py_ssize_t i = watch->late; i < watch->count; i++) {
        Py_INCREF(watch->points[i].object);
    }
    for (Py_ssize_t i = watch->late; holds == 1 && i < watch->count; i++) {
        holds = late_holds(&watch->points[i], frame);
    }
    for (Py_ssize_t i = watch->late; i < watch->count; i++) {
        Py_DECREF(watch->points[i].object);
    }
    return holds;
}

int
watch_stands(Watch *watch, const GuardFrame *frame)
{
    if (watch->unwatchable || watch->gone) {
        return 0;
    }
    if (!watch->doubt) {
        return sweep_holds(watch, frame);
    }
    int holds = all_early_hold(watch, frame);
    watch->doubt = holds != 1;
    return holds;
}

int
watch_is_quiet(const Watch *watch)
{
    return !watch->unwatchable && watch->late == watch->count;
}

int
watch_holds(Watch *watch, const GuardFrame *frame)
{
    int stands = watch_stands(watch, frame);
    if (stands != 1 || watch->late == watch->count) {
        return stands;
    }
    watch_share(watch); /* what runs there may drop the program */
    int holds = all_late_hold(watch, frame);
    watch_drop(watch);
    return holds;
}

PyObject *
watch_pin(const Watch *watch, Py_ssize_t number)
{
    return watch->pin[number];
}

PyObject *const *
watch_pins(const Watch *watch)
{
    return watch->pin;
}

int
watch_reason(const Watch *watch)
{
    return watch->reason;
}

Py_ssize_t
watch_points(const Watch *watch)
{
    return watch->unwatchable ? -1 : watch->count;
}

/* ---- owning ---- */

Py_ssize_t watches;

Watch *
watch_new(Py_ssize_t looks, Py_ssize_t registers, Py_ssize_t pins)
{
    Watch *watch = PyMem_Calloc(1, sizeof(Watch));
    if (watch == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    watches++;
    watch->owners = 1;
    watch->reason = -1;
    watch->capacity = 6 * looks + 6; /* no place has more points */
    watch->pins = pins;
    watch->table = 64;
    while (watch->table < 2 * (size_t)watch->capacity) {
        watch->table *= 2;
    }
    watch->points = PyMem_Calloc(watch->capacity, sizeof(Point));
    watch->part = PyMem_Calloc(watch->capacity, sizeof(Part));
    watch->kept = PyMem_Calloc(watch->capacity, sizeof(PyObject *));
    watch->constant = PyMem_Calloc(watch->capacity, sizeof(PyObject *));
    watch->pin = PyMem_Calloc(pins + 1, sizeof(PyObject *));
    watch->found = PyMem_Calloc(watch->table, sizeof(int));
    watch->loose = PyMem_Calloc(registers + 1, 1);
    if (!watch->points || !watch->part || !watch->kept || !watch->constant || !watch->pin || !watch->found || !watch->loose) {
        watch_drop(watch);
        PyErr_NoMemory();
        return NULL;
    }
    return watch;
}

Watch *
watch_share(Watch *watch)
{
    watch->owners++;
    return watch;
}

void
watch_drop(Watch *watch)
{
    if (watch == NULL || --watch->owners > 0) {
        return;
    }
    for (Py_ssize_t i = 0; watch->kept && i < watch->held; i++) {
        Py_DECREF(watch->kept[i]);
    }
    for (Py_ssize_t i = 0; watch->unwatchable && i < watch->pins; i++) {
        Py_XDECREF(watch->pin[i]);
    }
    watches--;
    watch_unlisten(watch);
    PyMem_Free(watch->points);
    sweep_free(&watch->sweep);
    PyMem_Free(watch->part);
    for (Py_ssize_t i = 0; i < watch->constants; i++) {
        Py_DECREF(watch->constant[i]);
    }
    PyMem_Free(watch->constant);
    PyMem_Free(watch->kept);
    PyMem_Free(watch->pin);
    PyMem_Free(watch->found);
    PyMem_Free(watch->loose);
    PyMem_Free(watch);
}
