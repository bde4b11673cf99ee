/* The extension module capture._native: what Python sees of the other files. Its signatures are in _native.pyi. */
#include "compat.h"
#include "bound.h"
#include "cache.h"
#include "callables.h"
#include "consult.h"
#include "equal.h"
#include "handover.h"
#include "hook.h"
#include "iterators.h"
#include "lookups.h"
#include "place.h"
#include "program.h"
#include "signals.h"
#include "stack.h"
#include "state.h"
#include "form.h"
#include "tensor.h"

static PyObject *
set_flags(PyObject *code, int set, int unset)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "a code object, not %s", Py_TYPE(code)->tp_name);
        return NULL;
    }
    CodeCache *cache = cache_make((PyCodeObject *)code);
    if (cache == NULL) {
        return NULL;
    }
    cache->flags = (cache->flags & ~unset) | set;
    Py_RETURN_NONE;
}

static PyObject *
mark_skip(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "recursive", NULL};
    PyObject *code;
    int recursive = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:mark_skip", names, &code, &recursive)) {
        return NULL;
    }
    return set_flags(code, SKIP_CODE | (recursive ? SKIP_BENEATH : 0), SKIP_BENEATH);
}

/* As the interpreter does where a handler begins or ends: the exception that sys.exc_info tells, None for none. */
static PyObject *
swap_handled(PyObject *Py_UNUSED(module), PyObject *exception)
{
    _PyErr_StackItem *info = PyThreadState_Get()->exc_info;
    PyObject *before = info->exc_value;
    info->exc_value = Py_NewRef(exception);
    return before != NULL ? before : Py_NewRef(Py_None);
}

static PyObject *
mark_stand_in(PyObject *Py_UNUSED(module), PyObject *code)
{
    return set_flags(code, SKIP_CODE | TRIMMED, SKIP_BENEATH);
}

static PyObject *
unmark_skip(PyObject *Py_UNUSED(module), PyObject *code)
{
    return set_flags(code, 0, SKIP_CODE | SKIP_BENEATH);
}

static PyObject *
reset(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    cache_clear_all();
    Py_RETURN_NONE;
}

static PyObject *
forget_session(PyObject *Py_UNUSED(module), PyObject *session)
{
    cache_forget(session);
    Py_RETURN_NONE;
}

static PyObject *
reset_code(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "a code object, not %s", Py_TYPE(code)->tp_name);
        return NULL;
    }
    CodeCache *cache = cache_of((PyCodeObject *)code);
    if (cache != NULL) {
        cache_clear(cache);
    }
    Py_RETURN_NONE;
}

static PyObject *
drop_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *info;
    if (!PyArg_ParseTuple(args, "O!O:drop_entries", &PyCode_Type, &code, &info)) {
        return NULL;
    }
    CodeCache *cache = cache_of((PyCodeObject *)code);
    if (cache != NULL) {
        cache_drop(cache, info);
    }
    Py_RETURN_NONE;
}

static PyObject *
entries(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "session", NULL};
    PyObject *code, *session = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O:entries", names, &PyCode_Type, &code, &session)) {
        return NULL;
    }
    return cache_entries(cache_of((PyCodeObject *)code), session);
}

static PyObject *
set_disabled(PyObject *Py_UNUSED(module), PyObject *value)
{
    Stack *stack = stack_here(PyThreadState_Get());
    int before = stack && stack->disabled, disabled = PyObject_IsTrue(value);
    if (disabled < 0) {
        return NULL;
    }
    if (stack) {
        stack->disabled = (char)disabled;
    }
    return PyBool_FromLong(before);
}

static PyObject *
set_stance(PyObject *Py_UNUSED(module), PyObject *value)
{
    long wanted = PyLong_AsLong(value);
    if (wanted == -1 && PyErr_Occurred()) {
        return NULL;
    }
    stance = (int)wanted;
    Py_RETURN_NONE;
}

static PyObject *
is_active(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    Stack *stack = stack_here(PyThreadState_Get());
    return PyBool_FromLong(stack && stack->session && !stack->disabled);
}

static PyObject *
generic_attributes(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_Format(PyExc_TypeError, "a class, not %s", Py_TYPE(type)->tp_name);
        return NULL;
    }
    PyTypeObject *t = (PyTypeObject *)type;
    return Py_BuildValue("(NN)", PyBool_FromLong(t->tp_getattro == PyObject_GenericGetAttr && t->tp_getattr == NULL),
                         PyBool_FromLong(t->tp_setattro == PyObject_GenericSetAttr && t->tp_setattr == NULL));
}

static PyObject *
traced(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(is_traced(PyThreadState_Get()));
}

static PyObject *
frames_left(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(frames_remaining(PyThreadState_Get()));
}

static PyObject *
equal(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *left, *right;
    if (!PyArg_ParseTuple(args, "OO:exactly_equal", &left, &right)) {
        return NULL;
    }
    int same = exactly_equal(left, right);
    return same < 0 ? NULL : PyBool_FromLong(same);
}

/* A call's reference to its argument, where nothing else has it. */
#define OF_A_CALL 1

/* How many references to a class are its own: from the order of its bases' look-up, and from what it has for its instances. */
static Py_ssize_t
references_within(PyTypeObject *cls, PyObject *dict)
{
    Py_ssize_t own = 1, at = 0;
    PyObject *value;
    while (PyDict_Next(dict, &at, NULL, &value)) {
        if (Py_IS_TYPE(value, &PyGetSetDescr_Type) || Py_IS_TYPE(value, &PyMemberDescr_Type)) {
            own += ((PyDescrObject *)value)->d_type == cls;
        }
    }
    return own;
}

/* A class is part of a cycle: until garbage is collected its bases would tell of it. What is left of one is what the collector leaves
   of it, and goes with the last reference; nothing is done if anything else refers to it. */
static PyObject *
dissolve(PyObject *Py_UNUSED(module), PyObject *op)
{
    if (!PyType_Check(op) || !PyType_HasFeature((PyTypeObject *)op, Py_TPFLAGS_HEAPTYPE)) {
        PyErr_SetString(PyExc_TypeError, "dissolve() takes a class written in Python");
        return NULL;
    }
    PyTypeObject *cls = (PyTypeObject *)op;
    Py_ssize_t others = Py_REFCNT(op) - references_within(cls, cls->tp_dict);
    if (others > OF_A_CALL) {
        Py_RETURN_FALSE;
    }
    PyType_Type.tp_clear(op);
    Py_RETURN_TRUE;
}

/* As id() gives it. That tells sys.audit of each call, and where a program has a hook for audits, as some libraries do, it is a
   call of Python. */
static PyObject *
address(PyObject *Py_UNUSED(module), PyObject *op)
{
    return PyLong_FromVoidPtr(op);
}

/* Reading `__code__` is told as well. */
static PyObject *
function_code(PyObject *Py_UNUSED(module), PyObject *op)
{
    if (!PyFunction_Check(op)) {
        PyErr_Format(PyExc_TypeError, "a function, not %s", Py_TYPE(op)->tp_name);
        return NULL;
    }
    return Py_NewRef(PyFunction_GET_CODE(op));
}

/* Nothing in Python tells which context a token is of. */
static PyObject *
token_fits(PyObject *Py_UNUSED(module), PyObject *op)
{
    if (!PyContextToken_CheckExact(op)) {
        PyErr_SetString(PyExc_TypeError, "token_fits() takes a token of a context variable");
        return NULL;
    }
    const PyContextToken *token = (PyContextToken *)op;
    return PyBool_FromLong(!token->tok_used && (PyObject *)token->tok_ctx == PyThreadState_Get()->context);
}

/* What was taken out of a set keeps its place, which decides where the next ones go. */
static PyObject *
has_holes(PyObject *Py_UNUSED(module), PyObject *op)
{
    if (!PyAnySet_Check(op)) {
        PyErr_SetString(PyExc_TypeError, "has_holes() takes a set");
        return NULL;
    }
    return PyBool_FromLong(((PySetObject *)op)->fill != ((PySetObject *)op)->used);
}

/* Where the next element is that pop() gives: it goes on from where it was. -1 for an empty set. */
static Py_ssize_t
next_popped(const PySetObject *set)
{
    if (set->used == 0) {
        return -1;
    }
    Py_ssize_t at = set->finger & set->mask;
    while (set->table[at].key == NULL || set->table[at].hash == -1) {
        at = (at + 1) & set->mask;
    }
    return at;
}

/* The same set again, with its elements in their places, and its holes. */
static PyObject *
placed(PyObject *Py_UNUSED(module), PyObject *op)
{
    if (!PySet_CheckExact(op)) {
        PyErr_SetString(PyExc_TypeError, "placed() takes a set");
        return NULL;
    }
    PyObject *made = PySet_New(NULL);
    if (made == NULL) {
        return NULL;
    }
    const PySetObject *from = (PySetObject *)op;
    PySetObject *set = (PySetObject *)made;
    if (from->table != from->smalltable) {
        setentry *table = PyMem_Malloc((from->mask + 1) * sizeof(setentry));
        if (table == NULL) {
            Py_DECREF(made);
            return PyErr_NoMemory();
        }
        set->table = table;
    }
    for (Py_ssize_t i = 0; i <= from->mask; i++) {
        set->table[i] = from->table[i];
        if (from->table[i].hash != -1) { /* what was taken out is counted by nobody */
            Py_XINCREF(from->table[i].key);
        }
    }
    set->mask = from->mask;
    set->fill = from->fill;
    set->used = from->used;
    set->finger = from->finger;
    return made;
}

/* Whether all that comes to two sets, or goes, has the same order in both. */
static PyObject *
same_places(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *left, *right;
    if (!PyArg_ParseTuple(args, "O!O!:same_places", &PySet_Type, &left, &PySet_Type, &right)) {
        return NULL;
    }
    const PySetObject *a = (PySetObject *)left, *b = (PySetObject *)right;
    int same = a->mask == b->mask && a->fill == b->fill && a->used == b->used && next_popped(a) == next_popped(b);
    for (Py_ssize_t i = 0; same && i <= a->mask; i++) { /* the hash of what was taken out is -1 */
        same = a->table[i].hash == b->table[i].hash && !a->table[i].key == !b->table[i].key;
    }
    return PyBool_FromLong(same);
}

static PyMethodDef methods[] = {
    {"mark_skip", (PyCFunction)(void (*)(void))mark_skip, METH_VARARGS | METH_KEYWORDS, "Never capture this code."},
    {"swap_handled", swap_handled, METH_O, "Make an exception the one that is handled, or None; gives what was."},
    {"go_on", (PyCFunction)(void (*)(void))go_on, METH_FASTCALL, "Call a continuation, which alone holds its arguments."},
    {"mark_stand_in", mark_stand_in, METH_O, "Never capture this code, which stands for a frame of the user's."},
    {"unmark_skip", unmark_skip, METH_O, "Undo mark_skip."},
    {"has_holes", has_holes, METH_O, "Whether elements that were taken out of a set still have their places."},
    {"token_fits", token_fits, METH_O, "Whether its variable can be put back by a token, here and now."},
    {"placed", placed, METH_O, "A set with the same elements in the same places."},
    {"same_places", same_places, METH_VARARGS, "Whether two sets order all alike, now and later."},
    {"reset", reset, METH_NOARGS, "Drop every entry of every code."},
    {"forget_session", forget_session, METH_O, "Drop every entry of this session, which dies."},
    {"reset_code", reset_code, METH_O, "Drop every entry of this code."},
    {"drop_entries", drop_entries, METH_VARARGS, "Drop the entries of this code that have this `info`."},
    {"entries", (PyCFunction)(void (*)(void))entries, METH_VARARGS | METH_KEYWORDS, "The entries of this code."},
    {"set_disabled", set_disabled, METH_O, "Hold back the hook in this thread; what it was before."},
    {"set_stance", set_stance, METH_O, "What compiled callables do: capture, nothing, or what they have captured."},
    {"is_active", is_active, METH_NOARGS, "Whether frames entered now would be looked at."},
    {"is_traced", traced, METH_NOARGS, "Whether something follows the lines that this thread runs."},
    {"signal_handlers", signal_handlers, METH_NOARGS, "By number, what runs in Python for signals in this thread, or None."},
    {"exchange_handlers", exchange_handlers, METH_O, "Put handlers of signals in the places of others."},
    {"frames_left", frames_left, METH_NOARGS, "How many more frames this thread may nest."},
    {"stats", hook_stats, METH_NOARGS, "Counts since start."},
    {"configure_tensors", tensor_configure, METH_VARARGS, "How tensors are read."},
    {"configure_state", state_configure, METH_VARARGS, "How global settings are read."},
    {"read_state", state_read, METH_NOARGS, "The global settings now."},
    {"configure_forms", form_configure, METH_VARARGS, "Where what tells of a tensor's metadata lies."},
    {"form_is_known", form_is_known, METH_O, "Whether what lies there tells all of a tensor's metadata."},
    {"tensor_keys", tensor_keys, METH_O, "A tensor's dispatch key set, or None."},
    {"is_held", (PyCFunction)(void (*)(void))is_held, METH_FASTCALL,
     "Whether it is a tensor that graphs hold, or a tuple or list with one."},
    {"tensor_codes", tensor_codes, METH_O, "C codes of dtype, device type and index, and layout, or None."},
    {"generic_attributes", generic_attributes, METH_O,
     "Whether a class written in C reads, and sets, attributes as object does."},
    {"dissolve", dissolve, METH_O, "Take a class apart that nothing else refers to; whether it was that."},
    {"address", address, METH_O, "What id() gives, and no audit event."},
    {"iterator_state", iterator_state, METH_O, "Where an iterator of itertools is, or None."},
    {"function_code", function_code, METH_O, "The code of a function written in Python, and no audit event."},
    {"lay_out", place_lay_out, METH_VARARGS, "Where a subclass of Record has its fields."},
    {"class_entry", class_entry, METH_VARARGS, "What a class, or the first along its MRO that has it, holds under a name."},
    {"keys_act", keys_act, METH_O, "Whether looking something up in a dictionary may run code of its keys'."},
    {"check_bound", check_bound, METH_VARARGS, "Raise UnboundLocalError where a cell is empty."},
    {"check_initialised", check_initialised, METH_O, "Raise TypeError where __init__ returned something."},
    {"annotations_held", annotations_held, METH_O, "A function's annotations if they have been made, else None."},
#if PY_VERSION_HEX >= 0x030E0000
    {"annotate_with", annotate_with, METH_VARARGS, "Give a function what makes annotations; those made already stay."},
    {"special_method", special_method, METH_VARARGS, "What LOAD_SPECIAL finds by its number, bound."},
#endif
    {"is_over", is_over, METH_O, "Whether a frame was left for good."},
    {"is_overridden", is_overridden, METH_O, "Whether an extension runs a function in its own way."},
    {"exactly_equal", equal, METH_VARARGS, "Same type and value, floats bit for bit."},
    {NULL},
};

static int
add_type(PyObject *module, const char *name, PyTypeObject *type)
{
    return PyType_Ready(type) < 0 ? -1 : PyModule_AddObjectRef(module, name, (PyObject *)type);
}

/* The hook, the caches and the extra slot of code objects are the process's, and the GIL guards them. */
static int
execute(PyObject *module)
{
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_ImportError, "capture does not work on free-threaded builds of Python: use one with the GIL");
    return -1;
#endif
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "capture works in the main interpreter only, not in sub-interpreters");
        return -1;
    }
    static int done; /* importing once more shares it all */
    if (!done && (cache_init() < 0 || hook_init() < 0 || place_ready() < 0)) {
        return -1;
    }
    done = 1;
    return add_type(module, "Entry", &Entry_Type) < 0 || add_type(module, "GuardProgram", &GuardProgram_Type) < 0 ||
                   add_type(module, "TensorSpec", &TensorSpec_Type) < 0 ||
                   add_type(module, "CompiledCallable", &CompiledCallable_Type) < 0 ||
                   add_type(module, "DisabledCallable", &DisabledCallable_Type) < 0 ||
                   add_type(module, "Record", &Record_Type) < 0 || add_type(module, "Place", &Place_Type) < 0 ||
                   add_type(module, "BoundGraph", &BoundGraph_Type) < 0 || consult_add(module) < 0 ||
                   handover_add(module) < 0 ||
                   PyModule_AddIntConstant(module, "CONTINUES", CONTINUES) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED}, /* so that it is `execute` who refuses */
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "capture._native",
    .m_methods = methods,
    .m_slots = slots,
    .m_doc = "Frame hook, code cache and guard programs.",
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
