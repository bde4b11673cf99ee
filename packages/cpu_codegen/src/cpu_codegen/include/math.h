// Elementwise functions on Vec and on scalars, as torch defines them, NaN, infinities, -0.0 and subnormals included: those of
// one value come with the files below, those of two and of integers are here.
#pragma once
#include "elementary.h"

namespace vec {

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

// Whether it is -1, by which the least integer cannot be divided; of integers without a sign none is.
template <class T>
INLINE bool is_minus_one(T b) {
  return T(-1) < T(0) && b == T(-1);
}
// Remainder with the sign of b.
template <class T>
INLINE T remainder(T a, T b) {
  if constexpr (is_float<T>) {
    const T r = fmod(a, b);
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
  } else {
    if (b == 0 || is_minus_one(b)) return 0;  // by zero: undefined, but it must not trap
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
    if (is_minus_one(b)) return T(-a);
    const T quotient = T(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? T(quotient - 1) : quotient;
  }
}
template <class T>
INLINE T truncdiv(T a, T b) {
  if constexpr (is_float<T>) return trunc(a / b);
  else return b == 0 ? T(0) : is_minus_one(b) ? T(-a) : T(a / b);
}
template <class T>
INLINE T int_fmod(T a, T b) {
  return b == 0 || is_minus_one(b) ? T(0) : T(a % b);
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

// ---- Random bits

// 64 of them for a position under a seed: Philox2x32-10, as inductor/philox.py says. Words of 32 bits in lanes of 64.
template <class Words>
INLINE Words philox(Words seed, Words position) {
  constexpr u64 WORD = 0xffffffff;
  Words key = seed & WORD, low = position & WORD, high = (position ^ seed) >> 32;
  for (int round = 0; round < 10; ++round) {
    const Words product = low * (u64)0xd256d193;
    low = (product >> 32) ^ key ^ high;
    high = product & WORD;
    key = (key + (u64)0x9e3779b9) & WORD;
  }
  return low | (high << 32);
}
INLINE i64 random_bits(i64 seed, i64 position) { return (i64)philox((u64)seed, (u64)position); }
INLINE I64 random_bits(I64 seed, I64 position) {
  typedef u64 Words __attribute__((vector_size(sizeof(I64::Part))));
  for (int k = 0; k < I64::PARTS; ++k)
    position.part[k] = (I64::Part)philox((Words)seed.part[k], (Words)position.part[k]);
  return position;
}

}  // namespace vec
