/* Launches by CUDA's driver, for the extensions whose callables launch: stands between inductor's addresses.h and their own text. */
#include <string.h>

typedef int (*LaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **params, void **extra);
typedef int (*ErrorText)(int status, const char **text);

/* CUlaunchAttribute and CUlaunchConfig, as far as they are used here. */
typedef struct {
    int id;
    char pad[8 - sizeof(int)];
    union {
        char pad[64];
        int allowed;
    } value;
} Attribute;
typedef struct {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
    void *stream;
    Attribute *attributes;
    unsigned count;
} Configuration;
typedef int (*LaunchKernelEx)(const Configuration *configuration, void *function, void **params, void **extra);
#define EARLY 6 /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: the launch is set up while the one before it ends */

typedef struct {
    void *function;
    unsigned threads, shared;
    int early; /* it waits for the launches before it by itself */
} Code;

static LaunchKernel launch_kernel;
static LaunchKernelEx launch_kernel_ex;
static ErrorText error_text;
static PyObject *stream_of, *enter_device;
#define NO_CONTEXT 201 /* CUDA_ERROR_INVALID_CONTEXT: of a thread that has made no call of CUDA's runtime */

static const char *
text_of(int status)
{
    const char *text = NULL;
    error_text(status, &text);
    return text ? text : "unknown";
}

static int
current_stream(PyObject *device, void **stream)
{
    PyObject *current = PyObject_CallOneArg(stream_of, device);
    if (!current)
        return -1;
    *stream = PyLong_AsVoidPtr(current);
    Py_DECREF(current);
    return !*stream && PyErr_Occurred() ? -1 : 0;
}

static int
launch_here(const Code *code, unsigned programs, void *stream, void **params)
{
    int status;
    /* A full queue waits for the device, which may wait for a callback in Python. */
    Py_BEGIN_ALLOW_THREADS
    if (code->early) {
        Attribute early = {.id = EARLY, .value.allowed = 1};
        Configuration configuration = {programs, 1, 1, code->threads, 1, 1, code->shared, stream, &early, 1};
        status = launch_kernel_ex(&configuration, code->function, params, NULL);
    }
    else
        status = launch_kernel(code->function, programs, 1, 1, code->threads, 1, 1, code->shared, stream, params, NULL);
    Py_END_ALLOW_THREADS
    return status;
}

/* Puts a launch on a stream of the device; -1 with an exception where the driver refuses. */
static int
launch(PyObject *name, PyObject *device, const Code *code, unsigned programs, void *stream, void **params)
{
    int status = launch_here(code, programs, stream, params);
    if (status == NO_CONTEXT) {
        PyObject *entered = PyObject_CallOneArg(enter_device, device);
        status = entered ? launch_here(code, programs, stream, params) : 0;
        Py_XDECREF(entered);
    }
    if (PyErr_Occurred())
        return -1;
    if (status != 0) {
        PyErr_Format(PyExc_RuntimeError, "CUDA error %d at the launch of %U: %s", status, name, text_of(status));
        return -1;
    }
    return 0;
}

/* configure(address facts, current stream of a device index, what makes a device's context current, addresses of
 * cuLaunchKernel, cuLaunchKernelEx and cuGetErrorString) */
static PyObject *
configure(PyObject *module, PyObject *args)
{
    PyObject *facts, *stream, *enter;
    unsigned long long launcher, early, text;
    if (!PyArg_ParseTuple(args, "O!OOKKK", &PyTuple_Type, &facts, &stream, &enter, &launcher, &early, &text))
        return NULL;
    if (set_address_facts(facts) < 0)
        return NULL;
    Py_XSETREF(stream_of, Py_NewRef(stream));
    Py_XSETREF(enter_device, Py_NewRef(enter));
    launch_kernel = (LaunchKernel)(uintptr_t)launcher;
    launch_kernel_ex = (LaunchKernelEx)(uintptr_t)early;
    error_text = (ErrorText)(uintptr_t)text;
    Py_RETURN_NONE;
}
