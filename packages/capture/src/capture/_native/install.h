/* The hook as the process has it: installed while any stack of any thread has a session in force. */
#ifndef CAPTURE_INSTALL_H
#define CAPTURE_INSTALL_H
#include "compat.h"

extern struct Installed {
    PyInterpreterState *interpreter; /* the one that imported us; others never get the hook */
    _PyFrameEvalFunction hook;       /* ours */
    _PyFrameEvalFunction beneath;    /* the one that was there before it, NULL for none */
    int wanted;                      /* by so many stacks of all threads; guarded by the GIL */
    Frame *passed_on;                /* the one handed to `beneath` last, until that has run it */
} installed;

void install_init(_PyFrameEvalFunction hook);
void hook_install(void);
void hook_uninstall(void);

/* So many more stacks want the hook, or fewer. */
static inline void
hook_want(int more)
{
    int before = installed.wanted;
    installed.wanted += more;
    if (before == 0 && more > 0) {
        hook_install();
    }
    else if (installed.wanted == 0 && more < 0) {
        hook_uninstall();
    }
}

/* In a forked child: how many are left. */
void hook_forked(int wants);

/* The hook beneath ours may have been put over ours meanwhile: then it hands the frame back, and would for ever. */
static inline int
comes_back(const Frame *frame)
{
    return installed.passed_on == frame;
}

/* The frame as it is, by the evaluator beneath our hook. */
static inline PyObject *
run_plain(PyThreadState *tstate, Frame *frame, int throwing)
{
    _PyFrameEvalFunction beneath = installed.beneath;
    if (!beneath) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwing);
    }
    Frame *before = installed.passed_on; /* one that `beneath` has not handed back yet */
    installed.passed_on = frame;
    PyObject *result = beneath(tstate, frame, throwing);
    installed.passed_on = before; /* another frame may have this one's place */
    return result;
}

#endif
