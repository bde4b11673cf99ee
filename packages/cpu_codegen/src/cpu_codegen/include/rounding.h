// What polynomials are made of, and elementwise functions of few instructions: signs, rounding, roots, bounds.
#pragma once
#include "memory.h"

namespace vec {

// ---- a * b + c with one rounding where the machine has it

#if defined(__clang__)
template <class Part>
INLINE Part fused(Part a, Part b, Part c) {
#pragma clang fp contract(on)
  return a * b + c;
}
#define FUSED(A, B, C) fused(A, B, C)
#elif defined(__AVX512F__) && VECTOR_BYTES == 64
INLINE auto fused(Vec<float>::Part a, Vec<float>::Part b, Vec<float>::Part c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, (u16)-1, 4);
}
INLINE auto fused(Vec<double>::Part a, Vec<double>::Part b, Vec<double>::Part c) {
  return __builtin_ia32_vfmaddpd512_mask(a, b, c, (u8)-1, 4);
}
#define FUSED(A, B, C) fused(A, B, C)
#elif defined(__FMA__) && VECTOR_BYTES == 32
INLINE auto fused(Vec<float>::Part a, Vec<float>::Part b, Vec<float>::Part c) {
  return __builtin_ia32_vfmaddps256(a, b, c);
}
INLINE auto fused(Vec<double>::Part a, Vec<double>::Part b, Vec<double>::Part c) {
  return __builtin_ia32_vfmaddpd256(a, b, c);
}
#define FUSED(A, B, C) fused(A, B, C)
#else
#define FUSED(A, B, C) ((A) * (B) + (C))
#endif
template <class T>
INLINE Vec<T> mul_add(Vec<T> a, Vec<T> b, Vec<T> c) {
  for (int k = 0; k < Vec<T>::PARTS; ++k) a.part[k] = FUSED(a.part[k], b.part[k], c.part[k]);
  return a;
}
#undef FUSED

// c[0] + x * c[1] + x * x * c[2] + ..., two coefficients a step: half as long a chain of dependent operations as one a step.
template <class T>
INLINE Vec<T> pairs(Vec<T>, Vec<T>, T last) {
  return Vec<T>(last);
}
template <class T>
INLINE Vec<T> pairs(Vec<T> x, Vec<T>, T a, T b) {
  return mul_add(Vec<T>(b), x, Vec<T>(a));
}
template <class T, class... Rest>
INLINE Vec<T> pairs(Vec<T> x, Vec<T> square, T a, T b, Rest... rest) {
  return mul_add(pairs(x, square, (T)rest...), square, mul_add(Vec<T>(b), x, Vec<T>(a)));
}
template <class T, class... Coefficients>
INLINE Vec<T> polynomial(Vec<T> x, Coefficients... c) {
  return pairs(x, x * x, (T)c...);
}

// f of each lane
template <class T, class F>
INLINE Vec<T> by_lane(Vec<T> a, F f) {
  T x[LANES];
  store(x, a, Full());
  ROLLED for (int lane = 0; lane < LANES; ++lane) x[lane] = f(x[lane]);
  return load<Vec<T>>(x, Full());
}
template <class T, class F>
INLINE Vec<T> by_lane(Vec<T> a, Vec<T> b, F f) {
  T x[LANES], y[LANES];
  store(x, a, Full());
  store(y, b, Full());
  ROLLED for (int lane = 0; lane < LANES; ++lane) x[lane] = f(x[lane], y[lane]);
  return load<Vec<T>>(x, Full());
}

// ---- Signs, rounding, roots

template <class T>
INLINE Vec<T> abs(Vec<T> a) {
  if constexpr (is_float<T>) return bitcast<T>(bitcast<Int<T>>(a) & ~bitcast<Int<T>>(Vec<T>(T(-0.0))));
  else if constexpr (T(-1) > T(0)) return a;
  else return select(a < Vec<T>(T(0)), -a, a);
}
INLINE float abs(float a) { return __builtin_fabsf(a); }
INLINE double abs(double a) { return __builtin_fabs(a); }
template <class T>
INLINE T abs(T a) {
  return a < 0 ? -a : a;
}
template <class T>
INLINE Vec<T> copysign(Vec<T> size, Vec<T> sign) {
  const auto bit = bitcast<Int<T>>(Vec<T>(T(-0.0)));
  return bitcast<T>((bitcast<Int<T>>(size) & ~bit) | (bitcast<Int<T>>(sign) & bit));
}
INLINE float copysign(float a, float b) { return __builtin_copysignf(a, b); }
INLINE double copysign(double a, double b) { return __builtin_copysign(a, b); }

template <class T>
INLINE Mask isnan(Vec<T> a) {
  return a != a;
}
INLINE bool isnan(float a) { return a != a; }
INLINE bool isnan(double a) { return a != a; }
template <class T>
INLINE Mask isinf(Vec<T> a) {
  return abs(a) == Vec<T>((T)INF);
}
INLINE bool isinf(float a) { return abs(a) == INF; }
INLINE bool isinf(double a) { return abs(a) == (double)INF; }
template <class T>
INLINE Mask signbit(Vec<T> a) {
  return bitcast<Int<T>>(a) < Vec<Int<T>>(Int<T>(0));
}
template <class T>
INLINE bool signbit(T a) {
  return bitcast<Int<T>>(a) < 0;
}
// -1, 0 or 1; 0 for NaN and for -0.0, as in torch.
template <class T>
INLINE Vec<T> sign(Vec<T> a) {
  const Vec<T> zero = Vec<T>(T(0)), one = Vec<T>(T(1));
  return select(a > zero, one, zero) - select(a < zero, one, zero);
}
template <class T>
INLINE T sign(T a) {
  return T((a > 0) - (a < 0));
}

#define SCALARS(NAME)                                                                                   \
  INLINE float NAME(float a) { return __builtin_##NAME##f(a); }                                         \
  INLINE double NAME(double a) { return __builtin_##NAME(a); }
#define LANES_OF_FLOAT64(NAME)                                                                          \
  INLINE F64 NAME(F64 a) {                                                                              \
    return by_lane(a, [](double x) INLINE_BODY { return __builtin_##NAME(x); });                        \
  }
#define LANE_BY_LANE(NAME)                                                                              \
  SCALARS(NAME)                                                                                         \
  LANES_OF_FLOAT64(NAME)
#define LANE_BY_LANE_FLOAT(NAME)                                                                        \
  LANE_BY_LANE(NAME)                                                                                    \
  INLINE F32 NAME(F32 a) {                                                                              \
    return by_lane(a, [](float x) INLINE_BODY { return __builtin_##NAME##f(x); });                      \
  }

#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
#define SQRT_PS(A) __builtin_ia32_sqrtps512_mask(A, A, (u16)-1, 4)
#define SQRT_PD(A) __builtin_ia32_sqrtpd512_mask(A, A, (u8)-1, 4)
#define ROUND_PS(A, HOW) __builtin_ia32_rndscaleps_mask(A, HOW, A, (u16)-1, 4)
#define ROUND_PD(A, HOW) __builtin_ia32_rndscalepd_mask(A, HOW, A, (u8)-1, 4)
#elif defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
#define SQRT_PS(A) __builtin_ia32_sqrtps256(A)
#define SQRT_PD(A) __builtin_ia32_sqrtpd256(A)
#define ROUND_PS(A, HOW) __builtin_ia32_roundps256(A, HOW)
#define ROUND_PD(A, HOW) __builtin_ia32_roundpd256(A, HOW)
#elif defined(__SSE2__) && VECTOR_BYTES == 16 && !defined(__clang__)
#define SQRT_PS(A) __builtin_ia32_sqrtps(A)
#define SQRT_PD(A) __builtin_ia32_sqrtpd(A)
#endif

#ifdef SQRT_PS
INLINE float sqrt(float a) { return __builtin_sqrtf(a); }
INLINE double sqrt(double a) { return __builtin_sqrt(a); }
INLINE F32 sqrt(F32 a) {
  a.part[0] = SQRT_PS(a.part[0]);
  return a;
}
INLINE F64 sqrt(F64 a) {
  for (int k = 0; k < F64::PARTS; ++k) a.part[k] = SQRT_PD(a.part[k]);
  return a;
}
#else
LANE_BY_LANE_FLOAT(sqrt)
#endif

#ifdef ROUND_PS
// The last argument: 8 (no exception) plus 0 to nearest even, 1 down, 2 up, 3 toward zero.
#define ROUNDING(NAME, BUILTIN, HOW)                                                                    \
  INLINE float NAME(float a) { return __builtin_##BUILTIN##f(a); }                                      \
  INLINE double NAME(double a) { return __builtin_##BUILTIN(a); }                                       \
  INLINE F32 NAME(F32 a) {                                                                              \
    a.part[0] = ROUND_PS(a.part[0], HOW);                                                               \
    return a;                                                                                           \
  }                                                                                                     \
  INLINE F64 NAME(F64 a) {                                                                              \
    for (int k = 0; k < F64::PARTS; ++k) a.part[k] = ROUND_PD(a.part[k], HOW);                          \
    return a;                                                                                           \
  }
#else
#define ROUNDING(NAME, BUILTIN, HOW)                                                                    \
  INLINE float NAME(float a) { return __builtin_##BUILTIN##f(a); }                                      \
  INLINE double NAME(double a) { return __builtin_##BUILTIN(a); }                                       \
  INLINE F32 NAME(F32 a) {                                                                              \
    return by_lane(a, [](float x) INLINE_BODY { return __builtin_##BUILTIN##f(x); });                   \
  }                                                                                                     \
  INLINE F64 NAME(F64 a) {                                                                              \
    return by_lane(a, [](double x) INLINE_BODY { return __builtin_##BUILTIN(x); });                     \
  }
#endif
ROUNDING(round, rint, 8)
ROUNDING(floor, floor, 9)
ROUNDING(ceil, ceil, 10)
ROUNDING(trunc, trunc, 11)

template <class V>
INLINE V reciprocal(V a) {
  return V(1) / a;
}
INLINE F32 reciprocal(F32 a) { return F32(1) / a; }
INLINE F64 reciprocal(F64 a) { return F64(1) / a; }
template <class V>
INLINE V rsqrt(V a) {
  return reciprocal(sqrt(a));
}

// ---- Larger and smaller, NaN if either is NaN

#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
#define MAX_PS(A, B) __builtin_ia32_maxps512_mask(A, B, A, (u16)-1, 4)
#define MIN_PS(A, B) __builtin_ia32_minps512_mask(A, B, A, (u16)-1, 4)
#define MAX_PD(A, B) __builtin_ia32_maxpd512_mask(A, B, A, (u8)-1, 4)
#define MIN_PD(A, B) __builtin_ia32_minpd512_mask(A, B, A, (u8)-1, 4)
#elif defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
#define MAX_PS(A, B) __builtin_ia32_maxps256(A, B)
#define MIN_PS(A, B) __builtin_ia32_minps256(A, B)
#define MAX_PD(A, B) __builtin_ia32_maxpd256(A, B)
#define MIN_PD(A, B) __builtin_ia32_minpd256(A, B)
#endif
#ifdef MAX_PS
// Of equal or unordered operands the instruction returns the second: only a NaN in the first one is left to see to.
#define BOUND(NAME, PS, PD)                                                                             \
  INLINE F32 NAME(F32 a, F32 b) {                                                                       \
    a.part[0] = a.part[0] == a.part[0] ? PS(a.part[0], b.part[0]) : a.part[0];                          \
    return a;                                                                                           \
  }                                                                                                     \
  INLINE F64 NAME(F64 a, F64 b) {                                                                       \
    for (int k = 0; k < 2; ++k)                                                                         \
      a.part[k] = a.part[k] == a.part[k] ? PD(a.part[k], b.part[k]) : a.part[k];                        \
    return a;                                                                                           \
  }
BOUND(maximum, MAX_PS, MAX_PD)
BOUND(minimum, MIN_PS, MIN_PD)
#undef BOUND
#endif
template <class T>
INLINE Vec<T> maximum(Vec<T> a, Vec<T> b) {
  if constexpr (is_float<T>) return select((a > b) | (a != a), a, b);
  else {
    // A part at a time, which is one instruction: masks are as wide as 32 bits.
    for (int k = 0; k < Vec<T>::PARTS; ++k) a.part[k] = a.part[k] > b.part[k] ? a.part[k] : b.part[k];
    return a;
  }
}
template <class T>
INLINE Vec<T> minimum(Vec<T> a, Vec<T> b) {
  if constexpr (is_float<T>) return select((a < b) | (a != a), a, b);
  else {
    // A part at a time, which is one instruction: masks are as wide as 32 bits.
    for (int k = 0; k < Vec<T>::PARTS; ++k) a.part[k] = a.part[k] < b.part[k] ? a.part[k] : b.part[k];
    return a;
  }
}
template <class T>
INLINE T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
INLINE T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}

// `x` held between two bounds; NaN stays.
INLINE F32 at_least(F32 x, float low) {
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
  x.part[0] = __builtin_ia32_maxps512_mask(F32(low).part[0], x.part[0], x.part[0], (u16)-1, 4);
  return x;
#elif defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
  // Of unordered operands the instruction returns the second.
  x.part[0] = __builtin_ia32_maxps256(F32(low).part[0], x.part[0]);
  return x;
#else
  return select(x < F32(low), F32(low), x);
#endif
}
INLINE F32 at_most(F32 x, float high) {
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
  x.part[0] = __builtin_ia32_minps512_mask(F32(high).part[0], x.part[0], x.part[0], (u16)-1, 4);
  return x;
#elif defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
  x.part[0] = __builtin_ia32_minps256(F32(high).part[0], x.part[0]);
  return x;
#else
  return select(x > F32(high), F32(high), x);
#endif
}
INLINE F32 clamp(F32 x, float low, float high) { return at_least(at_most(x, high), low); }
INLINE F64 at_least(F64 x, double low) {
  for (int k = 0; k < F64::PARTS; ++k)
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
    x.part[k] = __builtin_ia32_maxpd512_mask(F64(low).part[k], x.part[k], x.part[k], (u8)-1, 4);
#elif defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
    x.part[k] = __builtin_ia32_maxpd256(F64(low).part[k], x.part[k]);
#else
    x.part[k] = x.part[k] < F64(low).part[k] ? F64(low).part[k] : x.part[k];
#endif
  return x;
}
INLINE F64 at_most(F64 x, double high) {
  for (int k = 0; k < F64::PARTS; ++k)
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
    x.part[k] = __builtin_ia32_minpd512_mask(F64(high).part[k], x.part[k], x.part[k], (u8)-1, 4);
#elif defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
    x.part[k] = __builtin_ia32_minpd256(F64(high).part[k], x.part[k]);
#else
    x.part[k] = x.part[k] > F64(high).part[k] ? F64(high).part[k] : x.part[k];
#endif
  return x;
}
INLINE F64 clamp(F64 x, double low, double high) { return at_least(at_most(x, high), low); }

}  // namespace vec
