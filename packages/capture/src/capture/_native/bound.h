/* Graphs with the inputs that live on put in. */
#ifndef CAPTURE_BOUND_H
#define CAPTURE_BOUND_H
#include <Python.h>
extern PyTypeObject BoundGraph_Type;
#endif
