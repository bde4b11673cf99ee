// Exponentials, logarithms, powers, sine and cosine, hyperbolic tangent and error function of float64 vectors: polynomials (minimax fits
// made for this file), about 1 ulp off (tanh, erf: 2). Without fused multiplication, and beyond usual arguments, libm, lane by lane.
#pragma once
#include "rounding.h"

namespace vec {

// Comparisons whose result stays as wide as the operands: a Mask has lanes of 32 bits.
INLINE F64 if_less(F64 a, F64 b, F64 then, F64 other) {
  for (int k = 0; k < F64::PARTS; ++k) then.part[k] = a.part[k] < b.part[k] ? then.part[k] : other.part[k];
  return then;
}
INLINE bool any_lane(I64 a) {
#if VECTOR_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
  typedef long long Longs __attribute__((vector_size(64)));
  const Longs all = (Longs)(a.part[0] | a.part[1]);
  return __builtin_ia32_ptestmq512(all, all, (u8)-1) != 0;
#else
  Mask m;
  m.bits.part[0] = (I32::Part)(a.part[0] | a.part[1]);
  return any_of(m);
#endif
}
// Whether any lane is not in [low, high), or NaN.
INLINE bool any_outside(F64 a, double low, double high) {
  const F64 l = F64(low), h = F64(high);
  I64 out;
  for (int k = 0; k < F64::PARTS; ++k) out.part[k] = ~((a.part[k] >= l.part[k]) & (a.part[k] < h.part[k]));
  return any_lane(out);
}
INLINE I64 shift_left(I64 a, int by) {
  for (int k = 0; k < I64::PARTS; ++k) a.part[k] <<= by;
  return a;
}
// 2**n, n in [-1022, 1023]
INLINE F64 power_of_two(I64 n) { return bitcast<double>(shift_left(n + I64(1023), 52)); }

// Adding 1.5 * 2**52 leaves no fraction bits: the sum's last bits are the nearest integer.
constexpr double ROUNDER_64 = 0x1.8p52;
struct Nearest64 {
  F64 value;
  I64 bits;  // whose last bits are the integer's
  INLINE I64 integer() const { return bits - bitcast<i64>(F64(ROUNDER_64)); }
};
INLINE Nearest64 nearest(F64 a, F64 times) {
  const F64 sum = mul_add(a, times, F64(ROUNDER_64));
  return {sum - F64(ROUNDER_64), bitcast<i64>(sum)};
}

// y * 2**n; results that are too small are rounded once, those too large are infinite.
INLINE F64 scaled(F64 y, Nearest64 n) {
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
  for (int k = 0; k < F64::PARTS; ++k)
    y.part[k] = __builtin_ia32_scalefpd512_mask(y.part[k], n.value.part[k], y.part[k], (u8)-1, 4);
  return y;
#else
  const I64 whole = n.integer();
  if (__builtin_expect(!any_outside(n.value, -1000, 1000), 1)) return y * power_of_two(whole);
  // In two steps.
  const I64 half = nearest(n.value, F64(0.5)).integer();
  return y * power_of_two(half) * power_of_two(whole - half);
#endif
}

// exp(r) - 1 for |r| <= ln 2 / 2
INLINE F64 expm1_near(F64 r) {
  const F64 square = r * r;
  const F64 p = pairs(r, square, 0.5000000000000013, 0.1666666666666669, 0.0416666666665133, 0.008333333333311242,
                      0.0013888888947552267, 0.00019841269909257606, 2.4801489393762005e-05, 2.755722315893534e-06,
                      2.7631475838966847e-07, 2.511578755234811e-08);
  return mul_add(square, p, r);
}
// x = n * ln 2 + r with |r| <= ln 2 / 2
struct ByLn2F64 {
  Nearest64 n;
  F64 r;
  INLINE explicit ByLn2F64(F64 x) : n(nearest(x, F64(1.4426950408889634))) {
    r = mul_add(n.value, F64(-0x1.a39ef35793c76p-33), mul_add(n.value, F64(-0x1.62e42fee00000p-1), x));
  }
};
INLINE F64 exp(F64 x) {
  const ByLn2F64 by(clamp(x, -746, 710));
  return scaled(expm1_near(by.r) + F64(1), by.n);
}

#if defined(__FMA__)
// exp(x) - 1 for x in [-700, 700]
INLINE F64 expm1_step(F64 x) {
  const ByLn2F64 by(x);
  const F64 scale = power_of_two(by.n.integer());
  return mul_add(expm1_near(by.r), scale, scale - F64(1));
}
INLINE F64 expm1(F64 x) {
  // Doubled at the end: 2**1024 does not fit.
  const ByLn2F64 by(clamp(x, -40, 710));
  const F64 scale = power_of_two(by.n.integer() - I64(1));
  const F64 result = mul_add(expm1_near(by.r), scale, scale - F64(0.5));
  return copysign(result + result, x);
}
INLINE F64 exp2(F64 x) {
  const F64 a = clamp(x, -1080, 1025);
  const Nearest64 n = nearest(a, F64(1));
  return scaled(expm1_near((a - n.value) * F64(0.6931471805599453)) + F64(1), n);
}

// ---- Logarithms of positive normal numbers: x = 2**exponent * mantissa, mantissa in [sqrt(1/2), sqrt(2))

struct Split64 {
  F64 exponent, mantissa;
  INLINE explicit Split64(F64 x) {
    const I64 bits = bitcast<i64>(x), moved = bits - I64(0x3fe6a09e667f3bcd);
    mantissa = bitcast<double>(bits - (moved & I64(0xfff0000000000000)));
    // The exponent, less than 0 or not, as the last bits of a large number.
    const I64 positive = moved + I64(0x4000000000000000);
    I64 e;
    for (int k = 0; k < I64::PARTS; ++k) {
      typedef u64 Unsigned __attribute__((vector_size(VECTOR_BYTES)));
      e.part[k] = (I64::Part)((Unsigned)positive.part[k] >> 52) | bitcast<i64>(F64(0x1p52)).part[k];
    }
    exponent = bitcast<double>(e) - F64(0x1p52 + 1024);
  }
};
INLINE bool any_not_normal(F64 x) { return any_outside(x, 0x1p-1022, (double)INF); }
// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)): with s = f / (2 + f), log(1 + f) is 2 atanh(s).
INLINE F64 log_remainder(F64 f) {
  const F64 s = f / (F64(2) + f), z = s * s, half = F64(0.5) * f * f;
  const F64 p = polynomial(z, 0.6666666666666734, 0.39999999999413755, 0.2857142874260142, 0.22222198550272743,
                           0.18183565570528654, 0.15314017314589606, 0.14796296292418024);
  return mul_add(s, mul_add(z, p, half), -half);
}
INLINE F64 log(F64 x) {
  if (__builtin_expect(any_not_normal(x), 0))
    return by_lane(x, [](double a) INLINE_BODY { return __builtin_log(a); });
  const Split64 split(x);
  const F64 f = split.mantissa - F64(1), e = split.exponent;
  return mul_add(e, F64(0x1.62e42fee00000p-1), f + mul_add(e, F64(0x1.a39ef35793c76p-33), log_remainder(f)));
}
INLINE F64 log2(F64 x) {
  if (__builtin_expect(any_not_normal(x), 0))
    return by_lane(x, [](double a) INLINE_BODY { return __builtin_log2(a); });
  const Split64 split(x);
  const F64 f = split.mantissa - F64(1), rest = log_remainder(f);
  // log2(e) = 1.4427: 1 plus the rest, so that the product with the fraction loses nothing.
  const F64 part = mul_add(f + rest, F64(0.4426950408889634), rest);
  return split.exponent + (part + f);
}
INLINE F64 log1p(F64 x) {
  const F64 u = F64(1) + x;
  if (__builtin_expect(any_not_normal(u), 0))
    return by_lane(x, [](double a) INLINE_BODY { return __builtin_log1p(a); });
  const F64 lost = x - (u - F64(1));
  return if_less(abs(x), F64(0x1p-54), x, log(u) + lost / u);
}

// x**y for positive normal x: 2**(y * log2(x)), log2(x) as a sum of two numbers.
INLINE F64 pow(F64 x, F64 y) {
  if (__builtin_expect(any_not_normal(x) || any_outside(y, -0x1p60, 0x1p60), 0))
    return by_lane(x, y, [](double base, double exponent) INLINE_BODY { return __builtin_pow(base, exponent); });
  const Split64 split(x);
  const F64 m = split.mantissa, f = m - F64(1), g = m + F64(1), g_low = m - (g - F64(1)), inverse = F64(1) / g;
  // s = f / g; its square and cube, each with what its rounding lost.
  const F64 s = f * inverse, s_low = (mul_add(-s, g, f) - s * g_low) * inverse;
  const F64 z = s * s, z_low = mul_add(s, s, -z) + F64(2) * s * s_low;
  const F64 c = z * s, c_low = mul_add(z, s, -c) + mul_add(z_low, s, z * s_low);
  // atanh(s) = s + s**3 / 3 + s**5 * q(s * s)
  const F64 third = F64(0x1.5555555555555p-2), t = c * third;
  const F64 t_low = mul_add(c, third, -t) + mul_add(c, F64(0x1.5555555555555p-56), c_low * third);
  const F64 q = polynomial(z, 0.2000000000000113, 0.14285714285048773, 0.11111111260134895, 0.09090892168837812,
                           0.07693379329109104, 0.06628393668887314, 0.06598303838651579);
  const F64 a = s + t, a_low = t - (a - s) + (mul_add(c * z, q, t_low) + s_low);
  const F64 scale = F64(0x1.71547652b82fep+1), l = a * scale;
  const F64 l_low = mul_add(a, scale, -l) + mul_add(a, F64(0x1.777d0ffda0d24p-55), a_low * scale);
  const F64 high = split.exponent + l, low = l - (high - split.exponent) + l_low;
  // y * log2(x) = n + r
  const F64 product = y * high, lost = mul_add(y, low, mul_add(y, high, -product));
  const F64 bounded = clamp(product, -1080, 1025);
  const Nearest64 n = nearest(bounded, F64(1));
  const F64 r = bounded - n.value + if_less(abs(product), F64(1100), lost, F64(0));
  return scaled(expm1_near(r * F64(0.6931471805599453)) + F64(1), n);
}

// ---- Sine and cosine: x = n * pi/2 + r, |r| <= pi/4

// sin(x + quarters * pi/2)
INLINE F64 sine_shifted(F64 x, i64 quarters) {
  const Nearest64 whole = nearest(x, F64(0x1.45f306dc9c883p-1));
  // With one rounding a step, the first one is exact; r + low is the angle.
  const F64 n = whole.value, first = mul_add(n, F64(-0x1.921fb54442d18p+0), x);
  const F64 r = mul_add(n, F64(-0x1.1a62633145c07p-54), first), low = n * F64(0x1.f1976b7ed8fbcp-110);
  const F64 z = r * r, half = F64(0.5) * z, w = F64(1) - half;
  const F64 p = polynomial(z, -0.1666666666666663, 0.008333333333322002, -0.00019841269829492676,
                           2.7557313586788187e-06, -2.5050742193897694e-08, 1.589589882979397e-10);
  const F64 q = polynomial(z, 0.041666666666666595, -0.0013888888888872884, 2.4801587288742667e-05,
                           -2.755731414721029e-07, 2.0875696399424718e-09, -1.1358302303312854e-11);
  const F64 s = copysign(r + mul_add(r * z, p, low), r);
  const F64 c = w + mul_add(z * z, q, F64(1) - w - half - r * low);
  const I64 k = whole.bits + I64(quarters), odd = k & I64(1);
  F64 y;
  for (int part = 0; part < F64::PARTS; ++part) y.part[part] = odd.part[part] ? c.part[part] : s.part[part];
  return bitcast<double>(bitcast<i64>(y) ^ shift_left(k & I64(2), 62));
}
INLINE F64 sin(F64 x) {
  if (__builtin_expect(any_outside(x, -1e6, 1e6), 0))
    return by_lane(x, [](double angle) INLINE_BODY { return __builtin_sin(angle); });
  return sine_shifted(x, 0);
}
INLINE F64 cos(F64 x) {
  if (__builtin_expect(any_outside(x, -1e6, 1e6), 0))
    return by_lane(x, [](double angle) INLINE_BODY { return __builtin_cos(angle); });
  return sine_shifted(x, 1);
}

// ---- Hyperbolic tangent, error function

INLINE F64 tanh(F64 x) {
  const F64 a = at_most(abs(x), 20), e = expm1_step(a + a);
  return copysign(e / (e + F64(2)), x);
}
INLINE F64 erf(F64 x) {
  // Up to 1 a polynomial in a * a; from there on erfc(a) = exp(-a * a) * q((a - 3) / (a + 3)) / (1 + 2 * a).
  const F64 a = at_most(abs(x), 6), z = a * a;
  const F64 near = polynomial(z, 0.12837916709551259, -0.3761263890318355, 0.11283791670945251,
                                  -0.026866170643275775, 0.005223977607420197, -0.0008548325989555401,
                                  0.00012055295316669997, -1.4924744596644058e-05, 1.644751692827873e-06,
                                  -1.6209170664521307e-07, 1.3722955452361112e-08, -7.80115313509069e-10);
  const F64 above = a + F64(3), below = F64(1) + a + a, inverse = F64(1) / (above * below);
  const F64 u = (a - F64(3)) * (below * inverse);
  const F64 q = polynomial(u, 1.2530080582697307, -0.1356211061246315, -0.04756229435734085, 0.12964515863320367,
                           -0.11927366371952361, 0.0683080328490181, -0.023770416117163864, 0.002530176743093045,
                           0.0018925367939103608, -0.0007672198770003955, -7.69138987497716e-05,
                           0.0001676342827062028, 4.540920288510355e-05);
  const ByLn2F64 by(-z);
  const F64 e = (expm1_near(by.r) + F64(1)) * power_of_two(by.n.integer());
  return copysign(if_less(a, F64(1), mul_add(a, near, a), F64(1) - e * q * (above * inverse)), x);
}
#else
LANES_OF_FLOAT64(expm1)
LANES_OF_FLOAT64(exp2)
LANES_OF_FLOAT64(log)
LANES_OF_FLOAT64(log2)
LANES_OF_FLOAT64(log1p)
LANES_OF_FLOAT64(sin)
LANES_OF_FLOAT64(cos)
LANES_OF_FLOAT64(tanh)
LANES_OF_FLOAT64(erf)
INLINE F64 pow(F64 a, F64 b) {
  return by_lane(a, b, [](double x, double y) INLINE_BODY { return __builtin_pow(x, y); });
}
#endif

}  // namespace vec
