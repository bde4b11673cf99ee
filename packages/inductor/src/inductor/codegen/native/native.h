// What a native wrapper is written in: tensors by torch's stable C shim, memory, kernels, failures. No torch headers: every
// function of the shim is an import, looked up by name when the model is made.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace native {

struct Opaque;
using Handle = Opaque*;  // AtenTensorHandle: the address of an at::Tensor
using Status = int32_t;
using Stable = uint64_t;  // StableIValue

// One argument of a kernel, as the kernels' files have it; of a graph a tensor's handle or a number.
union Word {
  void* pointer;
  int64_t integer;
  double number;
};
using Kernel = int (*)(const Word*);

// What is raised, by Python's name for it.
enum Kind { RUNTIME_ERROR = 1, INDEX_ERROR, VALUE_ERROR, TYPE_ERROR, MEMORY_ERROR };
struct Failure {
  Kind kind;
  char text[700];
};
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail(Kind kind, const char* format, ...);

// A function of the shim, and where its address goes.
struct Import {
  const char* name;
  void** place;
};

struct Constant {
  int64_t at;  // bytes, in the package's weights
  int64_t length;
  int32_t (**dtype)();
  int32_t dim;
  const int64_t *size, *stride;
};

struct Input {
  const char* name;
  uint8_t kind;  // 0 a tensor, 1 an int, 2 a float
};

struct Model;

// All that the runtime knows of a graph.
struct Graph {
  int32_t inputs, outputs, constants, imports, views;
  const Input* input;
  const Constant* constant;
  const Import* import;
  const char* isa;
  bool blocking;  // there is enough to do to let other Python threads run meanwhile
  // For each output: 0 a tensor, 1 an int, 2 a float, 3 a bool, 4 None.
  const uint8_t* output;
  void (*prepare)(Model& model);
  void (*run)(Model& model, const Word* in, Word* out);
};
extern const Graph graph;

// The shim's functions that all wrappers need.
struct Shim {
  Status (*delete_tensor_object)(Handle);
  Status (*new_tensor_handle)(Handle, Handle*);
  Status (*empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Handle*);
  Status (*create_tensor_from_blob)(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, Handle*);
  Status (*reinterpret_tensor)(Handle, int64_t, const int64_t*, const int64_t*, int64_t, Handle*);
  Status (*get_data_ptr)(Handle, void**);
  Status (*get_dim)(Handle, int64_t*);
  Status (*get_sizes)(Handle, int64_t**);
  Status (*get_strides)(Handle, int64_t**);
  Status (*get_dtype)(Handle, int32_t*);
  Status (*get_device_type)(Handle, int32_t*);
  Status (*get_layout)(Handle, int32_t*);
  Status (*is_defined)(Handle, bool*);
  Status (*copy_)(Handle, Handle, int32_t);
  Status (*call_dispatcher)(const char*, const char*, Stable*, uint64_t);
  Status (*new_list)(size_t, Opaque**);
  Status (*push_back)(Opaque*, Stable);
  Status (*list_size)(Opaque*, size_t*);
  Status (*list_item)(Opaque*, size_t, Stable*);
  Status (*delete_list)(Opaque*);
  Status (*new_string)(const char*, size_t, Opaque**);
  bool (*grad_enabled)();
  void (*set_grad_enabled)(bool);
  int32_t (*cpu)();
  int32_t (*strided)();
  size_t (*element_size)(int32_t);
  uint64_t (*abi_version)();
};
extern Shim shim;
void failed(const char* what);  // raises for a call of the shim that did not return 0
inline void check(Status status, const char* what) {
  if (__builtin_expect(status != 0, 0)) failed(what);
}

// A tensor: of the caller's, or owned.
struct Tensor {
  Handle handle = nullptr;
  void* data = nullptr;
  bool owned = false;

  Tensor() = default;
  Tensor(Handle handle, bool owned) : handle(handle), owned(owned) { look(); }
  Tensor(Tensor&& other) noexcept : handle(other.handle), data(other.data), owned(other.owned) { other.owned = false; }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      drop();
      handle = other.handle, data = other.data, owned = other.owned;
      other.owned = false;
    }
    return *this;
  }
  ~Tensor() { drop(); }
  void drop() {
    if (owned) shim.delete_tensor_object(handle);
    owned = false;
  }
  void look() {
    if (handle) check(shim.get_data_ptr(handle, &data), "data_ptr");
  }
  // A result: where a call writes a new handle to, which `got` makes ours.
  Handle* result() {
    drop();
    handle = nullptr;
    return &handle;
  }
  void got() {
    owned = handle != nullptr;
    look();
  }
  // A handle for somebody who will delete it.
  Handle give() {
    Handle made = handle;
    if (owned)
      owned = false;
    else
      check(shim.new_tensor_handle(handle, &made), "new_tensor_handle");
    return made;
  }
};

// Memory of kernels' alone.
struct Memory {
  void* data = nullptr;
  Memory() = default;
  explicit Memory(int64_t bytes);
  Memory(Memory&& other) noexcept : data(other.data) { other.data = nullptr; }
  Memory& operator=(Memory&& other) noexcept {
    void* mine = data;
    data = other.data;
    other.data = mine;
    return *this;
  }
  ~Memory() { drop(); }
  void drop() {
    if (data) __builtin_free(data);
    data = nullptr;
  }
};

struct Model {
  Tensor* constant;
  Tensor* view;  // of constants, made once
  void* mapped;
  size_t length;
};

Tensor empty(int32_t dim, const int64_t* size, const int64_t* stride, int32_t dtype);
Tensor strided(const Tensor& base, int32_t dim, const int64_t* size, const int64_t* stride, int64_t offset);

// An input of the dtype and number of dimensions it was compiled for, on the CPU; else a TypeError or ValueError that names it.
struct Argument {
  Tensor tensor;
  const int64_t *size, *stride;
};
Argument argument(const Word* in, int32_t at, int32_t dtype, const char* dtype_name, int32_t dim);
int64_t dimension(const Tensor& tensor, int32_t dim);
int64_t step(const Tensor& tensor, int32_t dim);  // a stride
[[noreturn]] void mismatch(int32_t input, const char* what, int32_t dim, int64_t found, const char* wanted);

// A result as the kernels that read it were compiled for: the same, or a copy with those strides.
void fit(Tensor& result, int32_t dim, const int64_t* size, const int64_t* stride, int32_t dtype, const char* what);

inline void launched(int status, const char* name) {
  if (__builtin_expect(status != 0, 0)) {
    if (status == 1 || status == 2) fail(status == 1 ? INDEX_ERROR : RUNTIME_ERROR, "index out of range in self");
    fail(RUNTIME_ERROR, "kernel %s failed with status %d", name, status);
  }
}

inline Word at(const Tensor& tensor) { return Word{tensor.data}; }
inline Word at(const Memory& memory) { return Word{memory.data}; }
inline Word number(int64_t value) {
  Word word;
  word.integer = value;
  return word;
}
inline Word real(double value) {
  Word word;
  word.number = value;
  return word;
}

// Arguments of operators that are called by name.
inline Stable stable(int64_t value) { return (Stable)value; }
inline Stable stable_float(double value) {
  Word word = real(value);
  return (Stable)word.integer;
}
inline Stable stable_enum(int32_t value) { return (uint32_t)value; }
inline Stable stable_device(int32_t type, int32_t index) { return (uint64_t)(uint32_t)type << 32 | (uint32_t)index; }
Stable stable_tensor(const Tensor& tensor);
inline Stable stable_some(Stable value) { return (Stable)(uintptr_t) new Stable(value); }
Stable stable_string(const char* text, size_t length);
Stable stable_list(const Stable* values, size_t count);
void dispatch(const char* name, const char* overload, Stable* stack);
Tensor taken(Stable value);  // an operator's result
void taken_list(Stable value, Tensor** results, size_t count);  // a list of them; null where one is not needed

// Sizes or strides as an argument.
template <int N>
struct Ints {
  int64_t at[N];
  operator const int64_t*() const { return at; }
};

// Division of sizes, rounding down.
inline int64_t floordiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
inline int64_t mod(int64_t a, int64_t b) { return a - floordiv(a, b) * b; }

}  // namespace native
