// What every generated file includes: vectors, functions, reductions, and the ways in and out of a kernel.
#pragma once
#include "reduce.h"
#include "transpose.h"

namespace vec {

// One argument of a kernel: a buffer's address, a size, or a number that is a double to Python.
union Word {
  void* pointer;
  Index integer;
  double number;
};

// What a kernel returns; the launcher raises the exception.
enum Status { DONE = 0, INDEX_ERROR = 1, RUNTIME_ERROR = 2 };

// Integer division of index expressions, rounding down.
INLINE Index floor_div(Index a, Index b) { return floordiv<Index>(a, b); }
INLINE Index modulo(Index a, Index b) { return remainder<Index>(a, b); }
INLINE Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// Positions read from data: false if one is out of range. `wrap`: negative ones count from the end.
INLINE bool within(Index& position, Index size) { return position >= 0 && position < size; }
INLINE bool wrap(Index& position, Index size) {
  if (position < 0) position += size;
  return within(position, size);
}
template <class Lanes>
INLINE bool within(Index (&position)[LANES], I64 value, Index size, Lanes lanes) {
  const Mask good = (value >= I64(0)) & (value < I64(size));
  store(position, value, Full());
  return all_of(good | !active(lanes));
}
INLINE bool within(Index (&position)[LANES], I64 value, Index size, Mask lanes) {
  const Mask good = (value >= I64(0)) & (value < I64(size));
  store(position, select(lanes, value, I64(0)), Full());
  return all_of(good | !lanes);
}
template <class Lanes>
INLINE bool wrap(Index (&position)[LANES], I64 value, Index size, Lanes lanes) {
  return within(position, select(value < I64(0), value + I64(size), value), size, lanes);
}
INLINE Mask active(Mask lanes) { return lanes; }

template <class T, class V>
INLINE void add_to(T* p, V x) {
  store(p, decltype(load(p))(load(p) + x));
}
INLINE void add_to(bool* p, bool x) { *p = *p || x; }
template <class T, class V>
INLINE void mul_to(T* p, V x) {
  store(p, decltype(load(p))(load(p) * x));
}
template <class T, class V>
INLINE void max_to(T* p, V x) {
  // Both tests are made, so that none is a jump: which is larger cannot be foretold.
  const auto old = load(p), other = decltype(load(p))(x);
  store(p, (other > old) | (other != other) ? other : old);
}
template <class T, class V>
INLINE void min_to(T* p, V x) {
  const auto old = load(p), other = decltype(load(p))(x);
  store(p, (other < old) | (other != other) ? other : old);
}
// To neighbours, each of them once.
template <class T, class V, class Lanes>
INLINE void add_to(T* p, V x, Lanes lanes) {
  store(p, load<V>(p, lanes) + x, lanes);
}
template <class T, class V, class Lanes>
INLINE void mul_to(T* p, V x, Lanes lanes) {
  store(p, load<V>(p, lanes) * x, lanes);
}
template <class T, class V, class Lanes>
INLINE void max_to(T* p, V x, Lanes lanes) {
  store(p, maximum(load<V>(p, lanes), x), lanes);
}
template <class T, class V, class Lanes>
INLINE void min_to(T* p, V x, Lanes lanes) {
  store(p, minimum(load<V>(p, lanes), x), lanes);
}
#define SCATTER(name, combine)                                                            \
  template <class V, class Lanes, class At>                                               \
  INLINE void name(V x, Lanes lanes, At at) {                                             \
    typename Lane<V>::type buffer[LANES];                                                 \
    store(buffer, x, Full());                                                             \
    ROLLED for (int lane = 0; lane < lanes.n; ++lane) combine(at(lane), buffer[lane]);    \
  }
SCATTER(scatter_add, add_to)
SCATTER(scatter_mul, mul_to)
SCATTER(scatter_max, max_to)
SCATTER(scatter_min, min_to)
#undef SCATTER

// Memory for what one pass over a row keeps for the next: on the stack if it is short.
template <class T>
struct Row {
  alignas(VECTOR_BYTES) T near[2048];
  T* data;
  INLINE explicit Row(Index count) : data(count <= 2048 ? near : (T*)__builtin_malloc(count * sizeof(T))) {}
  INLINE ~Row() {
    if (data != near) __builtin_free(data);
  }
};

// What threads share, if it may be too large for the stack; the caller frees it.
template <class Shared>
INLINE Shared* new_shared() {
  return (Shared*)__builtin_malloc(sizeof(Shared));
}

// Threads by the OpenMP runtime's own entry points: any compiler can call them, whatever runtime its -fopenmp is for.
#if defined(_OPENMP) || defined(USE_THREADS)
#define THREADS 1
extern "C" {
int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_in_parallel(void);
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags);
}
#endif

// Work (in units of about a quarter nanosecond) below which a second thread costs more than it saves.
constexpr Index GRAIN = 60000;

using Items = int (*)(const Word* args, void* shared, Index begin, Index end);

#ifdef THREADS
struct Team {
  Items items;
  const Word* args;
  void* shared;
  Index count;
  int status;
};
// One thread's share of the items.
static void team_member(void* data) {
  Team& team = *(Team*)data;
  const Index threads = omp_get_num_threads(), me = omp_get_thread_num();
  const int mine = team.items(team.args, team.shared, team.count * me / threads, team.count * (me + 1) / threads);
  if (mine != DONE) __atomic_store_n(&team.status, mine, __ATOMIC_RELAXED);
}
#endif

// How many threads `parallel` may use here.
static inline Index workers() {
#ifdef THREADS
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

// Run items [0, count) on as many threads as the work is worth, each thread one contiguous share.
static inline int parallel(Items items, const Word* args, void* shared, Index count, Index work) {
#ifdef THREADS
  if (count > 1 && work > GRAIN && !omp_in_parallel()) {
    const Index threads = at_most(at_most(omp_get_max_threads(), count), ceil_div(work, GRAIN));
    if (threads > 1) {
      Team team = {items, args, shared, count, DONE};
      GOMP_parallel(team_member, &team, (unsigned)threads, 0);
      return team.status;
    }
  }
#endif
  return items(args, shared, 0, count);
}

}  // namespace vec
