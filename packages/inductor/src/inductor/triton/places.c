/* Where the tensors of a list lie, all of them in one call: places(list) -> bytes. Before this text stands inductor's addresses.h.
 *
 * Of each the address of its data and its offset in its storage, so that equal bytes are also equal storages' addresses. */

typedef int32_t (*StorageOffset)(void *, int64_t *);

static StorageOffset get_storage_offset;
static PyObject *storage_offset_name;

typedef struct {
    void *address;
    int64_t offset;
} Place;

typedef struct {
    CALLABLE_HEAD
    Py_ssize_t count;
    Py_ssize_t at[];
} Places;

static int
offset_of(PyObject *tensor, int64_t *offset)
{
    PyObject *type = (PyObject *)Py_TYPE(tensor);
    if (get_data_ptr && get_storage_offset && (type == tensor_type || type == parameter_type))
        if (get_storage_offset((char *)tensor + tensor_offset, offset) == 0)
            return 0;
    PyObject *number = PyObject_CallMethodNoArgs(tensor, storage_offset_name);
    if (!number)
        return -1;
    *offset = PyLong_AsLongLong(number);
    Py_DECREF(number);
    return *offset == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *
places_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Places *places = (Places *)self;
    if (arguments_of((Callable *)self, nargsf, kwnames) < 0)
        return NULL;
    PyObject *list = args[0];
    if (!PyList_CheckExact(list))
        return PyErr_Format(PyExc_TypeError, "places are read of a list, not %R", Py_TYPE(list));
    PyObject *found = PyBytes_FromStringAndSize(NULL, places->count * (Py_ssize_t)sizeof(Place));
    if (!found)
        return NULL;
    Place *place = (Place *)PyBytes_AS_STRING(found);
    for (Py_ssize_t k = 0; k < places->count; ++k, ++place) {
        if (places->at[k] >= PyList_GET_SIZE(list)) {
            PyErr_SetString(PyExc_IndexError, "fewer inputs than places are read of");
            Py_DECREF(found);
            return NULL;
        }
        PyObject *tensor = Py_NewRef(PyList_GET_ITEM(list, places->at[k]));
        int status = address_of(tensor, &place->address) < 0 ? -1 : offset_of(tensor, &place->offset);
        Py_DECREF(tensor);
        if (status < 0) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

static void
places_dealloc(PyObject *self)
{
    Py_XDECREF(((Places *)self)->name);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject places_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor.triton.Places",
    .tp_basicsize = offsetof(Places, at),
    .tp_itemsize = sizeof(Py_ssize_t),
    .tp_dealloc = places_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Callable, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_members = callable_members,
    .tp_doc = "Where some of the tensors of a list lie.",
};

/* places(which of a list's items, a tuple of positions) */
static PyObject *
make_places(PyObject *module, PyObject *args)
{
    PyObject *at;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &at))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(at);
    Places *places = PyObject_NewVar(Places, &places_type, count);
    if (!places)
        return NULL;
    places->vectorcall = places_call;
    places->nargs = 1;
    places->count = count;
    places->name = PyUnicode_FromString("places");
    for (Py_ssize_t k = 0; k < count; ++k) {
        places->at[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(at, k));
        if (places->at[k] < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "positions are counted from the front");
            Py_DECREF(places);
            return NULL;
        }
    }
    if (!places->name) {
        Py_DECREF(places);
        return NULL;
    }
    return (PyObject *)places;
}

/* configure(address facts, address of aoti_torch_get_storage_offset or 0) */
static PyObject *
configure(PyObject *module, PyObject *args)
{
    PyObject *facts;
    unsigned long long function;
    if (!PyArg_ParseTuple(args, "O!K", &PyTuple_Type, &facts, &function))
        return NULL;
    if (set_address_facts(facts) < 0)
        return NULL;
    if (!storage_offset_name && !(storage_offset_name = PyUnicode_InternFromString("storage_offset")))
        return NULL;
    get_storage_offset = (StorageOffset)(uintptr_t)function;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"places", make_places, METH_VARARGS, "places(positions) -> callable"},
    {"configure", configure, METH_VARARGS, "configure(address facts, aoti_torch_get_storage_offset)"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "places", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC
PyInit_places(void)
{
    if (PyType_Ready(&places_type) < 0)
        return NULL;
    return PyModule_Create(&definition);
}
