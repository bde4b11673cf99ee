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
