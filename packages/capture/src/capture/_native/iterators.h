/* Where iterators of itertools are. */
#ifndef CAPTURE_ITERATORS_H
#define CAPTURE_ITERATORS_H
#include <Python.h>

/* Of a count what comes and the step; of a cycle what it goes over, what it gave, where it is in that and whether that is
   all; of an islice what it goes over, the next place, the last, the step and how many it took; of a product the
   pools, the places in them of what was given last, whether anything was and whether it is over. None of others. */
PyObject *iterator_state(PyObject *module, PyObject *value);

#endif
