/* Sessions in force, by stack of calls. Every stack (of a thread, of a greenlet) keeps its Python frames in memory
   chunks of its own, which the interpreter's thread state names and a switch of greenlets exchanges: a stack is known
   by the chunk that was on top when its innermost scope began, which can't be freed before that scope ends. */
#include "stack.h"
#ifndef _WIN32
#include <pthread.h>
#endif

struct LastThread last_thread;
int stance = DO_CAPTURE;
unsigned fork_generation;
PyFunctionObject *nothing;

static _Thread_local StackThread *own;
static const char capsule_name[] = "capture._native.thread";

Stack *
stack_search(StackThread *thread, PyThreadState *tstate)
{
    Stack *first = thread->current;
    for (int others = 0; others < 2; others++) {
        if (others ? thread->stacks->next == NULL : first->scopes == 0) {
            return NULL; /* only this one, or none in use */
        }
        for (const _PyStackChunk *chunk = tstate->datastack_chunk; chunk; chunk = chunk->previous) {
            if (chunk == first->anchor) {
                return first;
            }
            for (Stack *stack = others ? thread->stacks : NULL; stack; stack = stack->next) {
                if (stack->anchor == chunk) {
                    return thread->current = stack;
                }
            }
        }
    }
    return NULL;
}

/* ---- what a thread has ---- */

StackThread *
stack_thread_look_up(PyThreadState *tstate)
{
    if (own) {
        last_thread = (struct LastThread){tstate, own};
    }
    return own;
}

/* The thread is over. A greenlet left suspended within a compiled call never returns: what it wanted goes with it. */
static void
thread_free(PyObject *capsule)
{
    StackThread *thread = PyCapsule_GetPointer(capsule, capsule_name);
    if (own == thread) {
        own = NULL;
    }
    if (last_thread.thread == thread) {
        last_thread = (struct LastThread){NULL, NULL};
    }
    if (thread->generation == fork_generation) {
        hook_want(-thread->wants);
    }
    thread->over = thread->stacks->scopes != 0;
    if (!thread->over) { /* else suspended calls hold pointers into it */
        PyMem_Free(thread->stacks);
        PyMem_Free(thread);
    }
}

static Stack *
stack_add(StackThread *thread)
{
    Stack *stack = PyMem_Calloc(1, sizeof *stack);
    if (stack == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    stack->thread = thread;
    stack->next = thread->stacks;
    return thread->stacks = thread->current = stack;
}

static StackThread *
thread_make(void)
{
    PyObject *dict = PyThreadState_GetDict(); /* borrowed; cleared with the thread state */
    StackThread *thread = dict ? PyMem_Calloc(1, sizeof *thread) : NULL;
    if (thread == NULL || stack_add(thread) == NULL) {
        PyMem_Free(thread);
        return PyErr_Occurred() ? NULL : (StackThread *)PyErr_NoMemory();
    }
    thread->generation = fork_generation;
    PyObject *capsule = PyCapsule_New(thread, capsule_name, thread_free);
    if (capsule == NULL) {
        PyMem_Free(thread->stacks);
        PyMem_Free(thread);
        return NULL;
    }
    own = thread;
    PyObject *key = PyLong_FromVoidPtr(&own);
    int done = key ? PyDict_SetItem(dict, key, capsule) : -1;
    Py_XDECREF(key);
    Py_DECREF(capsule);
    return done < 0 ? NULL : thread;
}

Stack *
stack_make(PyThreadState *tstate)
{
    StackThread *thread = stack_thread(tstate);
    if (thread == NULL) {
        thread = thread_make();
        if (thread == NULL) {
            return NULL;
        }
    }
    if (tstate->datastack_chunk == NULL) { /* not a Python frame yet: the first chunk stays */
        PyObject *none = PyObject_CallNoArgs((PyObject *)nothing);
        if (none == NULL) {
            return NULL;
        }
        Py_DECREF(none);
    }
    return thread->current->scopes == 0 ? thread->current : stack_add(thread);
}

void
stack_free(Stack *stack)
{
    StackThread *thread = stack->thread;
    Stack **link = &thread->stacks;
    while (*link != stack) {
        link = &(*link)->next;
    }
    *link = stack->next;
    if (thread->current == stack) {
        thread->current = thread->stacks;
    }
    PyMem_Free(stack);
}

/* ---- fork ---- */

/* In a forked child the other threads are gone, and so is what they wanted. */
static void
after_fork(void)
{
    fork_generation++;
    if (own) {
        own->generation = fork_generation;
    }
    hook_forked(own ? own->wants : 0);
}

int
stack_init(void)
{
    PyObject *space = PyDict_New();
    PyObject *done = space ? PyRun_String("def nothing(): pass", Py_file_input, space, space) : NULL;
    nothing = done ? (PyFunctionObject *)Py_XNewRef(PyDict_GetItemString(space, "nothing")) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(space);
#ifndef _WIN32
    pthread_atfork(NULL, NULL, after_fork);
#endif
    return nothing ? 0 : -1;
}
