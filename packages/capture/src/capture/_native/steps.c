/* Single steps of a guard program, for a watch that looks again. */
#include "checks.h"
#include "reads.h"

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

Py_ssize_t
step_failed(const Step *step, PyObject *const *regs)
{
    if (step->op != SHAPE || step->extra->conditions == 0) {
        return step->text;
    }
    Py_ssize_t failed = 0;
    if (shape_holds(step, regs, &failed) < 0) {
        PyErr_Clear(); /* it failed for the same reason, which was reported then */
    }
    return step->extra->texts[failed];
}
