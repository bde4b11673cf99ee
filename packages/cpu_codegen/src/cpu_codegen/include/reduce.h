// Accumulators of reductions: what a pass over the inner loops gathers, and the result at its end.
// N independent partial results hide the latency of the combining operation.
#pragma once
#include "math.h"

namespace vec {

template <class T>
struct Limits;
#define LIMITS(T, LOWEST, HIGHEST)                \
  template <>                                     \
  struct Limits<T> {                              \
    static constexpr T lowest = LOWEST;           \
    static constexpr T highest = HIGHEST;         \
  };
LIMITS(float, -INF, INF)
LIMITS(double, -(double)INF, (double)INF)
LIMITS(i64, -__INT64_MAX__ - 1, __INT64_MAX__)
LIMITS(i32, -__INT32_MAX__ - 1, __INT32_MAX__)
LIMITS(i16, -32768, 32767)
LIMITS(i8, -128, 127)
LIMITS(u8, 0, 255)
LIMITS(bool, false, true)
#undef LIMITS

// V is Vec<T>, Mask, or a scalar in code that is not vectorised.
template <class V>
struct Element {
  using type = V;
};
template <class T>
struct Element<Vec<T>> {
  using type = T;
};
template <>
struct Element<Mask> {
  using type = bool;
};
template <class V>
using ElementOf = typename Element<V>::type;

struct Sum {
  template <class T>
  static constexpr T identity = T(0);
  template <class V>
  static INLINE V combine(V a, V b) {
    return a + b;
  }
};
struct Prod {
  template <class T>
  static constexpr T identity = T(1);
  template <class V>
  static INLINE V combine(V a, V b) {
    return a * b;
  }
};
struct Max {
  template <class T>
  static constexpr T identity = Limits<T>::lowest;
  template <class V>
  static INLINE V combine(V a, V b) {
    return maximum(a, b);
  }
};
struct Min {
  template <class T>
  static constexpr T identity = Limits<T>::highest;
  template <class V>
  static INLINE V combine(V a, V b) {
    return minimum(a, b);
  }
};
struct Any {
  template <class T>
  static constexpr T identity = false;
  template <class V>
  static INLINE V combine(V a, V b) {
    return a | b;
  }
};
struct All {
  template <class T>
  static constexpr T identity = true;
  template <class V>
  static INLINE V combine(V a, V b) {
    return a & b;
  }
};

// All lanes into one, in a fixed tree.
template <class Op, class T>
INLINE T across(T a) {
  return a;
}
// One vector register by swapping halves, quarters, ...: every lane ends up with the result.
#define SWAPPED(...) __builtin_shufflevector(part, part, __VA_ARGS__)
template <class Op, class T>
INLINE T across(Vec<T> a) {
  if constexpr (sizeof(T) < 4) {
    T lane[LANES];
    store(lane, a, Full());
    for (int width = LANES / 2; width > 0; width /= 2)
      for (int k = 0; k < width; ++k) lane[k] = T(Op::combine(lane[k], lane[k + width]));
    return lane[0];
  } else {
    constexpr int N = Vec<T>::LANES_PER_PART;
    Vec<T> b;
    if constexpr (Vec<T>::PARTS == 2) {
      b.part[0] = a.part[1], b.part[1] = a.part[0];
      a = Op::combine(a, b);
    }
    const auto step = [&](auto swapped) INLINE_BODY {
      for (int k = 0; k < Vec<T>::PARTS; ++k) b.part[k] = swapped(a.part[k]);
      a = Op::combine(a, b);
    };
    if constexpr (N == 16) {
      step([](auto part) INLINE_BODY { return SWAPPED(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7); });
      step([](auto part) INLINE_BODY { return SWAPPED(4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11); });
      step([](auto part) INLINE_BODY { return SWAPPED(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13); });
      step([](auto part) INLINE_BODY { return SWAPPED(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14); });
    } else if constexpr (N == 8) {
      step([](auto part) INLINE_BODY { return SWAPPED(4, 5, 6, 7, 0, 1, 2, 3); });
      step([](auto part) INLINE_BODY { return SWAPPED(2, 3, 0, 1, 6, 7, 4, 5); });
      step([](auto part) INLINE_BODY { return SWAPPED(1, 0, 3, 2, 5, 4, 7, 6); });
    } else if constexpr (N == 4) {
      step([](auto part) INLINE_BODY { return SWAPPED(2, 3, 0, 1); });
      step([](auto part) INLINE_BODY { return SWAPPED(1, 0, 3, 2); });
    } else {
      step([](auto part) INLINE_BODY { return SWAPPED(1, 0); });
    }
    return a[0];
  }
}
#undef SWAPPED
template <class Op>
INLINE bool across(Mask a) {
  return same_type<Op, All> ? all_of(a) : any_of(a);
}

template <class V>
INLINE V keep(Full, V value, V) {
  return value;
}
template <class V>
INLINE V keep(Tail tail, V value, V other) {
  return select(active(tail), value, other);
}

template <class Op, class V, int N = 1>
struct Accumulate {
  using T = ElementOf<V>;
  V part[N];
  INLINE Accumulate() {
#pragma GCC unroll 8
    for (int k = 0; k < N; ++k) part[k] = V(Op::template identity<T>);
  }
  template <class Lanes>
  INLINE void add(V value, Lanes lanes, int k = 0) {
    part[k] = Op::combine(part[k], keep(lanes, value, V(Op::template identity<T>)));
  }
  INLINE void fold() {}
  // The partial results in one.
  INLINE V value() const {
    V all = part[0];
#pragma GCC unroll 8
    for (int k = 1; k < N; ++k) all = Op::combine(all, part[k]);
    return all;
  }
  INLINE T result() const { return across<Op>(value()); }
  INLINE T partial() const { return result(); }
};

// float32 sums: partial sums are added to a total every few hundred steps (`fold`), so that rounding errors of long
// sums stay near those of a tree.
template <class V, int N = 1>
struct Cascade {
  Accumulate<Sum, V, N> recent;
  V total = V(0);
  template <class Lanes>
  INLINE void add(V value, Lanes lanes, int k = 0) {
    recent.add(value, lanes, k);
  }
  INLINE void fold() {
    total = total + recent.value();
    recent = Accumulate<Sum, V, N>();
  }
  INLINE V value() const { return total + recent.value(); }
  INLINE ElementOf<V> result() const { return across<Sum>(value()); }
  INLINE ElementOf<V> partial() const { return result(); }
};

// Position of the largest (LARGEST) or smallest value; the first one of equals, and a NaN beats every number.
template <bool LARGEST, class T>
INLINE bool beats(T a, i64 at_a, T b, i64 at_b) {
  if (a == b || (a != a && b != b)) return at_a < at_b;
  return a != a || (b == b && (LARGEST ? a > b : a < b));
}
template <bool LARGEST, class T>
INLINE Mask beats(Vec<T> a, I64 at_a, Vec<T> b, I64 at_b) {
  const Mask equal = (a == b) | ((a != a) & (b != b));
  const Mask better = (LARGEST ? a > b : a < b) | ((a != a) & (b == b));
  return better | (equal & (at_a < at_b));
}
template <bool LARGEST, class T>
struct ScalarArgBest {
  T best = LARGEST ? Limits<T>::lowest : Limits<T>::highest;
  i64 at = __INT64_MAX__;
  INLINE void add(T value, i64 position, Full, int = 0) {
    if (beats<LARGEST>(value, position, best, at)) best = value, at = position;
  }
  INLINE void fold() {}
  INLINE i64 value() const { return at; }
  INLINE i64 result() const { return at; }
};
template <bool LARGEST, class V>
struct ArgBest {
  using T = ElementOf<V>;
  V best = V(LARGEST ? Limits<T>::lowest : Limits<T>::highest);
  I64 at = I64(__INT64_MAX__);
  template <class Lanes>
  INLINE void add(V value, I64 position, Lanes lanes, int = 0) {
    const Mask take = beats<LARGEST>(value, position, best, at) & active(lanes);
    best = select(take, value, best);
    at = select(take, position, at);
  }
  INLINE void fold() {}
  INLINE I64 value() const { return at; }
  // The best of all lanes.
  INLINE ScalarArgBest<LARGEST, T> partial() const {
    T values[LANES];
    i64 positions[LANES];
    store(values, best, Full());
    store(positions, at, Full());
    ScalarArgBest<LARGEST, T> winner;
    for (int lane = 0; lane < LANES; ++lane) winner.add(values[lane], positions[lane], Full());
    return winner;
  }
  INLINE i64 result() const { return partial().at; }
};

// ---- Loops that reduce: `body(index, lanes, k)` with k the partial result to use, a compile-time constant once inlined

template <int N>
struct Constant {
  static constexpr int value = N;
  INLINE constexpr operator int() const { return N; }
};
// body(0), ... body(N - 1), N at most 8
template <int N, class Body>
INLINE void each(Body body) {
  body(Constant<0>());
  if constexpr (N > 1) body(Constant<1>());
  if constexpr (N > 2) body(Constant<2>());
  if constexpr (N > 3) body(Constant<3>());
  if constexpr (N > 4) body(Constant<4>());
  if constexpr (N > 5) body(Constant<5>());
  if constexpr (N > 6) body(Constant<6>());
  if constexpr (N > 7) body(Constant<7>());
}
// N values by Constant<k>, each a member of its own: arrays of what has a constructor are made in a loop, and stay in memory.
template <class T, int N>
struct Several : Several<T, N - 1> {
  T last;
  using Several<T, N - 1>::operator[];
  INLINE T& operator[](Constant<N - 1>) { return last; }
};
template <class T>
struct Several<T, 0> {
  void operator[](Constant<-1>);
};
template <int N, class Body>
INLINE void reduce_vectors(Index begin, Index end, Body body) {
  Index i = begin;
  for (; i + N * LANES <= end; i += N * LANES)
    each<N>([&](auto k) INLINE_BODY { body(i + k.value * LANES, Full(), k); });
  if constexpr (N > 1)
    for (; i + LANES <= end; i += LANES) body(i, Full(), Constant<0>());
  if (i < end) body(i, Tail{int(end - i)}, Constant<0>());
}
template <int N, class Body>
INLINE void reduce_whole_vectors(Index begin, Index end, Body body) {
  for (Index i = begin; i < end; i += N * LANES)
    each<N>([&](auto k) INLINE_BODY { body(i + k.value * LANES, Full(), k); });
}

}  // namespace vec
