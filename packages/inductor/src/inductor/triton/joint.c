/* Joint kernels as Python callables: one launch for many kernels. Before this text stand inductor's addresses.h and launches.h.
 *
 * The arguments of a call become the table that the kernel reads (see `joint.py`), in memory of the device that is allocated for the
 * call and given back after it, in the order of the stream. It is filled by launches whose parameters are its words: the driver keeps
 * those with the launch, in a recording, too, so nothing has to outlive the call. */

#define CHUNK 496 /* words of a launch: 4096 bytes of parameters is what CUDA takes */
/* Triton's own parameters at the end: addresses of scratch memory, which these kernels need none of. */
#define SCRATCH 2
#define MULTIPLE 16

typedef struct {
    Code code;
    PyObject *loaded; /* what keeps it; NULL: not asked for yet */
} Loaded;
enum { UNALIGNED,
       ALIGNED,
       FILL,
       CODES };

typedef struct {
    CALLABLE_HEAD
    PyObject *compile, *allocate, *device;
    PyObject *ask;    /* function from the numbers to the grid, if it is none for all */
    int64_t *numbers; /* bits of the last call's; NULL before */
    PyObject *starts; /* bytes: the first words of the table */
    long long programs;
    Py_ssize_t words, count; /* of the table; how many of the arguments are numbers */
    Loaded loaded[CODES];
    int32_t *places; /* each argument's word */
    char kinds[];
} Joint;

/* The code by its number in the enum above, as Python compiles it. It is the caller's as long as the callable is. */
static int
code_of(Joint *joint, int which, Code *code)
{
    Loaded *found = &joint->loaded[which];
    if (!found->loaded) {
        PyObject *made = PyObject_CallFunction(joint->compile, "i", which);
        unsigned long long function;
        Loaded loaded;
        if (!made)
            return -1;
        if (!PyTuple_Check(made) || !PyArg_ParseTuple(made, "KIIpO", &function, &loaded.code.threads, &loaded.code.shared,
                                                      &loaded.code.early, &loaded.loaded)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "what was compiled is a tuple");
            Py_DECREF(made);
            return -1;
        }
        loaded.code.function = (void *)(uintptr_t)function;
        Py_INCREF(loaded.loaded);
        Py_DECREF(made);
        Py_XSETREF(found->loaded, loaded.loaded); /* another thread may have asked, too: both got the same */
        found->code = loaded.code;
    }
    *code = found->code;
    return 0;
}

static int
read_grid(Joint *joint, PyObject *grid)
{
    PyObject *starts;
    long long programs;
    if (!PyTuple_Check(grid))
        return PyErr_Format(PyExc_TypeError, "a grid is a tuple, not %R", grid), -1;
    if (!PyArg_ParseTuple(grid, "O!L", &PyBytes_Type, &starts, &programs))
        return -1;
    if (PyBytes_GET_SIZE(starts) > joint->words * (Py_ssize_t)sizeof(Word))
        return PyErr_SetString(PyExc_ValueError, "more parts than the table has room for"), -1;
    Py_XSETREF(joint->starts, Py_NewRef(starts));
    joint->programs = programs;
    return 0;
}

/* Have the grid for the numbers among these arguments. */
static int
ask_grid(Joint *joint, PyObject *const *args)
{
    if (!joint->ask)
        return 0;
    PyObject **values = PyMem_Malloc((joint->count + 1) * sizeof *values);
    int64_t *bits = PyMem_Malloc((joint->count + 1) * sizeof *bits);
    int status = values && bits ? 0 : (PyErr_NoMemory(), -1);
    Py_ssize_t count = 0;
    for (Py_ssize_t k = 0; k < joint->nargs && status == 0; ++k)
        if (joint->kinds[k] != BUFFER) {
            Word word;
            status = read_word(args[k], joint->kinds[k], &word);
            values[count] = args[k];
            bits[count++] = word.integer;
        }
    if (status == 0 && !(joint->numbers && memcmp(joint->numbers, bits, count * sizeof *bits) == 0)) {
        PyObject *answer = PyObject_Vectorcall(joint->ask, values, count, NULL);
        status = answer ? read_grid(joint, answer) : -1;
        Py_XDECREF(answer);
        if (status == 0) {
            int64_t *last = joint->numbers;
            joint->numbers = bits;
            bits = last;
        }
    }
    PyMem_Free(values);
    PyMem_Free(bits);
    return status;
}

/* Writes the table's words to the device's memory. */
static int
fill(Joint *joint, const Code *code, void *table, char *words, void *stream)
{
    for (Py_ssize_t at = 0; at < joint->words; at += CHUNK) {
        unsigned count = (unsigned)(joint->words - at < CHUNK ? joint->words - at : CHUNK);
        void *to = (char *)table + at * sizeof(Word);
        void *params[] = {&to, &count, words + at * sizeof(Word)};
        if (launch(joint->name, joint->device, code, (count - 1) / code->threads + 1, stream, params) < 0)
            return -1;
    }
    return 0;
}

static int
launch_table(Joint *joint, const Code *code, const Code *filler, char *words, long long programs)
{
    void *address, *stream, *scratch = NULL;
    PyObject *table = PyObject_CallNoArgs(joint->allocate);
    if (!table)
        return -1;
    void *params[1 + SCRATCH] = {&address, &scratch, &scratch};
    int status = address_of(table, &address);
    if (status == 0)
        status = current_stream(joint->device, &stream);
    if (status == 0)
        status = fill(joint, filler, address, words, stream);
    if (status == 0)
        status = launch(joint->name, joint->device, code, (unsigned)programs, stream, params);
    Py_DECREF(table);
    return status;
}

static PyObject *
joint_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Joint *joint = (Joint *)self;
    if (arguments_of((Callable *)self, nargsf, kwnames) < 0 || ask_grid(joint, args) < 0)
        return NULL;
    if (joint->programs <= 0)
        Py_RETURN_NONE;
    long long programs = joint->programs;
    /* A launch takes whole chunks, of which it uses a part. */
    Word *words = PyMem_Calloc((joint->words + CHUNK - 1) / CHUNK * CHUNK, sizeof(Word));
    if (!words)
        return PyErr_NoMemory();
    memcpy(words, PyBytes_AS_STRING(joint->starts), PyBytes_GET_SIZE(joint->starts));
    int status = 0, aligned = 1;
    for (Py_ssize_t k = 0; k < joint->nargs && status == 0; ++k) {
        Word *word = &words[joint->places[k]];
        status = read_word(args[k], joint->kinds[k], word);
        if (joint->kinds[k] == BUFFER)
            aligned &= word->integer % MULTIPLE == 0;
    }
    Code code, filler;
    if (status == 0 && (status = code_of(joint, aligned ? ALIGNED : UNALIGNED, &code)) == 0 &&
        (status = code_of(joint, FILL, &filler)) == 0)
        status = launch_table(joint, &code, &filler, (char *)words, programs);
    PyMem_Free(words);
    if (status < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void
joint_dealloc(PyObject *self)
{
    Joint *joint = (Joint *)self;
    for (int k = 0; k < CODES; ++k)
        Py_XDECREF(joint->loaded[k].loaded);
    PyMem_Free(joint->numbers);
    PyMem_Free(joint->places);
    Py_XDECREF(joint->name);
    Py_XDECREF(joint->compile);
    Py_XDECREF(joint->allocate);
    Py_XDECREF(joint->device);
    Py_XDECREF(joint->ask);
    Py_XDECREF(joint->starts);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
joint_repr(PyObject *self)
{
    Joint *joint = (Joint *)self;
    return PyUnicode_FromFormat("<joint kernel %U of %zd arguments>", joint->name, joint->nargs);
}

static PyTypeObject joint_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor.triton.Joint",
    .tp_basicsize = offsetof(Joint, kinds),
    .tp_itemsize = 1,
    .tp_dealloc = joint_dealloc,
    .tp_repr = joint_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Callable, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_members = callable_members,
    .tp_doc = "Kernels run by one launch: call it with the buffers and numbers of all, in order.",
};

/* joint(name, kinds, each argument's word as int32, words, device index, grid or a function from numbers to one, compile, allocate) */
static PyObject *
make_joint(PyObject *module, PyObject *args)
{
    PyObject *name, *device, *grid, *compile, *allocate;
    const char *kinds, *places;
    Py_ssize_t nargs, bytes, words;
    if (!PyArg_ParseTuple(args, "Uy#y#nO!OOO", &name, &kinds, &nargs, &places, &bytes, &words, &PyLong_Type, &device, &grid,
                          &compile, &allocate))
        return NULL;
    if (bytes != nargs * (Py_ssize_t)sizeof(int32_t))
        return PyErr_SetString(PyExc_ValueError, "each argument has a word"), NULL;
    for (Py_ssize_t k = 0; k < nargs; ++k) {
        int32_t place;
        memcpy(&place, places + k * sizeof place, sizeof place);
        if (place < 0 || place >= words)
            return PyErr_SetString(PyExc_ValueError, "a word beyond the table"), NULL;
    }
    Joint *joint = PyObject_NewVar(Joint, &joint_type, nargs);
    if (!joint)
        return NULL;
    memset((char *)joint + sizeof(PyObject), 0, offsetof(Joint, kinds) - sizeof(PyObject));
    joint->vectorcall = joint_call;
    joint->nargs = nargs;
    joint->words = words;
    joint->name = Py_NewRef(name);
    joint->compile = Py_NewRef(compile);
    joint->allocate = Py_NewRef(allocate);
    joint->device = Py_NewRef(device);
    memcpy(joint->kinds, kinds, nargs);
    for (Py_ssize_t k = 0; k < nargs; ++k)
        joint->count += kinds[k] != BUFFER;
    if (PyTuple_Check(grid) ? read_grid(joint, grid) < 0 : !(joint->ask = Py_NewRef(grid)))
        return Py_DECREF(joint), NULL;
    if (!(joint->places = PyMem_Malloc(bytes + 1)))
        return Py_DECREF(joint), PyErr_NoMemory();
    memcpy(joint->places, places, bytes);
    return (PyObject *)joint;
}

static PyMethodDef methods[] = {
    {"joint", make_joint, METH_VARARGS, "joint(name, kinds, places, words, device, grid, compile, allocate) -> callable"},
    {"configure", configure, METH_VARARGS, "configure(address facts, stream function, context function, cuLaunchKernel, cuLaunchKernelEx, cuGetErrorString)"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "joint", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC
PyInit_joint(void)
{
    if (PyType_Ready(&joint_type) < 0)
        return NULL;
    return PyModule_Create(&definition);
}
