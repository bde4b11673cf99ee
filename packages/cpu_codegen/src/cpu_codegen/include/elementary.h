// Exponentials, logarithms, sigmoid, error function, sine and cosine on Vec and on scalars.
// float32: polynomials (minimax fits made for this file), at most 2 ulp off (sigmoid and tanh 2.1); float64 likewise in float64.h. What
// has none calls libm lane by lane.
#pragma once
#include "float64.h"

namespace vec {

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
SCALARS(expm1)

INLINE F32 exp2(F32 x) {
  const Nearest n = nearest(clamp(x, -151, 129));
  const F32 r = clamp(x, -151, 129) - n.value;
  const F32 y = polynomial(r, 1.0f, 0.693147182f, 0.240226507f, 0.0555041097f, 9.61812958e-3f, 1.33334508e-3f,
                           1.54034176e-4f, 1.53100209e-5f);
  const I32 half = halve(n.integer);
  return y * power_of_two(half) * power_of_two(n.integer - half);
}
SCALARS(exp2)

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
SCALARS(log)

INLINE F32 log2(F32 x) {
  const Split s = split(x);
  const F32 remainder = log_remainder(s.fraction);
  // log2(e) = 1.44269504: 1 plus the rest, so that the product with the fraction loses nothing.
  F32 r = (s.fraction + remainder) * F32(0.442695041f) + remainder;
  r = r + s.fraction;
  return log_special(x, s.exponent + r);
}
SCALARS(log2)
LANE_BY_LANE_FLOAT(log10)

INLINE F32 log1p(F32 x) {
  const F32 u = F32(1) + x;
  const F32 lost = x - (u - F32(1));
  const F32 result = log(u) + select(u > F32(0), lost / u, F32(0));
  return select((abs(x) < F32(1e-7f)) | (x == F32(INF)), x, result);
}
SCALARS(log1p)

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
SCALARS(tanh)

INLINE F32 erf(F32 x) {
  // 1 - exp(q) with q = log(erfc(a)), fitted as -1.128 a + a * a * rest(a); erf rounds to 1 from 3.92 on.
  const F32 a = at_most(abs(x), 4);
  const F32 rest = polynomial(a, -0.636619389f, -0.102777906f, 0.0191533212f, 1.59959833e-4f, -1.66661991e-3f,
                              6.32626063e-4f, -1.17584968e-4f, 9.25023143e-6f);
  const F32 q = mul_add(a * a, rest, mul_add(a, F32(-0.12837917f), -a));
  return copysign(expm1_step(q), x);
}
SCALARS(erf)
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
SCALARS(sin)
SCALARS(cos)
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

}  // namespace vec
