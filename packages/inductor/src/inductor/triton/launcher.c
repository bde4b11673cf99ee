/* Triton's kernels as Python callables: kernel(tensor, ..., number) puts one launch on the current stream. Before this text
 * stand inductor's addresses.h and launches.h.
 *
 * A kernel's plan is its grid and its form (see `Choices`): a constant, or what Python says of its numbers, asked again
 * when these are others than last time. A form has variants, each compiled for what held of the arguments it was first
 * called with: which addresses and numbers are multiples of 16, and whether all integers fit 32 bits. A call takes the first
 * variant that assumes nothing it does not hold; if there is none Python compiles one. */
#define MAX_ARGS 512 /* 4096 bytes of parameters is what CUDA takes */
/* Triton's own parameters at the end: addresses of scratch memory, which these kernels need none of. */
#define SCRATCH 2
#define MULTIPLE 16

typedef struct {
    long long points, form, block; /* outer points; which form; outer points of one of its programs */
} Plan;

typedef struct {
    long long form;
    char assumes[MAX_ARGS / 8]; /* a bit per argument: a multiple of 16 */
    int narrow;                 /* integers have 32 bits */
    Code code;
    PyObject *loaded; /* what keeps it */
} Variant;

typedef struct {
    CALLABLE_HEAD
    PyObject *compile, *device;
    PyObject *ask;    /* function from the numbers to the plan, if it is none for all */
    int whole;        /* it takes all arguments */
    Plan plan;        /* for `numbers` */
    int64_t *numbers; /* bits of the last call's; NULL before */
    void *check;      /* one more argument, if not NULL */
    Variant *variants;
    Py_ssize_t count;
    char kinds[];
} Kernel;

static int
holds(const char *assumed, const char *given, Py_ssize_t bytes)
{
    for (Py_ssize_t k = 0; k < bytes; ++k)
        if (assumed[k] & ~given[k])
            return 0;
    return 1;
}

static Variant *
compiled(Kernel *kernel, const char *given, Py_ssize_t bytes, int narrow, long long form)
{
    PyObject *made = PyObject_CallFunction(kernel->compile, "y#OL", given, bytes, narrow ? Py_True : Py_False, form);
    if (!made)
        return NULL;
    Variant variant = {.form = form};
    const char *assumes;
    Py_ssize_t length;
    unsigned long long function;
    if (!PyTuple_Check(made)) {
        Py_DECREF(made);
        return PyErr_SetString(PyExc_TypeError, "what was compiled is a tuple"), NULL;
    }
    if (!PyArg_ParseTuple(made, "y#pKIIpO", &assumes, &length, &variant.narrow, &function, &variant.code.threads,
                          &variant.code.shared, &variant.code.early, &variant.loaded)) {
        Py_DECREF(made);
        return NULL;
    }
    Variant *variants = NULL;
    if (length != bytes || !holds(assumes, given, bytes) || variant.narrow > narrow)
        PyErr_Format(PyExc_SystemError, "kernel %U was compiled for other arguments", kernel->name);
    else if (!(variants = PyMem_Realloc(kernel->variants, (kernel->count + 1) * sizeof(Variant))))
        PyErr_NoMemory();
    if (variants) {
        memcpy(variant.assumes, assumes, bytes);
        variant.code.function = (void *)(uintptr_t)function;
        Py_INCREF(variant.loaded);
        kernel->variants = variants;
        variants[kernel->count++] = variant;
    }
    Py_DECREF(made);
    return variants ? &variants[kernel->count - 1] : NULL;
}

static Variant *
variant_for(Kernel *kernel, const char *given, int narrow, long long form)
{
    Py_ssize_t bytes = (kernel->nargs + 7) / 8;
    for (Py_ssize_t k = 0; k < kernel->count; ++k) {
        Variant *variant = &kernel->variants[k];
        if (variant->form == form && variant->narrow <= narrow && holds(variant->assumes, given, bytes))
            return variant;
    }
    return compiled(kernel, given, bytes, narrow, form);
}

static int
read_plan(PyObject *from, Plan *plan)
{
    if (!PyTuple_Check(from))
        return PyErr_Format(PyExc_TypeError, "a plan is a tuple, not %R", from), -1;
    if (!PyArg_ParseTuple(from, "LLL", &plan->points, &plan->form, &plan->block))
        return -1;
    if (plan->block < 1)
        return PyErr_SetString(PyExc_ValueError, "a program has at least one point"), -1;
    return 0;
}

/* The plan for these arguments, of which numbers count: their values and their bits. */
static int
plan_for(Kernel *kernel, PyObject *const *args, PyObject *const *numbers, const int64_t *bits, Py_ssize_t count, Plan *plan)
{
    if (kernel->ask && !(kernel->numbers && memcmp(kernel->numbers, bits, count * sizeof *bits) == 0)) {
        PyObject *answer = PyObject_Vectorcall(kernel->ask, kernel->whole ? args : numbers, kernel->whole ? kernel->nargs : count, NULL);
        if (!answer)
            return -1;
        int status = read_plan(answer, plan);
        Py_DECREF(answer);
        if (status < 0)
            return -1;
        if (!kernel->numbers && !(kernel->numbers = PyMem_Malloc((count + 1) * sizeof *bits)))
            return PyErr_NoMemory(), -1;
        memcpy(kernel->numbers, bits, count * sizeof *bits);
        kernel->plan = *plan;
    }
    *plan = kernel->plan;
    return 0;
}

static PyObject *
kernel_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Kernel *kernel = (Kernel *)self;
    Py_ssize_t nargs = arguments_of((Callable *)self, nargsf, kwnames), numbers = 0;
    if (nargs < 0)
        return NULL;
    Word words[MAX_ARGS];
    void *params[MAX_ARGS + 1 + SCRATCH], *scratch = NULL;
    char given[MAX_ARGS / 8] = {0};
    PyObject *values[MAX_ARGS];
    int64_t bits[MAX_ARGS];
    int narrow = 1;
    for (Py_ssize_t k = 0; k < nargs; ++k) {
        params[k] = &words[k];
        if (read_word(args[k], kernel->kinds[k], &words[k]) < 0)
            return NULL;
        if (kernel->kinds[k] != BUFFER) {
            values[numbers] = args[k];
            bits[numbers++] = words[k].integer;
        }
        if (kernel->kinds[k] == INTEGER)
            narrow &= words[k].integer == (int32_t)words[k].integer;
        if (kernel->kinds[k] != FLOAT && words[k].integer % MULTIPLE == 0)
            given[k / 8] |= (char)(1 << k % 8);
    }
    Plan plan;
    if (plan_for(kernel, args, values, bits, numbers, &plan) < 0)
        return NULL;
    if (plan.points <= 0)
        Py_RETURN_NONE;
    long long programs = (plan.points - 1) / plan.block + 1;
    if (programs > INT32_MAX)
        return PyErr_Format(PyExc_RuntimeError, "kernel %U needs %lld programs, more than a launch can have", kernel->name,
                            programs);
    Variant *found = variant_for(kernel, given, narrow, plan.form);
    if (!found)
        return NULL;
    Variant variant = *found; /* another thread may add one when the lock is released */
    void *stream;
    if (current_stream(kernel->device, &stream) < 0)
        return NULL;
    if (kernel->check)
        params[nargs++] = &kernel->check;
    for (int k = 0; k < SCRATCH; ++k)
        params[nargs++] = &scratch;
    Py_INCREF(variant.loaded);
    int status = launch(kernel->name, kernel->device, &variant.code, (unsigned)programs, stream, params);
    Py_DECREF(variant.loaded);
    if (status < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void
kernel_dealloc(PyObject *self)
{
    Kernel *kernel = (Kernel *)self;
    for (Py_ssize_t k = 0; k < kernel->count; ++k)
        Py_DECREF(kernel->variants[k].loaded);
    PyMem_Free(kernel->variants);
    Py_XDECREF(kernel->name);
    Py_XDECREF(kernel->compile);
    Py_XDECREF(kernel->ask);
    PyMem_Free(kernel->numbers);
    Py_XDECREF(kernel->device);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
kernel_repr(PyObject *self)
{
    Kernel *kernel = (Kernel *)self;
    return PyUnicode_FromFormat("<kernel %U of %zd arguments, %zd variants>", kernel->name, kernel->nargs, kernel->count);
}

static PyTypeObject kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor.triton.Kernel",
    .tp_basicsize = offsetof(Kernel, kinds),
    .tp_itemsize = 1,
    .tp_dealloc = kernel_dealloc,
    .tp_repr = kernel_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Callable, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_members = callable_members,
    .tp_doc = "A kernel: call it with its buffers and numbers in order.",
};

/* kernel(name, kinds, device index, plan or a function from numbers to one, address of the check or 0, compile, whether that
 * function takes all arguments) */
static PyObject *
make_kernel(PyObject *module, PyObject *args)
{
    PyObject *name, *device, *plan, *compile;
    const char *kinds;
    Py_ssize_t nargs;
    unsigned long long check;
    int whole = 0;
    if (!PyArg_ParseTuple(args, "Uy#O!OKO|p", &name, &kinds, &nargs, &PyLong_Type, &device, &plan, &check, &compile, &whole))
        return NULL;
    if (nargs > MAX_ARGS)
        return PyErr_Format(PyExc_ValueError, "kernel %U has %zd arguments, more than %d", name, nargs, MAX_ARGS);
    Plan constant = {0, 0, 1};
    int asks = !PyTuple_Check(plan);
    if (!asks && read_plan(plan, &constant) < 0)
        return NULL;
    Kernel *kernel = PyObject_NewVar(Kernel, &kernel_type, nargs);
    if (!kernel)
        return NULL;
    kernel->vectorcall = kernel_call;
    kernel->name = Py_NewRef(name);
    kernel->compile = Py_NewRef(compile);
    kernel->ask = asks ? Py_NewRef(plan) : NULL;
    kernel->whole = whole;
    kernel->plan = constant;
    kernel->numbers = NULL;
    kernel->device = Py_NewRef(device);
    kernel->check = (void *)(uintptr_t)check;
    kernel->variants = NULL;
    kernel->count = 0;
    kernel->nargs = nargs;
    memcpy(kernel->kinds, kinds, nargs);
    return (PyObject *)kernel;
}

/* What CUDA's driver has for points of a stream. */
typedef int (*EventRecord)(void *event, void *stream);
typedef int (*EventCall)(void *event);
typedef int (*Capturing)(void *stream, int *answer);
static EventRecord event_record;
static EventCall event_query, event_synchronize;
static Capturing is_capturing;
#define NOT_READY 600 /* CUDA_ERROR_NOT_READY */

/* points(addresses of cuEventRecord, cuEventQuery, cuEventSynchronize and cuStreamIsCapturing) */
static PyObject *
points(PyObject *module, PyObject *args)
{
    unsigned long long record, query, synchronize, capturing;
    if (!PyArg_ParseTuple(args, "KKKK", &record, &query, &synchronize, &capturing))
        return NULL;
    event_record = (EventRecord)(uintptr_t)record;
    event_query = (EventCall)(uintptr_t)query;
    event_synchronize = (EventCall)(uintptr_t)synchronize;
    is_capturing = (Capturing)(uintptr_t)capturing;
    Py_RETURN_NONE;
}

/* mark(device index, event) -> whether the event now stands for this point of the device's current stream: not while that is
 * captured, where nothing runs. */
static PyObject *
mark(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !event_record)
        return PyErr_SetString(PyExc_TypeError, "mark(device, event), once points() was called"), NULL;
    void *stream, *event = PyLong_AsVoidPtr(args[1]);
    if ((!event && PyErr_Occurred()) || current_stream(args[0], &stream) < 0)
        return NULL;
    int capturing = 0, status;
    if (is_capturing(stream, &capturing) == 0 && capturing)
        Py_RETURN_FALSE;
    Py_BEGIN_ALLOW_THREADS /* a full queue waits for the device */
    status = event_record(event, stream);
    Py_END_ALLOW_THREADS
    if (status != 0)
        return PyErr_Format(PyExc_RuntimeError, "CUDA error %d at a point of a stream: %s", status, text_of(status));
    Py_RETURN_TRUE;
}

/* reach(event): return once its point was reached. What went wrong on the device is torch's to raise. */
static PyObject *
reach(PyObject *module, PyObject *event_number)
{
    void *event = PyLong_AsVoidPtr(event_number);
    if (!event && PyErr_Occurred())
        return NULL;
    if (event_query(event) == NOT_READY) {
        Py_BEGIN_ALLOW_THREADS
        event_synchronize(event);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"points", points, METH_VARARGS, "points(cuEventRecord, cuEventQuery, cuEventSynchronize, cuStreamIsCapturing)"},
    {"mark", (PyCFunction)(void (*)(void))mark, METH_FASTCALL, "mark(device, event) -> whether it was"},
    {"reach", reach, METH_O, "reach(event)"},
    {"kernel", make_kernel, METH_VARARGS, "kernel(name, kinds, device, plan, check, compile, whole=False) -> callable"},
    {"configure", configure, METH_VARARGS, "configure(address facts, stream function, context function, cuLaunchKernel, cuLaunchKernelEx, cuGetErrorString)"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "launcher", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC
PyInit_launcher(void)
{
    if (PyType_Ready(&kernel_type) < 0)
        return NULL;
    return PyModule_Create(&definition);
}
