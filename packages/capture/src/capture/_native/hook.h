/* The frame hook and the state of the thread that it looks at. */
#ifndef CAPTURE_HOOK_H
#define CAPTURE_HOOK_H
#include <Python.h>

typedef struct {
    PyObject *session; /* borrowed from the running CompiledCallable; NULL: look at nothing */
    int disabled;
    int compiling; /* within a session's callback */
    int installs;  /* how many of this thread's calls want the hook installed now */
    int depth;     /* how many frames run nested through the hook, each of which takes room on the C stack */
    PyObject *awaited; /* borrowed: the function whose frame must come next and be captured whole; NULL: none */
} HookThread;

extern _Thread_local HookThread hook_thread;

/* The hook is installed while any thread wants it; each call counts one up or down. */
void hook_want(HookThread *thread);
void hook_unwant(HookThread *thread);
/* Takes all of this thread's wants back, for a stretch of foreign code; resume with the result. */
int hook_suspend(HookThread *thread);
void hook_resume(HookThread *thread, int wants);

/* Asks the session for the exception that says why a callable was not captured whole; always NULL. */
PyObject *hook_broken_promise(PyObject *session, PyObject *code_or_none, const char *reason);

int hook_init(PyObject *module);
PyObject *hook_stats(PyObject *module, PyObject *ignored);

#endif
