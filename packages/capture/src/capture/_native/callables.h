/* Callables that begin and end sessions. */
#ifndef CAPTURE_CALLABLES_H
#define CAPTURE_CALLABLES_H
#include <Python.h>
extern PyTypeObject CompiledCallable_Type, DisabledCallable_Type;
#endif
