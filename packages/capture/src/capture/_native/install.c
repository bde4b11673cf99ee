/* Putting the frame hook into the interpreter and taking it out, beside hooks of others. */
#include "install.h"

struct Installed installed;

static int buried; /* someone installed a hook over ours, which passes frames on to us */

void
hook_install(void)
{
    _PyFrameEvalFunction current = eval_frame_function(installed.interpreter);
    if (current == installed.hook || (buried && current != _PyEval_EvalFrameDefault && current != installed.beneath)) {
        return; /* to put ours over theirs, which calls ours, would never end */
    }
    buried = 0;
    installed.beneath = current == _PyEval_EvalFrameDefault ? NULL : current;
    _PyInterpreterState_SetEvalFrameFunc(installed.interpreter, installed.hook);
}

void
hook_uninstall(void)
{
    _PyFrameEvalFunction beneath = installed.beneath;
    buried = eval_frame_function(installed.interpreter) != installed.hook;
    if (!buried) {
        _PyInterpreterState_SetEvalFrameFunc(installed.interpreter, beneath ? beneath : _PyEval_EvalFrameDefault);
    }
}

void
install_init(_PyFrameEvalFunction hook)
{
    installed.interpreter = PyInterpreterState_Get();
    installed.hook = hook;
}

void
hook_forked(int wants)
{
    installed.wanted = wants; /* the other threads are gone; if none is left the hook goes after its next use */
}
