/* What is in force where: which session looks at the frames entered on a stack of calls. */
#ifndef CAPTURE_STACK_H
#define CAPTURE_STACK_H
#include "compat.h"
#include "install.h"

typedef struct StackThread StackThread;

/* What the process has compiled callables do, as `capture.stance` has it. */
enum { DO_CAPTURE,
       DO_NOTHING,
       DO_REUSE };
extern int stance;

/* One stack of Python calls on which something is in force. A thread has one, and one more for each greenlet that is
   within a compiled call: greenlets interleave in C, so that nothing about them may be a thread's. */
typedef struct Stack {
    PyObject *session;           /* held by the call that put it in force; NULL: look at nothing */
    PyObject *awaited;           /* borrowed: the function whose frame comes next and must be captured whole; or NULL */
    _PyFrameEvalFunction top;    /* the process's hook when the session was put in force: under another, frames are that
                                    one's to look at */
    const _PyStackChunk *anchor; /* lives as long as the innermost scope, and belongs to no other stack */
    int scopes;                  /* open ones; 0: free for the next call on any stack */
    int nested;                  /* frames running nested through the hook, each of which takes space on the C stack */
    struct Stash *stash;         /* of the innermost frame that runs an entry, in its C frame */
    int calls;                   /* compiled callables running nested, which take space there too */
    char disabled;               /* hold the hook back */
    char compiling;              /* within a session's callback: compiled callables run their plain function */
    StackThread *thread;
    struct Stack *next;
} Stack;

struct StackThread {
    Stack *current;      /* the one found last */
    Stack *stacks;       /* all; never empty, and at most the only one is free */
    int wants;           /* how many of `stacks` have a session */
    unsigned generation; /* the process's, when it was made: after a fork, those of other threads are stale */
    int over;            /* the thread is gone, its stacks suspended for ever */
};

/* What was in force before a call changed it; lives in the caller's C frame. */
typedef struct {
    Stack *stack; /* NULL: there was nothing to change */
    PyObject *session, *awaited;
    _PyFrameEvalFunction top;
    const _PyStackChunk *anchor;
    char disabled, compiling;
} Scope;

/* Of the thread state that looked last: cheaper than thread-local storage. Guarded by the GIL. */
extern struct LastThread {
    PyThreadState *tstate;
    StackThread *thread;
} last_thread;
extern unsigned fork_generation;
extern PyFunctionObject *nothing; /* does nothing */

/* This thread's, or NULL. */
StackThread *stack_thread_look_up(PyThreadState *tstate);
Stack *stack_search(StackThread *thread, PyThreadState *tstate);

static inline StackThread *
stack_thread(PyThreadState *tstate)
{
    return tstate == last_thread.tstate ? last_thread.thread : stack_thread_look_up(tstate);
}

/* The stack that this thread runs on now; NULL, or a free one, if nothing is in force on it. */
static inline Stack *
stack_here(PyThreadState *tstate)
{
    StackThread *thread = stack_thread(tstate);
    if (thread == NULL) {
        return NULL;
    }
    return thread->current->anchor == tstate->datastack_chunk ? thread->current : stack_search(thread, tstate);
}

/* A stack for the first scope of the one that this thread runs on now; NULL with an exception. */
Stack *stack_make(PyThreadState *tstate);
/* Of a stack with no scope left. */
void stack_free(Stack *stack);

static inline void
stack_put(Stack *stack, PyObject *session)
{
    int more = (session != NULL) - (stack->session != NULL);
    stack->session = session;
    if (more) {
        stack->thread->wants += more;
        hook_want(more);
    }
}

/* Puts a session (or NULL: none) in force until scope_end, which must follow on the same stack; `stack` is stack_here's
   answer. The caller keeps session and awaited function alive. -1 with an exception. */
static inline int
scope_begin(Scope *scope, PyThreadState *tstate, Stack *stack, PyObject *session, PyObject *awaited, int compiling)
{
    if (stack == NULL || stack->scopes == 0) {
        if (session == NULL && !compiling) {
            *scope = (Scope){.stack = NULL};
            return 0;
        }
        if (stack == NULL || tstate->datastack_chunk == NULL) {
            stack = stack_make(tstate);
            if (stack == NULL) {
                return -1;
            }
        }
    }
    scope->stack = stack;
    if (stack->scopes > 0) { /* else nothing is in force that could be put back */
        scope->session = stack->session;
        scope->awaited = stack->awaited;
        scope->top = stack->top;
        scope->anchor = stack->anchor;
        scope->disabled = stack->disabled;
        scope->compiling = stack->compiling;
    }
    stack->awaited = awaited;
    stack->anchor = tstate->datastack_chunk;
    stack->disabled = 0;
    stack->compiling = (char)compiling;
    stack->scopes++;
    stack_put(stack, session);
    stack->top = eval_frame_function(tstate->interp);
    return 0;
}

static inline void
scope_end(Scope *scope)
{
    Stack *stack = scope->stack;
    if (stack == NULL) {
        return;
    }
    if (--stack->scopes > 0) {
        stack_put(stack, scope->session);
        stack->awaited = scope->awaited;
        stack->top = scope->top;
        stack->anchor = scope->anchor;
        stack->disabled = scope->disabled;
        stack->compiling = scope->compiling;
        return;
    }
    stack_put(stack, NULL);
    stack->awaited = NULL;
    stack->disabled = stack->compiling = 0;
    if (stack->next || stack->thread->stacks != stack) {
        stack_free(stack);
    }
}

int stack_init(void);

#endif
