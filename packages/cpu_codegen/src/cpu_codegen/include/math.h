// Elementwise functions on Vec and on scalars, as torch defines them, NaN, infinities, -0.0 and subnormals included.
// float32: polynomials (minimax fits made for this file), at most 2 ulp off (sigmoid and tanh 2.1); what has none here, and float64, calls libm
// lane by lane.
#pragma once
#include "vec.h"

namespace vec {

// ---- a * b + c with one rounding where the machine has it

#if defined(__clang__)
#define FUSED(A, B, C) __builtin_elementwise_fma(A, B, C)
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

#define LANE_BY_LANE(NAME)                                                                              \
  INLINE float NAME(float a) { return __builtin_##NAME##f(a); }                                         \
  INLINE double NAME(double a) { return __builtin_##NAME(a); }                                          \
  INLINE F64 NAME(F64 a) {                                                                              \
    return by_lane<F64>([&](int lane) INLINE_BODY { return __builtin_##NAME(a[lane]); });               \
  }
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

template <class T>
INLINE Vec<T> maximum(Vec<T> a, Vec<T> b) {
  if constexpr (is_float<T>) return select((a > b) | (a != a), a, b);
  else return select(a > b, a, b);
}
template <class T>
INLINE Vec<T> minimum(Vec<T> a, Vec<T> b) {
  if constexpr (is_float<T>) return select((a < b) | (a != a), a, b);
  else return select(a < b, a, b);
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

// ---- Exponentials

// Adding 1.5 * 2**23 leaves no fraction bits: the sum's last bits are the nearest integer, |x| < 2**21.
constexpr float ROUNDER = 0x1.8p23f;
struct Nearest {
  F32 value;
  I32 integer;
};
INLINE Nearest nearest(F32 a) {
  const F32 sum = a + F32(ROUNDER);
  return {sum - F32(ROUNDER), bitcast<i32>(sum) - bitcast<i32>(F32(ROUNDER))};
}
// 2**n, n in [-126, 127]
INLINE F32 power_of_two(I32 n) { return bitcast<float>(shift_left(n + I32(127), 23)); }
INLINE F64 power_of_two(I64 n) {
  n = n + I64(1023);
  for (int k = 0; k < I64::PARTS; ++k) n.part[k] <<= 52;
  return bitcast<double>(n);
}
INLINE I32 halve(I32 n) {
  n.part[0] >>= 1;
  return n;
}

// x = n * ln 2 + r with |r| <= ln 2 / 2; `bits`: n plus BIAS in the last bits.
template <int BIAS>
struct ByLn2 {
  F32 n, r;
  I32 bits;
  INLINE explicit ByLn2(F32 x) {
    const F32 rounder = F32(ROUNDER + BIAS), sum = mul_add(x, F32(1.44269504f), rounder);
    n = sum - rounder;
    bits = bitcast<i32>(sum);
    r = mul_add(n, F32(2.12194440e-4f), mul_add(n, F32(-0.693359375f), x));
  }
};
// exp(r) - 1 for |r| <= ln 2 / 2
INLINE F32 expm1_near(F32 r) {
  const F32 square = r * r;
  const F32 p = pairs(r, square, 0.5f, 0.166665182f, 0.0416662060f, 8.36895406e-3f, 1.39505998e-3f);
  return mul_add(square, p, r);
}

#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
INLINE F32 exp(F32 x) {
  const ByLn2<0> by(clamp(x, -104, 89));
  const F32 y = expm1_near(by.r) + F32(1);
  F32 result;
  result.part[0] = __builtin_ia32_scalefps512_mask(y.part[0], by.n.part[0], y.part[0], (u16)-1, 4);
  return result;
}
#else
INLINE F32 exp(F32 x) {
  if (__builtin_expect(any_of(x > F32(44)), 0)) {
    const ByLn2<0> by(clamp(x, -104, 89));
    // In two steps: 2**128 does not fit.
    const I32 n = by.bits - bitcast<i32>(F32(ROUNDER)), half = halve(n);
    return (expm1_near(by.r) + F32(1)) * power_of_two(half) * power_of_two(n - half);
  }
  // 2**(n + 64), then 2**-64: subnormal results are rounded once.
  const ByLn2<127 + 64> by(at_least(x, -104));
  return (expm1_near(by.r) + F32(1)) * bitcast<float>(shift_left(by.bits, 23)) * F32(0x1p-64f);
}
#endif
INLINE float exp(float a) { return __builtin_expf(a); }
INLINE double exp(double a) { return __builtin_exp(a); }
INLINE F64 exp(F64 x) {
  F64 a = select(x > F64(710), F64(710), x);
  a = select(a < F64(-746), F64(-746), a);
  const F64 magic = F64(0x1.8p52), sum = mul_add(a, F64(1.4426950408889634), magic), n = sum - magic;
  F64 r = mul_add(n, F64(-0x1.62e42fee00000p-1), a);
  r = mul_add(n, F64(-0x1.a39ef35793c76p-33), r);
  const F64 square = r * r;
  const F64 p = pairs(r, square, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                      1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
  const F64 y = mul_add(square, p, r) + F64(1);
  const I64 whole = bitcast<i64>(sum) - bitcast<i64>(magic);
  if (__builtin_expect(!any_of(abs(a) > F64(700)), 1)) return y * power_of_two(whole);
  // In two steps, so that subnormal results are rounded once.
  const I64 half = convert<i64>(halve(convert<i32>(whole)));
  return y * power_of_two(half) * power_of_two(whole - half);
}
// exp and expm1 for x in [-87, 88], to about 1e-7: steps of other functions.
INLINE F32 exp_step(F32 x) {
  const ByLn2<127> by(x);
  return (expm1_near(by.r) + F32(1)) * bitcast<float>(shift_left(by.bits, 23));
}
INLINE F32 expm1_step(F32 x) {
  const ByLn2<127> by(x);
  const F32 scale = bitcast<float>(shift_left(by.bits, 23));
  return mul_add(expm1_near(by.r), scale, scale - F32(1));
}

INLINE F32 expm1(F32 x) {
  const ByLn2<126> by(clamp(x, -30, 89));
  const F32 square = by.r * by.r;
  const F32 p =
      pairs(by.r, square, 0.5f, 0.166666657f, 0.0416663587f, 8.33338965e-3f, 1.39407208e-3f, 1.98458845e-4f);
  // 2**n * y + (2**n - 1), doubled at the end: 2**128 does not fit.
  const F32 scale = bitcast<float>(shift_left(by.bits, 23));
  const F32 result = mul_add(mul_add(square, p, by.r), scale, scale - F32(0.5f));
  return copysign(select(abs(x) < F32(1e-4f), mul_add(x * x, F32(0.5f), x), result + result), x);
}
LANE_BY_LANE(expm1)

INLINE F32 exp2(F32 x) {
  const Nearest n = nearest(clamp(x, -151, 129));
  const F32 r = clamp(x, -151, 129) - n.value;
  const F32 y = polynomial(r, 1.0f, 0.693147182f, 0.240226507f, 0.0555041097f, 9.61812958e-3f, 1.33334508e-3f,
                           1.54034176e-4f, 1.53100209e-5f);
  const I32 half = halve(n.integer);
  return y * power_of_two(half) * power_of_two(n.integer - half);
}
LANE_BY_LANE(exp2)

// ---- Logarithms

struct Split {
  F32 exponent;
  F32 fraction;  // mantissa - 1, mantissa in [sqrt(1/2), sqrt(2))
};
INLINE Split split(F32 x) {
  const Mask tiny = x < F32(0x1p-126f);
  const I32 bits = bitcast<i32>(select(tiny, x * F32(0x1p23f), x));
  I32 exponent = bits - I32(0x3f3504f3);
  exponent.part[0] >>= 23;
  const F32 mantissa = bitcast<float>(bits - shift_left(exponent, 23));
  return {convert<float>(exponent) - select(tiny, F32(23), F32(0)), mantissa - F32(1)};
}
// log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1]
INLINE F32 log_remainder(F32 f) {
  const F32 p = polynomial(f, 0.333333135f, -0.250000089f, 0.200021192f, -0.166679963f, 0.142195508f, -0.124055915f,
                           0.118881747f, -0.116756409f, 0.0674660131f);
  const F32 square = f * f;
  return mul_add(square * f, p, F32(-0.5f) * square);
}
// What logarithms give outside the positive finite numbers.
INLINE F32 log_special(F32 x, F32 result) {
  result = select(x == F32(0), F32(-INF), result);
  result = select(x < F32(0), F32(NOT_A_NUMBER), result);
  return select((x == F32(INF)) | isnan(x), x, result);
}
INLINE F32 log(F32 x) {
  // Positive normal numbers need no special care.
  if (__builtin_expect(all_of((x >= F32(0x1p-126f)) & (x < F32(INF))), 1)) {
    const I32 bits = bitcast<i32>(x), mantissa_bits = I32(0x3f3504f3);
    I32 exponent = bits - mantissa_bits;
    exponent.part[0] >>= 23;
    const F32 f = bitcast<float>(bits - shift_left(exponent, 23)) - F32(1), e = convert<float>(exponent);
    return mul_add(e, F32(0.693359375f), f + mul_add(e, F32(-2.12194440e-4f), log_remainder(f)));
  }
  const Split s = split(x);
  const F32 low = mul_add(s.exponent, F32(-2.12194440e-4f), log_remainder(s.fraction));
  return log_special(x, mul_add(s.exponent, F32(0.693359375f), s.fraction + low));
}
LANE_BY_LANE(log)

INLINE F32 log2(F32 x) {
  const Split s = split(x);
  const F32 remainder = log_remainder(s.fraction);
  // log2(e) = 1.44269504: 1 plus the rest, so that the product with the fraction loses nothing.
  F32 r = (s.fraction + remainder) * F32(0.442695041f) + remainder;
  r = r + s.fraction;
  return log_special(x, s.exponent + r);
}
LANE_BY_LANE(log2)
LANE_BY_LANE_FLOAT(log10)

INLINE F32 log1p(F32 x) {
  const F32 u = F32(1) + x;
  const F32 lost = x - (u - F32(1));
  const F32 result = log(u) + select(u > F32(0), lost / u, F32(0));
  return select((abs(x) < F32(1e-7f)) | (x == F32(INF)), x, result);
}
LANE_BY_LANE(log1p)

// ---- Sigmoid, hyperbolic tangent, error function

INLINE F32 sigmoid(F32 x) {
  const F32 e = exp(-abs(x));
  return select(x < F32(0), e, F32(1)) / (F32(1) + e);
}
template <class T>
INLINE T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
INLINE F64 sigmoid(F64 x) { return F64(1) / (F64(1) + exp(-x)); }

INLINE F32 tanh(F32 x) {
  // With e = exp(2a) - 1: e / (e + 2).
  const F32 a = at_most(abs(x), 10), e = expm1_step(a + a);
  return copysign(e / (e + F32(2)), x);
}
LANE_BY_LANE(tanh)

INLINE F32 erf(F32 x) {
  // 1 - exp(q) with q = log(erfc(a)), fitted as -1.128 a + a * a * rest(a); erf rounds to 1 from 3.92 on.
  const F32 a = at_most(abs(x), 4);
  const F32 rest = polynomial(a, -0.636619389f, -0.102777906f, 0.0191533212f, 1.59959833e-4f, -1.66661991e-3f,
                              6.32626063e-4f, -1.17584968e-4f, 9.25023143e-6f);
  const F32 q = mul_add(a * a, rest, mul_add(a, F32(-0.12837917f), -a));
  return copysign(expm1_step(q), x);
}
LANE_BY_LANE(erf)
LANE_BY_LANE(erfc)
// By way of float64: libm's erfcf is off by more than 2 ulp.
INLINE F32 erfc(F32 a) {
  return by_lane(a, [](float x) INLINE_BODY { return (float)__builtin_erfc(x); });
}

// ---- Sine and cosine: x = n * pi/2 + r

struct Reduced {
  F32 angle;    // in [-pi/4, pi/4]
  I32 quarter;  // n; its last two bits count
};
#if defined(__FMA__)
// With one rounding a step, x - n * (the first 24 bits of pi/2) is exact, and the rest follows.
INLINE Reduced reduce_angle(F32 x) {
  const F32 rounder = F32(ROUNDER), sum = mul_add(x, F32(0.636619747f), rounder), n = sum - rounder;
  F32 r = mul_add(n, F32(-0x1.921fb6p0f), x);
  r = mul_add(n, F32(0x1.777a5cp-25f), r);
  r = mul_add(n, F32(0x1.ee59dap-50f), r);
  return {r, bitcast<i32>(sum)};
}
#else
INLINE Reduced reduce_angle(F32 x) {
  const F64 wide = convert<double>(x), magic = F64(0x1.8p52);
  const F64 sum = wide * F64(0.63661977236758134) + magic, n = sum - magic;
  F64 r = wide - n * F64(0x1.921fb544p0);
  r = r - n * F64(0x1.0b4611a626331p-34);
  return {convert<float>(r), convert<i32>(bitcast<i64>(sum))};
}
#endif
INLINE F32 sine_of(F32 r) {
  const F32 z = r * r;
  return mul_add(r * z, polynomial(z, -0.166666672f, 8.33332911e-3f, -1.98393042e-4f, 2.71804652e-6f), r);
}
INLINE F32 cosine_of(F32 r) {
  const F32 z = r * r;
  const F32 p = polynomial(z, 0.0416666679f, -1.38888834e-3f, 2.47994521e-5f, -2.72050443e-7f);
  return mul_add(z * z, p, mul_add(z, F32(-0.5f), F32(1)));
}
INLINE F32 sine_shifted(F32 x, i32 quarters) {
  const Reduced reduced = reduce_angle(x);
  const I32 n = reduced.quarter + I32(quarters);
  const F32 y = select((n & I32(1)) == I32(0), sine_of(reduced.angle), cosine_of(reduced.angle));
  return bitcast<float>(bitcast<i32>(y) ^ shift_left(n & I32(2), 30));
}
// Beyond a million the reduction above loses digits.
INLINE Mask far_angle(F32 x) { return !(abs(x) < F32(1e6f)); }
INLINE F32 sin(F32 x) {
  if (__builtin_expect(any_of(far_angle(x)), 0))
    return by_lane(x, [](float angle) INLINE_BODY { return __builtin_sinf(angle); });
  return select(x == F32(0), x, sine_shifted(x, 0));
}
INLINE F32 cos(F32 x) {
  if (__builtin_expect(any_of(far_angle(x)), 0))
    return by_lane(x, [](float angle) INLINE_BODY { return __builtin_cosf(angle); });
  return sine_shifted(x, 1);
}
LANE_BY_LANE(sin)
LANE_BY_LANE(cos)
LANE_BY_LANE_FLOAT(tan)
LANE_BY_LANE_FLOAT(asin)
LANE_BY_LANE_FLOAT(acos)
LANE_BY_LANE_FLOAT(atan)
LANE_BY_LANE_FLOAT(sinh)
LANE_BY_LANE_FLOAT(cosh)
LANE_BY_LANE_FLOAT(asinh)
LANE_BY_LANE_FLOAT(acosh)
LANE_BY_LANE_FLOAT(atanh)
LANE_BY_LANE_FLOAT(lgamma)

// ---- Functions of two values

#define LANE_BY_LANE_2(NAME)                                                                            \
  INLINE float NAME(float a, float b) { return __builtin_##NAME##f(a, b); }                             \
  INLINE double NAME(double a, double b) { return __builtin_##NAME(a, b); }                             \
  INLINE F32 NAME(F32 a, F32 b) {                                                                       \
    return by_lane(a, b, [](float x, float y) INLINE_BODY { return __builtin_##NAME##f(x, y); });       \
  }                                                                                                     \
  INLINE F64 NAME(F64 a, F64 b) {                                                                       \
    return by_lane(a, b, [](double x, double y) INLINE_BODY { return __builtin_##NAME(x, y); });        \
  }
LANE_BY_LANE_2(atan2)
LANE_BY_LANE_2(fmod)

INLINE float pow(float a, float b) { return __builtin_powf(a, b); }
INLINE double pow(double a, double b) { return __builtin_pow(a, b); }
INLINE F64 pow(F64 a, F64 b) {
  return by_lane(a, b, [](double x, double y) INLINE_BODY { return __builtin_pow(x, y); });
}
// 2**(y * log2(|x|)) in float64, where log2 is 2 / ln 2 * atanh((m - 1) / (m + 1)) plus the exponent.
INLINE F32 pow(F32 x, F32 y) {
  const F32 size = abs(x);
  const Mask usual = (size > F32(0)) & (size < F32(INF)) & (abs(y) < F32(INF));
  if (__builtin_expect(!all_of(usual), 0))
    return by_lane(x, y, [](float base, float exponent) INLINE_BODY { return __builtin_powf(base, exponent); });
  const I64 bits = bitcast<i64>(convert<double>(size));
  I64 exponent = bits - I64(0x3fe6a09e667f3bcd);
  for (int k = 0; k < I64::PARTS; ++k) exponent.part[k] >>= 52;
  I64 shifted = exponent;
  for (int k = 0; k < I64::PARTS; ++k) shifted.part[k] <<= 52;
  const F64 mantissa = bitcast<double>(bits - shifted);
  const F64 s = (mantissa - F64(1)) / (mantissa + F64(1)), z = s * s;
  const F64 fraction = s * polynomial(z, 2.885390081777928, 0.9617966939235002, 0.5770780175454008, 0.412198360752094,
                                      0.3206189995262452, 0.2613675088358126, 0.24376614106252806);
  F64 t = convert<double>(y) * (convert<double>(convert<i32>(exponent)) + fraction);
  t = select(t > F64(200), F64(200), select(t < F64(-200), F64(-200), t));
  const F64 magic = F64(0x1.8p52), sum = t + magic, r = t - (sum - magic);
  const F64 power = polynomial(r, 1.0, 0.6931471805461134, 0.24022650695569586, 0.05550410940785409,
                               0.00961812921633362, 0.0013333450851593636, 0.00015403417381661168,
                               1.531002127423791e-05, 1.3263129714992466e-06);
  I64 scale = bitcast<i64>(sum) - bitcast<i64>(magic) + I64(1023);
  for (int k = 0; k < I64::PARTS; ++k) scale.part[k] <<= 52;
  const F32 result = convert<float>(power * bitcast<double>(scale));
  const F32 whole = trunc(y), half = y * F32(0.5f);
  const F32 odd = bitcast<float>(bitcast<i32>(result) ^ bitcast<i32>(F32(-0.0f)));
  const F32 negative = select(whole == y, select(trunc(half) == half, result, odd), F32(NOT_A_NUMBER));
  return select(x < F32(0), negative, result);
}
// Integers: by squaring; a negative exponent gives 1 / a rounded toward zero.
template <class T>
INLINE T pow(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
  T result = 1;
  for (; b; b = T(b >> 1), a = T(a * a))
    if (b & 1) result = T(result * a);
  return result;
}

// Remainder with the sign of b.
template <class T>
INLINE T remainder(T a, T b) {
  if constexpr (is_float<T>) {
    const T r = fmod(a, b);
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
  } else {
    if (b == 0 || b == T(-1)) return 0;  // by zero: undefined, but it must not trap
    const T r = T(a % b);
    return r != 0 && (b < 0) != (r < 0) ? T(r + b) : r;
  }
}
// Division rounding down; floats as Python's `//`: from the exact remainder.
template <class T>
INLINE T floordiv(T a, T b) {
  if constexpr (is_float<T>) {
    if (b == 0) return a / b;
    const T r = fmod(a, b);
    T quotient = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) quotient -= 1;
    if (quotient == 0) return copysign(T(0), a / b);
    const T down = floor(quotient);
    return quotient - down > T(0.5) ? down + 1 : down;
  } else {
    if (b == 0) return 0;
    if (b == T(-1)) return T(-a);
    const T quotient = T(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? T(quotient - 1) : quotient;
  }
}
template <class T>
INLINE T truncdiv(T a, T b) {
  if constexpr (is_float<T>) return trunc(a / b);
  else return b == 0 ? T(0) : b == T(-1) ? T(-a) : T(a / b);
}
template <class T>
INLINE T int_fmod(T a, T b) {
  return b == 0 || b == T(-1) ? T(0) : T(a % b);
}
template <class T>
INLINE T fmod(T a, T b) {
  return int_fmod(a, b);
}
// Shifts by the width or more give 0 (or the sign), as in torch.
template <class T>
INLINE T lshift(T a, T b) {
  using U = Int<T>;
  return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : T((u64)(U)a << b);
}
template <class T>
INLINE T rshift(T a, T b) {
  const T last = T(8 * sizeof(T) - 1);
  return b < 0 || b > last ? (T(-1) < T(0) ? T(a >> last) : T(0)) : T(a >> b);
}

#define SCALAR_BY_LANE(NAME)                                                                            \
  template <class T>                                                                                    \
  INLINE Vec<T> NAME(Vec<T> a, Vec<T> b) {                                                              \
    return by_lane(a, b, [](T x, T y) INLINE_BODY { return NAME<T>(x, y); });                           \
  }
SCALAR_BY_LANE(remainder)
SCALAR_BY_LANE(floordiv)
SCALAR_BY_LANE(truncdiv)
SCALAR_BY_LANE(lshift)
SCALAR_BY_LANE(rshift)
template <class T>
INLINE Vec<T> pow(Vec<T> a, Vec<T> b) {
  return by_lane(a, b, [](T x, T y) INLINE_BODY { return pow<T>(x, y); });
}
template <class T>
INLINE Vec<T> fmod(Vec<T> a, Vec<T> b) {
  return by_lane(a, b, [](T x, T y) INLINE_BODY { return int_fmod<T>(x, y); });
}

}  // namespace vec
