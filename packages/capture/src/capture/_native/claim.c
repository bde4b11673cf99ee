/* Captures under way. Who finds its code claimed by another thread runs eagerly, or waits if its session says so. The
   wait has an end: what is captured may need a lock that the waiting thread holds, and capturing twice does no harm. */
#include "stack.h"
#include "claim.h"

struct Claim {
    Claim *next;
    PyObject *session; /* borrowed: in force while its capture runs */
    StackThread *thread;
    unsigned generation;
    int users;               /* its maker, and those who wait */
    int over;
    PyThread_type_lock lock; /* held while the capture runs; NULL until someone waits */
};

static void
drop(Claim *claim)
{
    if (--claim->users == 0) {
        if (claim->lock) {
            PyThread_free_lock(claim->lock);
        }
        PyMem_Free(claim);
    }
}

/* What another thread had claimed before this process was forked, nobody will release. */
static int
will_end(PyThreadState *tstate, const Claim *claim)
{
    return claim->thread == stack_thread(tstate) || (claim->generation == fork_generation && !claim->thread->over);
}

Claim *
claim_find(PyThreadState *tstate, CodeCache *cache, PyObject *session)
{
    for (Claim *claim = cache ? cache->claims : NULL; claim; claim = claim->next) {
        if (claim->session == session && will_end(tstate, claim)) {
            return claim;
        }
    }
    return NULL;
}

Claim *
claim_take(PyThreadState *tstate, CodeCache *cache, PyObject *session)
{
    Claim *claim = PyMem_Calloc(1, sizeof *claim);
    if (claim == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *claim = (Claim){cache->claims, session, stack_thread(tstate), fork_generation, 1, 0, NULL};
    return cache->claims = claim;
}

void
claim_release(CodeCache *cache, Claim *claim)
{
    Claim **link = &cache->claims;
    while (*link != claim) {
        link = &(*link)->next;
    }
    *link = claim->next;
    claim->over = 1;
    if (claim->lock) {
        PyThread_release_lock(claim->lock);
    }
    drop(claim);
}

/* Seconds after which it is seen that a signal came just before a wait, which it then did not interrupt. */
#define SLICE 0.05

int
claim_wait(PyThreadState *tstate, Claim *claim)
{
    if (claim->thread == stack_thread(tstate)) {
        return 0; /* another greenlet of this thread, which would have to run first */
    }
    claim->users++;
    PyObject *longest = get_attribute(claim->session, "longest_wait");
    double seconds = longest ? PyFloat_AsDouble(longest) : -1;
    Py_XDECREF(longest);
    if (claim->lock == NULL && !PyErr_Occurred()) {
        claim->lock = PyThread_allocate_lock();
        if (claim->lock == NULL) {
            PyErr_NoMemory();
        }
        else if (!claim->over) {
            PyThread_acquire_lock(claim->lock, NOWAIT_LOCK);
        }
    }
    if (PyErr_Occurred()) {
        drop(claim);
        return -1;
    }
    PyLockStatus status = PY_LOCK_FAILURE;
    int signalled = 0;
    for (double left = Py_MAX(seconds, 0); status == PY_LOCK_FAILURE && left > 0 && !signalled; left -= SLICE) {
        Py_BEGIN_ALLOW_THREADS
        status = PyThread_acquire_lock_timed(claim->lock, (PY_TIMEOUT_T)(Py_MIN(left, SLICE) * 1e6), 1);
        if (status == PY_LOCK_ACQUIRED) {
            PyThread_release_lock(claim->lock); /* for the next who waits */
        }
        Py_END_ALLOW_THREADS
        signalled = PyErr_CheckSignals() < 0;
    }
    drop(claim);
    return signalled ? -1 : status != PY_LOCK_FAILURE; /* or look again */
}
