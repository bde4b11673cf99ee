/* Looking things up as the interpreter has them, with nothing of the program run. */
#ifndef CAPTURE_LOOKUPS_H
#define CAPTURE_LOOKUPS_H
#include <Python.h>

PyObject *class_entry(PyObject *module, PyObject *args);
PyObject *keys_act(PyObject *module, PyObject *dict);
PyObject *annotations_held(PyObject *module, PyObject *function);
PyObject *check_bound(PyObject *module, PyObject *args);
PyObject *check_initialised(PyObject *module, PyObject *result);
PyObject *annotate_with(PyObject *module, PyObject *args);  /* from 3.14 */
PyObject *special_method(PyObject *module, PyObject *args); /* from 3.14 */
PyObject *is_over(PyObject *module, PyObject *frame);
PyObject *is_overridden(PyObject *module, PyObject *function);

#endif
