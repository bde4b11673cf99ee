/* Which frames' codes are being captured now: one capture at a time of a code for a session. */
#ifndef CAPTURE_CLAIM_H
#define CAPTURE_CLAIM_H
#include "cache.h"

typedef struct Claim Claim;

/* Another's capture of this code for the session that is under way; NULL if there is none. */
Claim *claim_find(PyThreadState *tstate, CodeCache *cache, PyObject *session);
/* Ours from now on, until claim_release; NULL with an exception. */
Claim *claim_take(PyThreadState *tstate, CodeCache *cache, PyObject *session);
void claim_release(CodeCache *cache, Claim *claim);
/* Waits until it is released: 1; 0 if that takes too long or could not end; -1 with an exception. */
int claim_wait(PyThreadState *tstate, Claim *claim);

#endif
