/* A model packaged by meta.package(), called from C. The package is a shared object: meta_open() maps it, and fills in the
 * functions below. Link with -ldl (old C libraries), and let libtorch_cpu.so of a torch wheel be found, by linking it or by
 * LD_LIBRARY_PATH. All functions may be called from several threads at once, except for meta_destroy(). */
#ifndef META_PACKAGE_H
#define META_PACKAGE_H
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define META_MAX_DIM 16

typedef enum {
  META_UINT8 = 1, META_INT8, META_INT16, META_INT32, META_INT64, META_UINT16, META_UINT32, META_UINT64,
  META_BOOL, META_FLOAT16, META_BFLOAT16, META_FLOAT32, META_FLOAT64, META_COMPLEX64, META_COMPLEX128
} meta_dtype;

/* Memory with a layout: size and stride in elements. */
typedef struct {
  void *data;
  int32_t dtype; /* a meta_dtype */
  int32_t dim;
  int64_t size[META_MAX_DIM];
  int64_t stride[META_MAX_DIM];
  void *owner; /* of an output: what meta_release() frees */
} meta_tensor;

typedef struct meta_model meta_model;

typedef struct {
  /* The model in the package at `path`; NULL where there is none that can run here. Its weights are mapped, not copied. */
  meta_model *(*create)(const char *path);
  void (*destroy)(meta_model *);
  int32_t (*input_count)(void);
  int32_t (*output_count)(void);
  const char *(*input_name)(int32_t input);
  /* Run it: reads the inputs, fills in the outputs, whose memory is the caller's until release(). 0, or -1: see error(). */
  int32_t (*run)(meta_model *, const meta_tensor *inputs, meta_tensor *outputs);
  void (*release)(meta_tensor *outputs, int32_t count);
  /* The same on torch's AtenTensorHandles: the inputs stay the caller's, the outputs become it. */
  int32_t (*run_handles)(meta_model *, void *const *inputs, void **outputs);
  /* What went wrong in this thread. */
  const char *(*error)(void);
} meta_package;

/* Maps the package and gives its functions; NULL with a reason by dlerror(). `path` holds a slash, or dlopen() searches. */
static inline const meta_package *meta_open(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return library ? (const meta_package *)dlsym(library, "meta_package_functions") : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
