// What every native wrapper runs on: the shim's functions, checks, and the ways in, from C and from Python.
// Flows in: `graph` of the generated file. Flows out: `meta_package_functions` and `python_function`.
#include "native.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meta_package.h"

#define EXPORT __attribute__((visibility("default")))

namespace native {

static thread_local Failure last;

void fail(Kind kind, const char* format, ...) {
  Failure failure;
  failure.kind = kind;
  va_list values;
  va_start(values, format);
  vsnprintf(failure.text, sizeof failure.text, format, values);
  va_end(values);
  throw failure;
}

// ---- The shim

Shim shim;

static const Import needed[] = {
    {"aoti_torch_delete_tensor_object", (void**)&shim.delete_tensor_object},
    {"aoti_torch_new_tensor_handle", (void**)&shim.new_tensor_handle},
    {"aoti_torch_empty_strided", (void**)&shim.empty_strided},
    {"aoti_torch_create_tensor_from_blob", (void**)&shim.create_tensor_from_blob},
    {"aoti_torch__reinterpret_tensor", (void**)&shim.reinterpret_tensor},
    {"aoti_torch_get_data_ptr", (void**)&shim.get_data_ptr},
    {"aoti_torch_get_dim", (void**)&shim.get_dim},
    {"aoti_torch_get_sizes", (void**)&shim.get_sizes},
    {"aoti_torch_get_strides", (void**)&shim.get_strides},
    {"aoti_torch_get_dtype", (void**)&shim.get_dtype},
    {"aoti_torch_get_device_type", (void**)&shim.get_device_type},
    {"aoti_torch_get_layout", (void**)&shim.get_layout},
    {"aoti_torch_is_defined", (void**)&shim.is_defined},
    {"aoti_torch_copy_", (void**)&shim.copy_},
    {"torch_call_dispatcher", (void**)&shim.call_dispatcher},
    {"torch_new_list_reserve_size", (void**)&shim.new_list},
    {"torch_list_push_back", (void**)&shim.push_back},
    {"torch_list_size", (void**)&shim.list_size},
    {"torch_list_get_item", (void**)&shim.list_item},
    {"torch_delete_list", (void**)&shim.delete_list},
    {"torch_new_string_handle", (void**)&shim.new_string},
    {"aoti_torch_grad_mode_is_enabled", (void**)&shim.grad_enabled},
    {"aoti_torch_grad_mode_set_enabled", (void**)&shim.set_grad_enabled},
    {"aoti_torch_device_type_cpu", (void**)&shim.cpu},
    {"aoti_torch_layout_strided", (void**)&shim.strided},
    {"aoti_torch_dtype_element_size", (void**)&shim.element_size},
    {"aoti_torch_abi_version", (void**)&shim.abi_version},
};

// Kernels' threads are those of the OpenMP runtime that torch itself runs on; without one there is a single thread.
static void (*gomp_parallel)(void (*)(void*), void*, unsigned, unsigned);
static int (*max_threads)(void);
static int (*num_threads)(void);
static int (*thread_num)(void);
static int (*in_parallel)(void);

static void import(void* library, const Import& wanted) {
  *wanted.place = dlsym(library, wanted.name);
  if (!*wanted.place) fail(RUNTIME_ERROR, "this torch has no function %s, which the model calls", wanted.name);
}

static void import_all() {
  void* library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(RUNTIME_ERROR, "torch's libtorch_cpu.so is not found: %s", dlerror());
  for (const Import& each : needed) import(library, each);
  for (int32_t k = 0; k < graph.imports; ++k) import(library, graph.import[k]);
  const Import threads[] = {{"GOMP_parallel", (void**)&gomp_parallel},
                            {"omp_get_max_threads", (void**)&max_threads},
                            {"omp_get_num_threads", (void**)&num_threads},
                            {"omp_get_thread_num", (void**)&thread_num},
                            {"omp_in_parallel", (void**)&in_parallel}};
  bool all = true;
  for (const Import& each : threads) all &= (*each.place = dlsym(library, each.name)) != nullptr;
  if (!all) max_threads = nullptr;
}

void failed(const char* what) {
  const char* why = "torch has printed why";
  static const char* (*get_what)() = (const char* (*)())dlsym(dlopen("libtorch_cpu.so", RTLD_NOW), "torch_exception_get_what_without_backtrace");
  if (get_what) why = get_what();
  fail(RUNTIME_ERROR, "%s failed: %s", what, why);
}

// ---- Tensors and memory

Memory::Memory(int64_t bytes) {
  if (posix_memalign(&data, 64, bytes > 0 ? bytes : 1) != 0) {
    data = nullptr;
    fail(MEMORY_ERROR, "no memory for %lld bytes", (long long)bytes);
  }
}

Tensor empty(int32_t dim, const int64_t* size, const int64_t* stride, int32_t dtype) {
  Handle made;
  check(shim.empty_strided(dim, size, stride, dtype, shim.cpu(), 0, &made), "empty_strided");
  return Tensor(made, true);
}

Tensor strided(const Tensor& base, int32_t dim, const int64_t* size, const int64_t* stride, int64_t offset) {
  Handle made;
  check(shim.reinterpret_tensor(base.handle, dim, size, stride, offset, &made), "as_strided");
  return Tensor(made, true);
}

static const char* input_name(int32_t at) { return graph.input[at].name; }

Argument argument(const Word* in, int32_t at, int32_t dtype, const char* dtype_name, int32_t dim) {
  Argument made;
  made.tensor = Tensor((Handle)in[at].pointer, false);
  const Handle handle = made.tensor.handle;
  int32_t found;
  check(shim.get_device_type(handle, &found), "device");
  if (found != shim.cpu()) fail(VALUE_ERROR, "input %s is not on the CPU", input_name(at));
  check(shim.get_layout(handle, &found), "layout");
  if (found != shim.strided()) fail(VALUE_ERROR, "input %s is not a strided tensor", input_name(at));
  check(shim.get_dtype(handle, &found), "dtype");
  if (found != dtype) fail(TYPE_ERROR, "input %s is not of dtype %s", input_name(at), dtype_name);
  int64_t dims;
  check(shim.get_dim(handle, &dims), "dim");
  if (dims != dim) fail(VALUE_ERROR, "input %s has %lld dimensions, not %d", input_name(at), (long long)dims, dim);
  check(shim.get_sizes(handle, (int64_t**)&made.size), "size");
  check(shim.get_strides(handle, (int64_t**)&made.stride), "stride");
  void* data;
  check(shim.get_data_ptr(handle, &data), "data_ptr");
  bool none = false;
  for (int32_t d = 0; d < dim; ++d) none |= made.size[d] == 0;
  if (!data && !none) fail(VALUE_ERROR, "input %s has no memory of its own", input_name(at));
  return made;
}

int64_t dimension(const Tensor& tensor, int32_t dim) {
  int64_t* sizes;
  check(shim.get_sizes(tensor.handle, &sizes), "size");
  return sizes[dim];
}

int64_t step(const Tensor& tensor, int32_t dim) {
  int64_t* strides;
  check(shim.get_strides(tensor.handle, &strides), "stride");
  return strides[dim];
}

void mismatch(int32_t input, const char* what, int32_t dim, int64_t found, const char* wanted) {
  fail(VALUE_ERROR, "input %s: the %s of dimension %d is %lld, and the model is compiled for %s", input_name(input), what, dim,
       (long long)found, wanted);
}

void fit(Tensor& result, int32_t dim, const int64_t* size, const int64_t* stride, int32_t dtype, const char* what) {
  if (!result.handle) fail(RUNTIME_ERROR, "%s returned no tensor", what);
  int64_t dims, *sizes, *strides;
  int32_t type;
  check(shim.get_dim(result.handle, &dims), "dim");
  check(shim.get_sizes(result.handle, &sizes), "size");
  check(shim.get_strides(result.handle, &strides), "stride");
  check(shim.get_dtype(result.handle, &type), "dtype");
  bool same = dims == dim && type == dtype, fits = true, none = false;
  for (int32_t d = 0; same && d < dim; ++d) {
    same = sizes[d] == size[d];
    fits &= size[d] == 1 || strides[d] == stride[d];
    none |= size[d] == 0;
  }
  if (!same) fail(RUNTIME_ERROR, "%s returned another size or dtype than its shape rule said", what);
  if (fits || none) return;
  Tensor copy = empty(dim, size, stride, dtype);
  check(shim.copy_(copy.handle, result.handle, 0), "copy_");
  result = static_cast<Tensor&&>(copy);
}

// ---- Operators by name

Stable stable_tensor(const Tensor& tensor) {
  Handle made;
  check(shim.new_tensor_handle(tensor.handle, &made), "new_tensor_handle");
  return (Stable)(uintptr_t)made;
}
Stable stable_string(const char* text, size_t length) {
  Opaque* made;
  check(shim.new_string(text, length, &made), "string");
  return (Stable)(uintptr_t)made;
}
Stable stable_list(const Stable* values, size_t count) {
  Opaque* made;
  check(shim.new_list(count, &made), "list");
  for (size_t k = 0; k < count; ++k) check(shim.push_back(made, values[k]), "list");
  return (Stable)(uintptr_t)made;
}
void dispatch(const char* name, const char* overload, Stable* stack) {
  check(shim.call_dispatcher(name, overload, stack, shim.abi_version()), name);
}
Tensor taken(Stable value) {
  const Handle handle = (Handle)(uintptr_t)value;
  bool defined;
  check(shim.is_defined(handle, &defined), "is_defined");
  if (defined) return Tensor(handle, true);
  shim.delete_tensor_object(handle);
  return Tensor();
}
void taken_list(Stable value, Tensor** results, size_t count) {
  Opaque* list = (Opaque*)(uintptr_t)value;
  size_t found;
  check(shim.list_size(list, &found), "list");
  for (size_t k = 0; k < found && k < count; ++k) {
    Stable item;
    check(shim.list_item(list, k, &item), "list");
    Tensor made = taken(item);
    if (results[k]) *results[k] = static_cast<Tensor&&>(made);
  }
  check(shim.delete_list(list), "list");
  if (found != count) fail(RUNTIME_ERROR, "an operator returned %zu results, not %zu", found, count);
}

// ---- Models

static Model* made_model() {
  Model* model = (Model*)calloc(1, sizeof(Model));
  if (!model) fail(MEMORY_ERROR, "no memory for a model");
  model->constant = new Tensor[graph.constants];
  model->view = new Tensor[graph.views];
  return model;
}

static void destroy(Model* model) {
  delete[] model->view;
  delete[] model->constant;
  if (model->mapped) munmap(model->mapped, model->length);
  free(model);
}

static void check_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool good = true;
  if (!strcmp(graph.isa, "avx2") || !strcmp(graph.isa, "avx512"))
    good = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (!strcmp(graph.isa, "avx512"))
    good = good && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!good) fail(RUNTIME_ERROR, "the model is compiled for processors with %s, which this one has not", graph.isa);
#endif
}

// Of a package: what its code is made of, as 64 hexadecimal digits. The file says the same of itself, since the loader may give an
// older library for a path where there is another file by now.
extern "C" __attribute__((weak, visibility("hidden"))) const char package_identity[];

// The end of a package's file; the same numbers are written by meta.
struct Footer {
  char magic[16];
  uint64_t library_size, weights_at, weights_size, manifest_at, manifest_size;
  char identity[64];
  uint8_t digest[32];
};
static const char MAGIC[17] = "meta.package v2\n";

static void* map_weights(const char* path, size_t* length) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(RUNTIME_ERROR, "%s can't be opened", path);
  struct stat status;
  Footer footer;
  const bool read = fstat(file, &status) == 0 && status.st_size > (off_t)sizeof footer &&
                    pread(file, &footer, sizeof footer, status.st_size - sizeof footer) == (ssize_t)sizeof footer;
  const uint64_t size = read ? (uint64_t)status.st_size - sizeof footer : 0;
  const bool whole = read && !memcmp(footer.magic, MAGIC, sizeof footer.magic) && footer.manifest_at <= size &&
                     footer.manifest_size == size - footer.manifest_at && footer.weights_at <= footer.manifest_at &&
                     footer.weights_size <= footer.manifest_at - footer.weights_at;
  const Constant* final = graph.constants ? &graph.constant[graph.constants - 1] : nullptr;
  void* mapped = nullptr;
  const bool right = whole && package_identity && !memcmp(footer.identity, package_identity, sizeof footer.identity) &&
                     (!final || (uint64_t)(final->at + final->length) <= footer.weights_size);
  if (right && footer.weights_size) {
    // Private and writable: an operator that writes to a weight by mistake changes neither the file nor another model.
    mapped = mmap(nullptr, footer.weights_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, footer.weights_at);
    *length = footer.weights_size;
  }
  close(file);
  if (!right) fail(RUNTIME_ERROR, "%s is no package of this model, or is not whole", path);
  if (mapped == MAP_FAILED) fail(MEMORY_ERROR, "the weights in %s can't be mapped", path);
  return mapped;
}

static Model* create(const char* path) {
  check_processor();
  import_all();
  Model* model = made_model();
  try {
    model->mapped = map_weights(path, &model->length);
    for (int32_t k = 0; k < graph.constants; ++k) {
      const Constant& constant = graph.constant[k];
      Handle made;
      check(shim.create_tensor_from_blob((char*)model->mapped + constant.at, constant.dim, constant.size, constant.stride, 0,
                                         (*constant.dtype)(), shim.cpu(), 0, &made),
            "a weight");
      model->constant[k] = Tensor(made, true);
    }
    graph.prepare(*model);
  } catch (...) {
    destroy(model);
    throw;
  }
  return model;
}

// Gradients are none of a graph's matter, but operators would record them, or refuse to write into given memory.
struct WithoutGrad {
  const bool before = shim.grad_enabled();
  WithoutGrad() {
    if (before) shim.set_grad_enabled(false);
  }
  ~WithoutGrad() {
    if (before) shim.set_grad_enabled(true);
  }
};

static void run(Model& model, const Word* in, Word* out) {
  WithoutGrad without;
  for (int32_t k = 0; k < graph.outputs; ++k) out[k].pointer = nullptr;
  try {
    graph.run(model, in, out);
  } catch (...) {
    for (int32_t k = 0; k < graph.outputs; ++k)
      if (graph.output[k] == 0 && out[k].pointer) shim.delete_tensor_object((Handle)out[k].pointer);
    throw;
  }
}

// ---- From C

template <class Work>
static int32_t guarded(Work work) {
  try {
    work();
    return 0;
  } catch (const Failure& failure) {
    last = failure;
  }
  return -1;
}

static const struct {
  int32_t ours;
  const char* name;
} dtypes[] = {
    {META_UINT8, "uint8"}, {META_INT8, "int8"}, {META_INT16, "int16"}, {META_INT32, "int32"}, {META_INT64, "int64"},
    {META_UINT16, "uint16"}, {META_UINT32, "uint32"}, {META_UINT64, "uint64"}, {META_BOOL, "bool"}, {META_FLOAT16, "float16"},
    {META_BFLOAT16, "bfloat16"}, {META_FLOAT32, "float32"}, {META_FLOAT64, "float64"}, {META_COMPLEX64, "complex64"},
    {META_COMPLEX128, "complex128"},
};
static int32_t torch_dtype(const char* name) {
  char symbol[64];
  snprintf(symbol, sizeof symbol, "aoti_torch_dtype_%s", name);
  const auto function = (int32_t(*)())dlsym(dlopen("libtorch_cpu.so", RTLD_NOW), symbol);
  if (!function) fail(RUNTIME_ERROR, "this torch has no %s", name);
  return function();
}

static meta_model* c_create(const char* path) {
  Model* made = nullptr;
  guarded([&] { made = create(path); });
  return (meta_model*)made;
}
static void c_destroy(meta_model* model) { destroy((Model*)model); }
static int32_t c_inputs() { return graph.inputs; }
static int32_t c_outputs() { return graph.outputs; }
static const char* c_error() { return last.text; }

static int32_t c_run_handles(meta_model* model, void* const* inputs, void** outputs) {
  return guarded([&] { run(*(Model*)model, (const Word*)inputs, (Word*)outputs); });
}

static void c_release(meta_tensor* outputs, int32_t count) {
  for (int32_t k = 0; k < count; ++k) {
    if (outputs[k].owner) shim.delete_tensor_object((Handle)outputs[k].owner);
    outputs[k].owner = nullptr;
  }
}

static void describe(Handle handle, meta_tensor* tensor) {
  int64_t dim, *size, *stride;
  int32_t dtype;
  check(shim.get_dim(handle, &dim), "dim");
  check(shim.get_sizes(handle, &size), "size");
  check(shim.get_strides(handle, &stride), "stride");
  check(shim.get_dtype(handle, &dtype), "dtype");
  check(shim.get_data_ptr(handle, &tensor->data), "data_ptr");
  if (dim > META_MAX_DIM) fail(RUNTIME_ERROR, "an output has more than %d dimensions", META_MAX_DIM);
  tensor->dim = (int32_t)dim;
  tensor->dtype = 0;
  for (const auto& each : dtypes)
    if (torch_dtype(each.name) == dtype) tensor->dtype = each.ours;
  for (int64_t d = 0; d < dim; ++d) tensor->size[d] = size[d], tensor->stride[d] = stride[d];
}

static int32_t c_run(meta_model* model, const meta_tensor* inputs, meta_tensor* outputs) {
  for (int32_t k = 0; k < graph.outputs; ++k) outputs[k].owner = nullptr;
  const int32_t status = guarded([&] {
    Tensor* given = new Tensor[graph.inputs];
    Word* in = (Word*)calloc(graph.inputs + graph.outputs + 1, sizeof(Word));
    try {
      for (int32_t k = 0; k < graph.inputs; ++k) {
        const meta_tensor& one = inputs[k];
        const char* name = nullptr;
        for (const auto& each : dtypes)
          if (each.ours == one.dtype) name = each.name;
        if (!name || one.dim < 0 || one.dim > META_MAX_DIM) fail(VALUE_ERROR, "input %s has no dtype or dimensions", input_name(k));
        Handle made;
        check(shim.create_tensor_from_blob(one.data, one.dim, one.size, one.stride, 0, torch_dtype(name), shim.cpu(), 0, &made),
              "an input");
        given[k] = Tensor(made, true);
        in[k].pointer = made;
      }
      Word* out = in + graph.inputs;
      run(*(Model*)model, in, out);
      for (int32_t k = 0; k < graph.outputs; ++k) outputs[k].owner = out[k].pointer;
      for (int32_t k = 0; k < graph.outputs; ++k) describe((Handle)out[k].pointer, &outputs[k]);
    } catch (...) {
      free(in);
      delete[] given;
      throw;
    }
    free(in);
    delete[] given;
  });
  if (status != 0) c_release(outputs, graph.outputs);
  return status;
}

extern "C" EXPORT const meta_package meta_package_functions = {
    c_create, c_destroy, c_inputs, c_outputs, input_name, c_run, c_release, c_run_handles, c_error,
};

// ---- From Python: by its stable ABI, each name of which may be missing, since C programs have no Python.

struct PyObject;
#define PYTHON extern "C" __attribute__((weak, visibility("default")))
PYTHON PyObject* PyTuple_New(ptrdiff_t);
PYTHON int PyTuple_SetItem(PyObject*, ptrdiff_t, PyObject*);
PYTHON PyObject* PyObject_GetAttrString(PyObject*, const char*);
PYTHON PyObject* PyObject_CallFunctionObjArgs(PyObject*, ...);
PYTHON PyObject* PyCapsule_New(void*, const char*, void (*)(PyObject*));
PYTHON void* PyCapsule_GetPointer(PyObject*, const char*);
PYTHON void* PyLong_AsVoidPtr(PyObject*);
PYTHON int64_t PyLong_AsLongLong(PyObject*);
PYTHON PyObject* PyLong_FromLongLong(long long);
PYTHON double PyFloat_AsDouble(PyObject*);
PYTHON PyObject* PyFloat_FromDouble(double);
PYTHON PyObject* PyBool_FromLong(long);
PYTHON PyObject* PyErr_Occurred();
PYTHON PyObject* PyErr_Format(PyObject*, const char*, ...);
PYTHON void* PyEval_SaveThread();
PYTHON void PyEval_RestoreThread(void*);
PYTHON void Py_IncRef(PyObject*);
PYTHON void Py_DecRef(PyObject*);
struct PyMethodDef {
  const char* name;
  PyObject* (*function)(PyObject*, PyObject* const*, ptrdiff_t);
  int flags;
  const char* doc;
};
PYTHON PyObject* PyCFunction_NewEx(PyMethodDef*, PyObject*, PyObject*);
PYTHON char _Py_NoneStruct[];
PYTHON PyObject* PyObject_CallObject(PyObject*, PyObject*);
PYTHON PyObject *PyExc_RuntimeError, *PyExc_IndexError, *PyExc_ValueError, *PyExc_TypeError, *PyExc_MemoryError;

static PyObject* raised(const Failure& failure) {
  PyObject* const kinds[] = {nullptr, PyExc_RuntimeError, PyExc_IndexError, PyExc_ValueError, PyExc_TypeError, PyExc_MemoryError};
  return PyErr_Format(kinds[failure.kind], "%s", failure.text);
}

// What a Python function is bound to.
struct Bound {
  Model* model;
  PyObject* wrap;      // a capsule of a handle becomes a torch.Tensor
  PyObject* instead;   // called where the graph fails, or null
  ptrdiff_t offset;    // where in a Python tensor its at::Tensor lies, or 0
};

static PyObject* wrapped(const Bound& bound, uint8_t kind, Word value) {
  switch (kind) {
    case 0: {
      PyObject* capsule = PyCapsule_New(value.pointer, nullptr, nullptr);
      if (!capsule) return nullptr;
      PyObject* made = PyObject_CallFunctionObjArgs(bound.wrap, capsule, nullptr);
      Py_DecRef(capsule);
      return made;
    }
    case 1: return PyLong_FromLongLong(value.integer);
    case 2: return PyFloat_FromDouble(value.number);
    case 3: return PyBool_FromLong(value.integer != 0);
    default: Py_IncRef((PyObject*)_Py_NoneStruct); return (PyObject*)_Py_NoneStruct;
  }
}

static PyObject* python_call(PyObject* self, PyObject* const* args, ptrdiff_t count) {
  const Bound& bound = *(Bound*)PyCapsule_GetPointer(self, nullptr);
  if (count != graph.inputs)
    return PyErr_Format(PyExc_TypeError, "the graph takes %d inputs, got %zd", (int)graph.inputs, (ssize_t)count);
  Word words[graph.inputs + 1], out[graph.outputs + 1];
  void* cells[graph.inputs + 1];
  for (int32_t k = 0; k < graph.inputs; ++k) {
    const uint8_t kind = graph.input[k].kind;
    if (kind == 0 && bound.offset) {
      words[k].pointer = (char*)args[k] + bound.offset;
      continue;
    }
    if (kind == 0) {
      // A tensor's `_cdata` is the one word that an at::Tensor consists of.
      PyObject* address = PyObject_GetAttrString(args[k], "_cdata");
      if (!address) return PyErr_Format(PyExc_TypeError, "input %s is not a tensor", input_name(k));
      cells[k] = PyLong_AsVoidPtr(address);
      Py_DecRef(address);
      words[k].pointer = &cells[k];
    } else if (kind == 1) {
      words[k].integer = PyLong_AsLongLong(args[k]);
    } else {
      words[k].number = PyFloat_AsDouble(args[k]);
    }
    if (PyErr_Occurred()) return nullptr;
  }
  Failure failure;
  failure.kind = (Kind)0;
  out[graph.outputs].integer = 0;  // whether an input was written to
  void* thread = graph.blocking ? PyEval_SaveThread() : nullptr;
  try {
    run(*bound.model, words, out);
  } catch (const Failure& caught) {
    failure = caught;
  }
  if (thread) PyEval_RestoreThread(thread);
  if (failure.kind && bound.instead && !out[graph.outputs].integer) {
    PyObject* given = PyTuple_New(count);
    for (ptrdiff_t k = 0; given && k < count; ++k) {
      Py_IncRef(args[k]);
      PyTuple_SetItem(given, k, args[k]);
    }
    PyObject* made = given ? PyObject_CallObject(bound.instead, given) : nullptr;
    if (given) Py_DecRef(given);
    return made;
  }
  if (failure.kind) return raised(failure);
  PyObject* result = PyTuple_New(graph.outputs);
  for (int32_t k = 0; k < graph.outputs; ++k) {
    PyObject* one = result ? wrapped(bound, graph.output[k], out[k]) : nullptr;
    if (one) {
      PyTuple_SetItem(result, k, one);
      continue;
    }
    for (int32_t rest = k; rest < graph.outputs; ++rest)
      if (graph.output[rest] == 0) shim.delete_tensor_object((Handle)out[rest].pointer);
    if (result) Py_DecRef(result);
    return nullptr;
  }
  return result;
}

static void forget(PyObject* capsule) {
  Bound* bound = (Bound*)PyCapsule_GetPointer(capsule, nullptr);
  destroy(bound->model);
  Py_DecRef(bound->wrap);
  if (bound->instead) Py_DecRef(bound->instead);
  delete bound;
}

static PyMethodDef method = {"run", python_call, 0x80 /* METH_FASTCALL */, "run(*inputs) -> outputs"};

static PyObject* function_of(const Bound& bound) {
  Py_IncRef(bound.wrap);
  if (bound.instead) Py_IncRef(bound.instead);
  PyObject* capsule = PyCapsule_New(new Bound(bound), nullptr, forget);
  PyObject* made = PyCFunction_NewEx(&method, capsule, nullptr);
  Py_DecRef(capsule);
  return made;
}

// run(*inputs) -> tuple, of the model in the package at `path`.
extern "C" EXPORT PyObject* python_function(const char* path, PyObject* wrap) {
  try {
    return function_of({create(path), wrap, nullptr, 0});
  } catch (const Failure& failure) {
    return raised(failure);
  }
}

// run(*inputs) -> tuple, of a graph without weights. `instead` is called with the inputs of a call that fails before it wrote to any:
// it raises as eager does, or has the result. `offset`: of the at::Tensor in all tensors that come, 0 where nobody knows.
extern "C" EXPORT PyObject* python_graph(PyObject* wrap, PyObject* instead, ptrdiff_t offset) {
  try {
    import_all();
    return function_of({made_model(), wrap, instead, offset});
  } catch (const Failure& failure) {
    return raised(failure);
  }
}

}  // namespace native

// ---- What kernels call

#define HIDDEN extern "C" __attribute__((visibility("hidden")))
HIDDEN void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags) {
  native::gomp_parallel(function, data, threads, flags);
}
HIDDEN int omp_get_max_threads() { return native::max_threads ? native::max_threads() : 1; }
HIDDEN int omp_get_num_threads() { return native::max_threads ? native::num_threads() : 1; }
HIDDEN int omp_get_thread_num() { return native::max_threads ? native::thread_num() : 0; }
HIDDEN int omp_in_parallel() { return native::max_threads ? native::in_parallel() : 0; }
