/* Differences between CPython 3.11, 3.12, 3.13 and 3.14 in frames, frame evaluation and code extras.
   The only file that names internal structs of the interpreter. */
#ifndef CAPTURE_COMPAT_H
#define CAPTURE_COMPAT_H

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>
#undef _PyGC_FINALIZED /* pycore_gc.h defines it again */
#include <frameobject.h>
#include "internal/pycore_code.h"
#include "internal/pycore_context.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_object.h"
#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_ceval.h"
#include "internal/pycore_interpframe.h"
#include "internal/pycore_stackref.h"
#endif

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030F0000
#error "capture supports CPython 3.11 to 3.14"
#endif
#ifdef Py_GIL_DISABLED
#error "capture does not work on free-threaded builds of Python: use one with the GIL"
#endif

typedef struct _PyInterpreterFrame Frame;

/* What a frame holds its code, its locals and its stack in. From 3.14 that is a reference with tags, which may be borrowed: of
   objects that live for ever, and of locals that the compiler knows to stay while they are used. */
#if PY_VERSION_HEX >= 0x030E0000
typedef _PyStackRef FrameSlot;
#define EMPTY_SLOT PyStackRef_NULL
/* Borrowed; NULL for none, which is a tag and nothing else. */
static inline PyObject *
slot_object(FrameSlot slot)
{
    return PyStackRef_AsPyObjectBorrow(slot);
}
#define borrowed_slot(object) PyStackRef_FromPyObjectBorrow(object)

static inline PyCodeObject *
frame_code(const Frame *frame)
{
    return (PyCodeObject *)PyStackRef_AsPyObjectBorrow(frame->f_executable);
}

/* Steals the new code; the old one is the caller's from then on. */
static inline PyCodeObject *
frame_exchange_code(Frame *frame, PyCodeObject *code)
{
    PyObject *old = PyStackRef_AsPyObjectSteal(frame->f_executable);
    frame->f_executable = PyStackRef_FromPyObjectSteal((PyObject *)code);
    return (PyCodeObject *)old;
}
#define frame_func(f) PyStackRef_AsPyObjectBorrow((f)->f_funcobj)
#define frame_point_at(f, co, unit) ((f)->instr_ptr = _PyCode_CODE(co) + (unit))
/* How many of the frame's slots are in use. */
#define frame_set_top(f, count) ((f)->stackpointer = (f)->localsplus + (count))
#else
typedef PyObject *FrameSlot;
#define EMPTY_SLOT NULL
#define slot_object(slot) (slot)
#define borrowed_slot(object) (object)
#define frame_set_top(f, count) ((f)->stacktop = (count))

#if PY_VERSION_HEX >= 0x030D0000
#define frame_code(f) ((PyCodeObject *)(f)->f_executable)
#define frame_set_code(f, co) ((f)->f_executable = (PyObject *)(co))
#define frame_func(f) ((PyObject *)(f)->f_funcobj)
#define frame_point_at(f, co, unit) ((f)->instr_ptr = _PyCode_CODE(co) + (unit))
#elif PY_VERSION_HEX >= 0x030C0000
#define frame_code(f) ((f)->f_code)
#define frame_set_code(f, co) ((f)->f_code = (co))
#define frame_func(f) ((PyObject *)(f)->f_funcobj)
/* Until 3.12 the frame remembers the unit before the next one. */
#define frame_point_at(f, co, unit) ((f)->prev_instr = _PyCode_CODE(co) + (unit) - 1)
#else
#define frame_code(f) ((f)->f_code)
#define frame_set_code(f, co) ((f)->f_code = (co))
#define frame_func(f) ((PyObject *)(f)->f_func)
#define frame_point_at(f, co, unit) ((f)->prev_instr = _PyCode_CODE(co) + (unit) - 1)
#endif

static inline PyCodeObject *
frame_exchange_code(Frame *frame, PyCodeObject *code)
{
    PyCodeObject *old = frame_code(frame);
    frame_set_code(frame, code);
    return old;
}
#endif

#if PY_VERSION_HEX >= 0x030C0000
#define code_set_extra PyUnstable_Code_SetExtra
#define request_extra_index PyUnstable_Eval_RequestCodeExtraIndex
#define code_frame_size(co) ((Py_ssize_t)(co)->co_framesize)
/* From 3.12 the evaluator, and so the hook, clears and pops the frame; before, its caller did. */
#define HOOK_OWNS_FRAME 1
#else
#define code_set_extra _PyCode_SetExtra
#define request_extra_index _PyEval_RequestCodeExtraIndex
#define code_frame_size(co) ((Py_ssize_t)((co)->co_nlocalsplus + (co)->co_stacksize + FRAME_SPECIALS_SIZE))
#define HOOK_OWNS_FRAME 0
#endif

/* The frame-evaluation function in force. */
static inline _PyFrameEvalFunction
eval_frame_function(const PyInterpreterState *interpreter)
{
    return interpreter->eval_frame ? interpreter->eval_frame : _PyEval_EvalFrameDefault;
}

/* The frame that the thread runs, for whatever walks the stack. */
#if PY_VERSION_HEX >= 0x030D0000
#define current_frame_of(t) ((t)->current_frame)
#else
#define current_frame_of(t) ((t)->cframe->current_frame)
#endif

/* Takes the caller's reference to one of so many arguments of a call by position, where None is left: the caller is a frame that has
   them on top of its value stack. From 3.14 the callee is given copies. */
static inline PyObject *
take_argument(PyObject *const *given, Py_ssize_t count, Py_ssize_t i)
{
#if PY_VERSION_HEX >= 0x030E0000
    FrameSlot *slot = &current_frame_of(PyThreadState_Get())->stackpointer[i - count];
    if (slot_object(*slot) != given[i]) {
        return Py_NewRef(given[i]);
    }
    PyObject *taken = PyStackRef_AsPyObjectSteal(*slot);
    *slot = PyStackRef_None;
    return taken;
#else
    (void)count;
    PyObject *taken = given[i];
    ((PyObject **)given)[i] = Py_NewRef(Py_None);
    return taken;
#endif
}

/* What `co_extra` points to; the interpreter's own definition is in no header. */
typedef struct {
    Py_ssize_t size;
    void *extras[];
} CodeExtras;

/* How many more frames the thread may nest. */
#if PY_VERSION_HEX >= 0x030E0000
#define frames_remaining(t) ((t)->py_recursion_remaining)
/* From 3.14 the C stack is measured, and nothing about it is counted. */
#define uncount_c_call(t) ((void)(t))
#define count_c_call(t) ((void)(t))
#elif PY_VERSION_HEX >= 0x030C0000
#define frames_remaining(t) ((t)->py_recursion_remaining)
/* Python code entered from C is counted apart too, to few: 3.12.0 stops at 800. What is bounded as a call of Python
   alone takes its count back. */
#define uncount_c_call(t) ((t)->c_recursion_remaining++)
#define count_c_call(t) ((t)->c_recursion_remaining--)
#else
#define frames_remaining(t) ((t)->recursion_remaining)
#define uncount_c_call(t) ((void)(t))
#define count_c_call(t) ((void)(t))
#endif

/* Whether something follows the lines that this thread runs: a trace function, or a debugger's or coverage's monitor. */
static inline int
is_traced(PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030C0000
    const uint8_t *tools = tstate->interp->monitors.tools;
    return tstate->c_tracefunc != NULL || ((tools[PY_MONITORING_EVENT_PY_START] | tools[PY_MONITORING_EVENT_LINE]) & 3);
#else
    return tstate->c_tracefunc != NULL;
#endif
}

/* How many locals are bound at entry. */
static inline int
code_argument_count(const PyCodeObject *co)
{
    return co->co_argcount + co->co_kwonlyargcount + !!(co->co_flags & CO_VARARGS) +
           !!(co->co_flags & CO_VARKEYWORDS);
}

/* The code of a function of any kind, not of a module's or class's body. */
static inline int
code_is_function(const PyCodeObject *co)
{
    return (co->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) == (CO_OPTIMIZED | CO_NEWLOCALS);
}

/* What may have a replacement: a function's ordinary frame, entered at its start. */
static inline int
code_is_plain_function(const PyCodeObject *co)
{
    const int wanted = CO_OPTIMIZED | CO_NEWLOCALS;
    const int unwanted = CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR;
    return (co->co_flags & (wanted | unwanted)) == wanted;
}

/* As the interpreter's functions that take names in C, which make a new string of it at each call: these would push the
   program's own names out of its cache of attributes. */
static inline PyObject *
get_attribute(PyObject *object, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *found = interned ? PyObject_GetAttr(object, interned) : NULL;
    Py_XDECREF(interned);
    return found;
}

static inline PyObject *
call_method(PyObject *object, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *result = interned ? PyObject_CallMethodNoArgs(object, interned) : NULL;
    Py_XDECREF(interned);
    return result;
}

static inline PyObject *
call_method_with(PyObject *object, const char *name, PyObject *argument)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *result = interned ? PyObject_CallMethodOneArg(object, interned, argument) : NULL;
    Py_XDECREF(interned);
    return result;
}

/* Where 3.13 keeps an object's attributes while its dictionary shares them, NULL where the dictionary has its own: 3.13.0 neither
   calls dictionary watchers nor moves the dictionary's version on when an attribute is stored there. */
static inline const PyDictValues *
dict_inline_values(PyObject *dict)
{
#if PY_VERSION_HEX >= 0x030D0000
    const PyDictValues *values = ((PyDictObject *)dict)->ma_values;
    return values && values->embedded ? values : NULL;
#else
    (void)dict;
    return NULL;
#endif
}

/* How many attributes have room there; 0 where there is no such place. */
static inline Py_ssize_t
dict_inline_capacity(PyObject *dict)
{
#if PY_VERSION_HEX >= 0x030D0000
    const PyDictValues *values = dict_inline_values(dict);
    return values ? values->capacity : 0;
#else
    (void)dict;
    return 0;
#endif
}

/* The object behind a weak reference, borrowed; NULL if it is gone. */
static inline PyObject *
weak_target(PyObject *reference)
{
    PyObject *target = ((PyWeakReference *)reference)->wr_object;
    return target == Py_None ? NULL : target;
}

#endif
