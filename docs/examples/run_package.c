/* Runs a model that meta.package() wrote, and that takes one float32 tensor.
 *
 *   gcc run_package.c -I"$(python -c 'import inductor; print(inductor.NATIVE_FOLDER)')" -o run_package \
 *     -L"$TORCH/lib" -Wl,--no-as-needed -ltorch_cpu -Wl,-rpath,"$TORCH/lib" -ldl
 *   ./run_package model.so 3 8        # a tensor of 3 by 8: 0, 0.01, 0.02, ...
 *
 * Each result is printed as its sizes and its elements. */
#include <stdio.h>
#include <stdlib.h>

#include "meta_package.h"

static void print(const meta_tensor *tensor, int dim, int64_t at) {
  if (dim == tensor->dim) {
    printf(" %.9g", ((const float *)tensor->data)[at]);
    return;
  }
  for (int64_t k = 0; k < tensor->size[dim]; ++k) print(tensor, dim + 1, at + k * tensor->stride[dim]);
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: %s package sizes...\n", argv[0]), 2;
  const meta_package *package = meta_open(argv[1]);
  if (!package) return fprintf(stderr, "%s\n", dlerror()), 1;
  meta_model *model = package->create(argv[1]);
  if (!model) return fprintf(stderr, "%s\n", package->error()), 1;

  meta_tensor input = {.dtype = META_FLOAT32, .dim = argc - 2};
  int64_t elements = 1;
  for (int d = input.dim - 1; d >= 0; --d) {
    input.size[d] = atoll(argv[2 + d]);
    input.stride[d] = elements;
    elements *= input.size[d];
  }
  float *data = malloc(elements * sizeof *data);
  for (int64_t k = 0; k < elements; ++k) data[k] = 0.01f * k;
  input.data = data;

  const int count = package->output_count();
  meta_tensor *outputs = calloc(count, sizeof *outputs);
  const int status = package->run(model, &input, outputs);
  if (status != 0) fprintf(stderr, "%s\n", package->error());
  for (int k = 0; status == 0 && k < count; ++k) {
    printf("[");
    for (int d = 0; d < outputs[k].dim; ++d) printf(" %lld", (long long)outputs[k].size[d]);
    printf(" ]");
    if (outputs[k].dtype == META_FLOAT32) print(&outputs[k], 0, 0);
    printf("\n");
  }
  package->release(outputs, status == 0 ? count : 0);
  package->destroy(model);
  free(outputs);
  free(data);
  return status != 0;
}
