/* Kernels as Python callables: kernel(tensor, ..., number) calls int f(const Word*) with addresses and numbers. The shared object
 * that f lies in is unmapped when the last of its kernels goes. Before this text stand inductor's addresses.h and pool.c. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*KernelFunction)(const Word *);
typedef int64_t (*WorkFunction)(const Word *);

#define MAX_ARGS 256
/* Work, in quarter nanoseconds, from which on the GIL is released: giving it up and back costs about 200 ns. */
#define RELEASE_FROM 80000

typedef struct {
  PyObject_HEAD
  void *handle;
} Library;

typedef struct {
  CALLABLE_HEAD
  Library *library;
  KernelFunction function;
  WorkFunction work;
  char kinds[];
} Kernel;

static PyObject *kernel_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  Kernel *kernel = (Kernel *)self;
  Py_ssize_t nargs = arguments_of((Callable *)self, nargsf, kwnames);
  if (nargs < 0) return NULL;
  Word words[MAX_ARGS];
  for (Py_ssize_t k = 0; k < nargs; ++k)
    if (read_word(args[k], kernel->kinds[k], &words[k]) < 0) return NULL;
  int status;
  if (kernel->work(words) < RELEASE_FROM) {
    status = kernel->function(words);
  } else {
    Py_BEGIN_ALLOW_THREADS
    status = kernel->function(words);
    Py_END_ALLOW_THREADS
  }
  if (status == 1 || status == 2) { /* INDEX_ERROR, RUNTIME_ERROR: see kernel.h */
    PyErr_SetString(status == 1 ? PyExc_IndexError : PyExc_RuntimeError, "index out of range in self");
    return NULL;
  }
  if (status != 0) return PyErr_Format(PyExc_RuntimeError, "kernel %U failed with status %d", kernel->name, status);
  Py_RETURN_NONE;
}

static void library_dealloc(PyObject *self) {
  dlclose(((Library *)self)->handle);
  Py_TYPE(self)->tp_free(self);
}
static PyTypeObject library_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cpu_codegen.Library",
    .tp_basicsize = sizeof(Library),
    .tp_dealloc = library_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A mapped shared object.",
};

/* The OpenMP runtime's threads outlive the kernels that started them: its code has to stay. */
static void keep_runtime(void *handle) {
  static const char *const entries[] = {"GOMP_parallel", "__kmpc_fork_call"};
  for (size_t k = 0; k < sizeof entries / sizeof *entries; ++k) {
    Dl_info place;
    void *entry = dlsym(handle, entries[k]);
    if (entry && dladdr(entry, &place) && place.dli_fname) dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

/* open(path) -> Library */
static PyObject *open_library(PyObject *module, PyObject *args) {
  PyObject *path;
  if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
  void *handle = dlopen(PyBytes_AS_STRING(path), RTLD_NOW | RTLD_LOCAL);
  Py_DECREF(path);
  if (!handle) return PyErr_Format(PyExc_OSError, "%s", dlerror());
  keep_runtime(handle);
  Library *library = PyObject_New(Library, &library_type);
  if (!library) return dlclose(handle), NULL;
  library->handle = handle;
  return (PyObject *)library;
}

static void kernel_dealloc(PyObject *self) {
  Py_XDECREF(((Kernel *)self)->name);
  Py_XDECREF(((Kernel *)self)->library);
  Py_TYPE(self)->tp_free(self);
}
static PyObject *kernel_repr(PyObject *self) {
  Kernel *kernel = (Kernel *)self;
  return PyUnicode_FromFormat("<kernel %U of %zd arguments>", kernel->name, kernel->nargs);
}
static PyTypeObject kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cpu_codegen.Kernel",
    .tp_basicsize = offsetof(Kernel, kinds),
    .tp_itemsize = 1,
    .tp_dealloc = kernel_dealloc,
    .tp_repr = kernel_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Callable, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_members = callable_members,
    .tp_doc = "A compiled kernel: call it with its buffers and numbers in order.",
};

/* kernel(name, library, symbol, symbol of its work function, kinds): kinds is bytes, one per argument. */
static PyObject *make_kernel(PyObject *module, PyObject *args) {
  PyObject *name;
  Library *library;
  const char *symbol, *work_symbol, *kinds;
  Py_ssize_t nargs;
  if (!PyArg_ParseTuple(args, "UO!ssy#", &name, &library_type, &library, &symbol, &work_symbol, &kinds, &nargs)) return NULL;
  if (nargs > MAX_ARGS) return PyErr_Format(PyExc_ValueError, "kernel %U has %zd arguments, more than %d", name, nargs, MAX_ARGS);
  void *function = dlsym(library->handle, symbol), *work = dlsym(library->handle, work_symbol);
  if (!function || !work) return PyErr_Format(PyExc_OSError, "%s: no such function", function ? work_symbol : symbol);
  Kernel *kernel = PyObject_NewVar(Kernel, &kernel_type, nargs);
  if (!kernel) return NULL;
  kernel->vectorcall = kernel_call;
  kernel->library = (Library *)Py_NewRef((PyObject *)library);
  kernel->function = (KernelFunction)(uintptr_t)function;
  kernel->work = (WorkFunction)(uintptr_t)work;
  kernel->nargs = nargs;
  kernel->name = Py_NewRef(name);
  memcpy(kernel->kinds, kinds, nargs);
  return (PyObject *)kernel;
}

static PyObject *configure(PyObject *module, PyObject *facts) {
  if (set_address_facts(facts) < 0) return NULL;
  Py_RETURN_NONE;
}

/* fresh(tensor, bytes) -> tensor */
static PyObject *fresh(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  Word start, bytes;
  if (nargs != 2) return PyErr_Format(PyExc_TypeError, "fresh takes 2 arguments, not %zd", nargs);
  if (read_word(args[0], BUFFER, &start) < 0 || read_word(args[1], INTEGER, &bytes) < 0) return NULL;
#ifdef MADV_HUGEPAGE
  const uintptr_t page = sysconf(_SC_PAGESIZE), begin = ((uintptr_t)start.pointer + page - 1) / page * page;
  const uintptr_t end = ((uintptr_t)start.pointer + bytes.integer) / page * page;
  /* A system without large pages refuses: then pages are small, and all else is as it was. */
  if (end > begin) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#endif
  return Py_NewRef(args[0]);
}

static PyMethodDef methods[] = {
    {"pool", pool, METH_NOARGS, "pool() -> (bytes in use, stretches, bytes of address space)"},
    {"pooled", (PyCFunction)(void (*)(void))pooled, METH_FASTCALL, "pooled(size, stride, dtype) -> tensor that nobody has written to"},
    {"pooled_configure", pooled_configure, METH_VARARGS, "pooled_configure(from_dlpack, empty_strided, codes, least)"},
    {"fresh", (PyCFunction)(void (*)(void))fresh, METH_FASTCALL, "fresh(tensor, bytes) -> tensor, in large pages if it may be"},
    {"kernel", make_kernel, METH_VARARGS, "kernel(name, library, symbol, work symbol, kinds) -> callable"},
    {"open", open_library, METH_VARARGS, "open(path) -> library"},
    {"configure", configure, METH_VARARGS, "configure(*address facts)"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "launcher", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_launcher(void) {
  if (PyType_Ready(&kernel_type) < 0 || PyType_Ready(&library_type) < 0) return NULL;
  return PyModule_Create(&definition);
}
