/* Memory for large tensors that only compiled code sees. What is freed stays mapped for the next tensor: fresh memory comes a page at a
 * time, and each page costs several times as long as it takes to write it. Meanwhile the system may take freed pages back (MADV_FREE),
 * which it does when memory is short. Before this text stands inductor's addresses.h. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_PAGE ((uintptr_t)2 << 20)
#define SMALL_PAGE ((uintptr_t)4096)
/* Of address space, not of memory: a region is mapped as it is used. */
#define LEAST_REGION ((size_t)256 << 20)
#define MAX_DIMS 64

#define ROUND_UP(value, to) (((value) + (to) - 1) / (to) * (to))

/* A stretch of a region, in use or not. Blocks of a region follow each other without gaps, in the list as in memory. */
typedef struct Block {
  struct Block *before, *after;
  char *start;
  size_t bytes;
  bool used, first; /* first: of its region */
} Block;

static Block *blocks;
static size_t mapped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_blocks(void) { pthread_mutex_lock(&lock); }
static void unlock_blocks(void) { pthread_mutex_unlock(&lock); }

static Block *block_after(Block *before, char *start, size_t bytes) {
  Block *made = calloc(1, sizeof(Block));
  if (!made) return NULL;
  made->start = start, made->bytes = bytes, made->before = before;
  made->after = before ? before->after : NULL;
  if (made->after) made->after->before = made;
  if (before) before->after = made;
  else blocks = made;
  return made;
}

static Block *add_region(size_t bytes) {
  Block *last = blocks;
  while (last && last->after) last = last->after;
  size_t wanted = ROUND_UP(bytes, LARGE_PAGE);
  if (wanted < LEAST_REGION) wanted = LEAST_REGION;
  if (wanted < mapped) wanted = mapped;
  char *start = mmap(NULL, wanted + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    wanted = ROUND_UP(bytes, LARGE_PAGE);
    start = mmap(NULL, wanted + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
  }
  char *aligned = (char *)ROUND_UP((uintptr_t)start, LARGE_PAGE);
#ifdef MADV_HUGEPAGE
  (void)madvise(aligned, wanted, MADV_HUGEPAGE); /* a system without large pages refuses: then they are small */
#endif
  Block *made = block_after(last, aligned, wanted);
  if (!made) return munmap(start, wanted + LARGE_PAGE), NULL;
  made->first = true;
  mapped += wanted;
  return made;
}

/* The lowest stretch that is large enough; NULL where the system has no more. */
static Block *take(size_t bytes) {
  bytes = ROUND_UP(bytes, SMALL_PAGE);
  lock_blocks();
  Block *found = blocks;
  while (found && (found->used || found->bytes < bytes)) found = found->after;
  if (!found) found = add_region(bytes);
  if (found) {
    if (found->bytes > bytes && block_after(found, found->start + bytes, found->bytes - bytes)) found->bytes = bytes;
    found->used = true;
  }
  unlock_blocks();
  return found;
}

static void absorb_next(Block *block) {
  Block *next = block->after;
  if (!next || next->used || next->first || block->used) return;
  block->bytes += next->bytes;
  block->after = next->after;
  if (next->after) next->after->before = block;
  free(next);
}

static void give_back(Block *block) {
#ifdef MADV_FREE
  char *start = (char *)ROUND_UP((uintptr_t)block->start, LARGE_PAGE);
  char *end = (char *)((uintptr_t)(block->start + block->bytes) / LARGE_PAGE * LARGE_PAGE);
  if (end > start) (void)madvise(start, end - start, MADV_FREE);
#endif
  lock_blocks();
  block->used = false;
  absorb_next(block);
  if (!block->first) absorb_next(block->before);
  unlock_blocks();
}

/* What PyTorch takes memory of others by: https://dmlc.github.io/dlpack/latest/c_api.html */
typedef struct ManagedTensor {
  void *data;
  struct { int32_t type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  Block *block;
  void (*deleter)(struct ManagedTensor *);
  int64_t dims[];
} ManagedTensor;

static void delete_tensor(ManagedTensor *tensor) {
  give_back(tensor->block);
  free(tensor);
}

static void delete_capsule(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) delete_tensor(PyCapsule_GetPointer(capsule, "dltensor"));
}

static PyObject *from_dlpack, *empty_strided, *dtype_codes, *dtype_keyword;
static long long least;

/* pooled_configure(from_dlpack, empty_strided, {dtype: DLPack's code << 8 | bits}, least bytes) */
static PyObject *pooled_configure(PyObject *module, PyObject *args) {
  PyObject *values[3];
  if (!PyArg_ParseTuple(args, "OOO!L", values, values + 1, &PyDict_Type, values + 2, &least)) return NULL;
  Py_XSETREF(from_dlpack, Py_NewRef(values[0]));
  Py_XSETREF(empty_strided, Py_NewRef(values[1]));
  Py_XSETREF(dtype_codes, Py_NewRef(values[2]));
  if (!dtype_keyword && !(dtype_keyword = PyUnicode_InternFromString("dtype"))) return NULL;
  static int watched;  // handlers stay registered, and one that locks twice waits for itself
  if (!watched && pthread_atfork(lock_blocks, unlock_blocks, unlock_blocks) == 0) watched = 1;
  Py_RETURN_NONE;
}

/* Its numbers, of which there are n; -1 with an exception. */
static int read_dims(PyObject *tuple, Py_ssize_t n, int64_t *into) {
  for (Py_ssize_t k = 0; k < n; ++k) {
    into[k] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, k));
    if (into[k] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

/* pooled(size, stride, dtype) -> tensor. Of few bytes, or where there is no room, torch's own memory. */
static PyObject *pooled(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  if (nargs != 3 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]) || PyTuple_GET_SIZE(args[0]) != PyTuple_GET_SIZE(args[1]))
    return PyErr_Format(PyExc_TypeError, "pooled takes a size, a stride as long, and a dtype");
  const Py_ssize_t n = PyTuple_GET_SIZE(args[0]);
  PyObject *code = PyDict_GetItemWithError(dtype_codes, args[2]);
  if (!code && PyErr_Occurred()) return NULL;
  int64_t dims[2 * MAX_DIMS];
  if (!code || n > MAX_DIMS) goto torchs;
  if (read_dims(args[0], n, dims) < 0 || read_dims(args[1], n, dims + n) < 0) return NULL;
  const long known = PyLong_AsLong(code);
  if (PyErr_Occurred()) return NULL;
  int64_t last = 0;
  bool fits = true;
  for (Py_ssize_t k = 0; k < n; ++k) {
    int64_t span;
    fits = fits && dims[k] > 0 && dims[n + k] >= 0 && !__builtin_mul_overflow(dims[k] - 1, dims[n + k], &span) && !__builtin_add_overflow(last, span, &last);
  }
  int64_t bytes;
  if (!fits || __builtin_mul_overflow(last + 1, (known & 255) / 8, &bytes) || bytes < least || bytes > INT64_MAX / 4) goto torchs;
  ManagedTensor *tensor = calloc(1, sizeof(ManagedTensor) + 2 * n * sizeof(int64_t));
  if (!tensor) goto torchs;
  tensor->block = take(bytes);
  if (!tensor->block) {
    free(tensor);
    goto torchs;
  }
  memcpy(tensor->dims, dims, 2 * n * sizeof(int64_t));
  tensor->data = tensor->block->start;
  tensor->device.type = 1; /* kDLCPU */
  tensor->ndim = (int32_t)n;
  tensor->dtype.code = known >> 8, tensor->dtype.bits = known & 255, tensor->dtype.lanes = 1;
  tensor->shape = tensor->dims, tensor->strides = tensor->dims + n;
  tensor->deleter = delete_tensor;
  PyObject *capsule = PyCapsule_New(tensor, "dltensor", delete_capsule);
  if (!capsule) return delete_tensor(tensor), NULL;
  PyObject *made = PyObject_CallOneArg(from_dlpack, capsule);
  Py_DECREF(capsule);
  return made;
torchs: {
  PyObject *given[] = {args[0], args[1], args[2]};
  PyObject *names = PyTuple_Pack(1, dtype_keyword);
  if (!names) return NULL;
  PyObject *plain = PyObject_Vectorcall(empty_strided, given, 2, names);
  Py_DECREF(names);
  return plain;
}
}

/* pool() -> (bytes in use, stretches used and free, bytes of address space) */
static PyObject *pool(PyObject *module, PyObject *unused) {
  size_t used = 0, count = 0;
  lock_blocks();
  for (Block *block = blocks; block; block = block->after) used += block->used ? block->bytes : 0, ++count;
  const size_t all = mapped;
  unlock_blocks();
  return Py_BuildValue("nnn", (Py_ssize_t)used, (Py_ssize_t)count, (Py_ssize_t)all);
}
