// Fixed-width vectors for generated kernels: Vec<T> holds LANES values of any compute dtype, Mask LANES booleans.
// Built on compiler vector extensions (GCC, Clang) without any include: a kernel compiles in tenths of a second.
// VECTOR_BYTES (64: AVX-512, 32: AVX2, 16: any machine) is set by the compile command.
#pragma once

namespace vec {

#define INLINE __attribute__((always_inline)) inline
#define INLINE_BODY __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = __INT64_TYPE__;
using u64 = __UINT64_TYPE__;
using Index = i64;

struct bfloat16 {
  u16 bits;
};
struct float16 {
  u16 bits;
};

constexpr int LANES = VECTOR_BYTES / 4;
constexpr float INF = __builtin_inff();
constexpr float NOT_A_NUMBER = __builtin_nanf("");

// Lane numbers of the lower and the upper half of a vector, and of all lanes of two halves put together.
#if VECTOR_BYTES == 64
#define LOW_LANES 0, 1, 2, 3, 4, 5, 6, 7
#define HIGH_LANES 8, 9, 10, 11, 12, 13, 14, 15
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define EVERY_FOURTH_LANE 0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60
#elif VECTOR_BYTES == 32
#define LOW_LANES 0, 1, 2, 3
#define HIGH_LANES 4, 5, 6, 7
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14
#define EVERY_FOURTH_LANE 0, 4, 8, 12, 16, 20, 24, 28
#else
#define LOW_LANES 0, 1
#define HIGH_LANES 2, 3
#define EVEN_LANES 0, 2, 4, 6
#define EVERY_FOURTH_LANE 0, 4, 8, 12
#endif

template <class A, class B>
constexpr bool same_type = false;
template <class A>
constexpr bool same_type<A, A> = true;

// The signed integer as wide as T: what comparing vectors of T gives.
template <int BYTES>
struct IntOf;
template <>
struct IntOf<1> {
  using type = i8;
};
template <>
struct IntOf<2> {
  using type = i16;
};
template <>
struct IntOf<4> {
  using type = i32;
};
template <>
struct IntOf<8> {
  using type = i64;
};
template <class T>
using Int = typename IntOf<sizeof(T)>::type;

template <class T>
constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;

template <class T>
struct Vec {
  static constexpr int PARTS = sizeof(T) == 8 ? 2 : 1;
  static constexpr int LANES_PER_PART = LANES / PARTS;
  typedef T Part __attribute__((vector_size(LANES_PER_PART * sizeof(T))));
  Part part[PARTS];

  Vec() = default;
  // All lanes x. (`x - 0` rather than `0 + x` keeps -0.0.)
  INLINE explicit Vec(T x) {
    for (int k = 0; k < PARTS; ++k) part[k] = x - Part{};
  }
  INLINE T operator[](int lane) const { return part[lane / LANES_PER_PART][lane % LANES_PER_PART]; }
};

using F32 = Vec<float>;
using F64 = Vec<double>;
using I64 = Vec<i64>;
using I32 = Vec<i32>;
using I16 = Vec<i16>;
using I8 = Vec<i8>;
using U8 = Vec<u8>;

// ---- Which lanes take part: all of them, or the first n at the end of a row.

struct Full {
  static constexpr int n = LANES;
};
struct Tail {
  int n;
};

// ---- Conversions

template <class To, class From>
INLINE Vec<To> convert(Vec<From> a) {
  if constexpr (same_type<To, From>) {
    return a;
  } else if constexpr (Vec<To>::PARTS == Vec<From>::PARTS) {
    Vec<To> r;
    for (int k = 0; k < Vec<To>::PARTS; ++k) {
#if VECTOR_BYTES == 32 || VECTOR_BYTES == 64
      // Dropping the upper bytes as a byte shuffle: compilers take the conversion apart lane by lane.
      if constexpr (sizeof(From) == 4 && sizeof(To) == 1 && !is_float<From>) {
        typedef To Bytes __attribute__((vector_size(VECTOR_BYTES)));
        const Bytes bytes = (Bytes)a.part[k];
        r.part[k] = __builtin_shufflevector(bytes, bytes, EVERY_FOURTH_LANE);
        continue;
      }
      if constexpr (is_float<From> && sizeof(From) == 4 && sizeof(To) == 1) {
        r.part[k] = convert<To>(convert<i32>(a)).part[k];
        continue;
      }
#endif
#if defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
      if constexpr (sizeof(From) == 2 && sizeof(To) == 4 && !is_float<To>) {
        typedef short Shorts __attribute__((vector_size(16)));
        if constexpr (same_type<From, u16>)
          r.part[k] = (typename Vec<To>::Part)__builtin_ia32_pmovzxwd256((Shorts)a.part[k]);
        else
          r.part[k] = (typename Vec<To>::Part)__builtin_ia32_pmovsxwd256((Shorts)a.part[k]);
        continue;
      }
#endif
      r.part[k] = __builtin_convertvector(a.part[k], typename Vec<To>::Part);
    }
    return r;
  } else if constexpr (Vec<To>::PARTS == 2) {
    if constexpr (sizeof(From) < 4) return convert<To>(convert<i32>(a));
    else {
      const auto low = __builtin_shufflevector(a.part[0], a.part[0], LOW_LANES);
      const auto high = __builtin_shufflevector(a.part[0], a.part[0], HIGH_LANES);
      Vec<To> r;
      using Part = typename Vec<To>::Part;
#if defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
      typedef int Ints __attribute__((vector_size(16)));
      if constexpr (same_type<From, float> && same_type<To, double>) {
        r.part[0] = (Part)__builtin_ia32_cvtps2pd256(low);
        r.part[1] = (Part)__builtin_ia32_cvtps2pd256(high);
        return r;
      }
      if constexpr (same_type<From, i32> && same_type<To, double>) {
        r.part[0] = (Part)__builtin_ia32_cvtdq2pd256((Ints)low);
        r.part[1] = (Part)__builtin_ia32_cvtdq2pd256((Ints)high);
        return r;
      }
      if constexpr (same_type<From, i32> && same_type<To, i64>) {
        r.part[0] = (Part)__builtin_ia32_pmovsxdq256((Ints)low);
        r.part[1] = (Part)__builtin_ia32_pmovsxdq256((Ints)high);
        return r;
      }
#endif
      r.part[0] = __builtin_convertvector(low, Part);
      r.part[1] = __builtin_convertvector(high, Part);
      return r;
    }
  } else if constexpr (sizeof(To) < 4) {
    return convert<To>(convert<i32>(a));
  } else if constexpr (same_type<From, i64> && same_type<To, i32>) {
    typedef i32 Ints __attribute__((vector_size(VECTOR_BYTES)));
    Vec<To> r;
    r.part[0] = __builtin_shufflevector((Ints)a.part[0], (Ints)a.part[1], EVEN_LANES);
    return r;
  } else {
    typedef To Half __attribute__((vector_size(LANES / 2 * sizeof(To))));
    const Half low = __builtin_convertvector(a.part[0], Half);
    const Half high = __builtin_convertvector(a.part[1], Half);
    Vec<To> r;
    r.part[0] = __builtin_shufflevector(low, high, LOW_LANES, HIGH_LANES);
    return r;
  }
}

// ---- Booleans: each lane 0 or -1

struct Mask {
  I32 bits;
  Mask() = default;
  INLINE explicit Mask(bool x) : bits(-(i32)x) {}
  INLINE explicit Mask(I32 b) : bits(b) {}
  INLINE bool operator[](int lane) const { return bits[lane] != 0; }
};

INLINE Mask operator&(Mask a, Mask b) {
  a.bits.part[0] &= b.bits.part[0];
  return a;
}
INLINE Mask operator|(Mask a, Mask b) {
  a.bits.part[0] |= b.bits.part[0];
  return a;
}
INLINE Mask operator^(Mask a, Mask b) {
  a.bits.part[0] ^= b.bits.part[0];
  return a;
}
INLINE Mask operator!(Mask a) {
  a.bits.part[0] = ~a.bits.part[0];
  return a;
}
INLINE Mask operator==(Mask a, Mask b) { return !(a ^ b); }
INLINE Mask operator!=(Mask a, Mask b) { return a ^ b; }

INLINE bool any_of(Mask m) {
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
  return __builtin_ia32_ptestmd512(m.bits.part[0], m.bits.part[0], (u16)-1) != 0;
#elif defined(__AVX2__) && VECTOR_BYTES == 32
  typedef char Bytes __attribute__((vector_size(32)));
  return __builtin_ia32_pmovmskb256((Bytes)m.bits.part[0]) != 0;
#elif defined(__SSE2__) && VECTOR_BYTES == 16
  typedef char Bytes __attribute__((vector_size(16)));
  return __builtin_ia32_pmovmskb128((Bytes)m.bits.part[0]) != 0;
#else
  typedef i64 Longs __attribute__((vector_size(VECTOR_BYTES)));
  const Longs longs = (Longs)m.bits.part[0];
  i64 all = 0;
  for (int k = 0; k < LANES / 2; ++k) all |= longs[k];
  return all != 0;
#endif
}
INLINE bool all_of(Mask m) { return !any_of(!m); }

INLINE I32 lane_numbers() {
  I32 r;
  for (int lane = 0; lane < LANES; ++lane) r.part[0][lane] = lane;
  return r;
}
INLINE Mask active(Full) { return Mask(true); }
INLINE Mask active(Tail tail) {
  Mask m;
  m.bits.part[0] = lane_numbers().part[0] < tail.n;
  return m;
}

// A comparison's result, lanes as wide as T, as a Mask; and back.
template <class T>
INLINE Mask mask_of(Vec<Int<T>> lanes) {
  return Mask(convert<i32>(lanes));
}

#define COMPARISON(OP)                                                              \
  template <class T>                                                                \
  INLINE Mask operator OP(Vec<T> a, Vec<T> b) {                                     \
    Vec<Int<T>> r;                                                                  \
    for (int k = 0; k < Vec<T>::PARTS; ++k) r.part[k] = a.part[k] OP b.part[k];     \
    return mask_of<T>(r);                                                           \
  }
COMPARISON(==)
COMPARISON(!=)
COMPARISON(<)
COMPARISON(<=)
COMPARISON(>)
COMPARISON(>=)
#undef COMPARISON

#define ARITHMETIC(OP)                                                              \
  template <class T>                                                                \
  INLINE Vec<T> operator OP(Vec<T> a, Vec<T> b) {                                   \
    for (int k = 0; k < Vec<T>::PARTS; ++k) a.part[k] = a.part[k] OP b.part[k];     \
    return a;                                                                       \
  }
ARITHMETIC(+)
ARITHMETIC(-)
ARITHMETIC(*)
ARITHMETIC(/)
ARITHMETIC(&)
ARITHMETIC(|)
ARITHMETIC(^)
#undef ARITHMETIC

template <class T>
INLINE Vec<T> operator-(Vec<T> a) {
  for (int k = 0; k < Vec<T>::PARTS; ++k) a.part[k] = -a.part[k];
  return a;
}
template <class T>
INLINE Vec<T> operator~(Vec<T> a) {
  for (int k = 0; k < Vec<T>::PARTS; ++k) a.part[k] = ~a.part[k];
  return a;
}

template <class T>
INLINE T select(bool m, T a, T b) {
  return m ? a : b;
}
template <class T>
INLINE Vec<T> select(Mask m, Vec<T> a, Vec<T> b) {
  const Vec<Int<T>> wide = convert<Int<T>>(m.bits);
  for (int k = 0; k < Vec<T>::PARTS; ++k) a.part[k] = wide.part[k] ? a.part[k] : b.part[k];
  return a;
}
INLINE Mask select(Mask m, Mask a, Mask b) { return (m & a) | ((!m) & b); }

template <class T>
INLINE Vec<T> convert(Mask m) {
  I32 ones = m.bits & I32(1);
  return convert<T>(ones);
}
INLINE Mask truth(Mask m) { return m; }
template <class T>
INLINE Mask truth(Vec<T> a) {
  return a != Vec<T>(T(0));
}
template <class T>
INLINE bool truth(T a) {
  return a != 0;
}
template <class To, class From>
INLINE To convert(From a) {
  if constexpr (is_float<From> && sizeof(To) < 4) return (To)(i32)a;
  else return (To)a;
}

// ---- Reinterpreting bits

template <class To, class From>
INLINE Vec<To> bitcast(Vec<From> a) {
  static_assert(sizeof(To) == sizeof(From));
  Vec<To> r;
  for (int k = 0; k < Vec<To>::PARTS; ++k) r.part[k] = (typename Vec<To>::Part)a.part[k];
  return r;
}
template <class To, class From>
INLINE To bitcast(From a) {
  static_assert(sizeof(To) == sizeof(From));
  To r;
  __builtin_memcpy(&r, &a, sizeof r);
  return r;
}

// ---- bfloat16 and float16 in memory, float32 in registers. Rounding is to nearest, ties to even.

INLINE u16 bfloat16_bits(float x) {
  const u32 bits = bitcast<u32>(x);
  return x != x ? 0x7fc0 : u16((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
INLINE float widen(bfloat16 x) { return bitcast<float>(u32(x.bits) << 16); }

INLINE I32 shift_left(I32 a, int by) {
  a.part[0] <<= by;
  return a;
}
// The upper half of each lane, after rounding to nearest even.
INLINE I32 bfloat16_lanes(F32 x) {
  const I32 bits = bitcast<i32>(x);
  I32 r;
  typedef u32 Unsigned __attribute__((vector_size(VECTOR_BYTES)));
  const Unsigned raw = (Unsigned)bits.part[0];
  r.part[0] = (typename I32::Part)((raw + 0x7fff + ((raw >> 16) & 1)) >> 16);
  return select(x == x, r, I32(0x7fc0));
}
INLINE F32 bfloat16_round(F32 x) { return bitcast<float>(shift_left(bfloat16_lanes(x), 16)); }
INLINE float bfloat16_round(float x) { return widen(bfloat16{bfloat16_bits(x)}); }

// Giesen's conversion: the exponent is rebased by a multiplication, which also normalises subnormals.
INLINE float widen(float16 x) {
  const u32 sign = u32(x.bits & 0x8000) << 16, rest = u32(x.bits & 0x7fff) << 13;
  float r = bitcast<float>(rest) * 0x1p112f;
  if ((x.bits & 0x7c00) == 0x7c00) r = bitcast<float>(rest | 0x7f800000);
  return bitcast<float>(bitcast<u32>(r) | sign);
}
INLINE u16 float16_bits(float x) {
  const u32 bits = bitcast<u32>(x), sign = bits & 0x80000000u;
  u32 rest = bits ^ sign;
  if (rest > 0x7f800000u) rest = 0x7e00;
  else if (rest >= 0x47800000u) rest = 0x7c00;
  else if (rest < 0x38800000u) rest = bitcast<u32>(bitcast<float>(rest) + 0.5f) - 0x3f000000u;
  else rest = (rest + 0xc8000fffu + ((rest >> 13) & 1)) >> 13;
  return u16(rest | (sign >> 16));
}
INLINE I32 float16_lanes(F32 x) {
  const I32 bits = bitcast<i32>(x), sign = bits & I32((i32)0x80000000), rest = bits ^ sign;
  typedef u32 Unsigned __attribute__((vector_size(VECTOR_BYTES)));
  const Unsigned raw = (Unsigned)rest.part[0];
  I32 normal, subnormal = bitcast<i32>(bitcast<float>(rest) + F32(0.5f)) - I32(0x3f000000), high;
  normal.part[0] = (typename I32::Part)((raw + 0xc8000fffu + ((raw >> 13) & 1)) >> 13);
  high.part[0] = (typename I32::Part)((Unsigned)sign.part[0] >> 16);
  I32 r = select(rest < I32(0x38800000), subnormal, normal);
  r = select(rest >= I32(0x47800000), I32(0x7c00), r);
  return select(rest > I32(0x7f800000), I32(0x7e00), r) | high;
}
INLINE F32 float16_widen(I32 bits) {
  const I32 sign = shift_left(bits & I32(0x8000), 16), rest = shift_left(bits & I32(0x7fff), 13);
  const F32 r = bitcast<float>(rest) * F32(0x1p112f);
  const I32 special = rest | I32(0x7f800000);
  return bitcast<float>(select((bits & I32(0x7c00)) == I32(0x7c00), special, bitcast<i32>(r)) | sign);
}
INLINE F32 float16_round(F32 x) { return float16_widen(float16_lanes(x)); }
INLINE float float16_round(float x) { return widen(float16{float16_bits(x)}); }

// The lower 16 bits of each lane.
INLINE Vec<u16> low_halves(I32 a) {
  typedef u16 Shorts __attribute__((vector_size(VECTOR_BYTES)));
  Vec<u16> r;
  r.part[0] = __builtin_shufflevector((Shorts)a.part[0], (Shorts)a.part[0], EVEN_LANES);
  return r;
}

// ---- Loads. V names the result; memory may hold the narrower formats. Lanes that are not active touch no memory, read 0.

template <class T>
INLINE Vec<T> load_raw(const T* p, Full) {
  Vec<T> r;
  // Part by part: copied as a whole, two registers' worth would go by way of the stack.
  for (int k = 0; k < Vec<T>::PARTS; ++k)
    __builtin_memcpy(&r.part[k], p + k * Vec<T>::LANES_PER_PART, sizeof r.part[k]);
  return r;
}
template <class T>
INLINE Vec<T> load_raw(const T* p, Tail tail) {
#if defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
  if constexpr (sizeof(T) == 4) {
    typedef int Ints __attribute__((vector_size(32)));
    Vec<T> r;
    r.part[0] = (typename Vec<T>::Part)__builtin_ia32_maskloadd256((const Ints*)p, active(tail).bits.part[0]);
    return r;
  }
#endif
  Vec<T> r = {};
  __builtin_memcpy(&r, p, tail.n * sizeof(T));
  return r;
}
template <class T>
INLINE Vec<T> load_raw(const T* p, Mask lanes) {
#if defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
  if constexpr (sizeof(T) == 4) {
    typedef int Ints __attribute__((vector_size(32)));
    Vec<T> r;
    r.part[0] = (typename Vec<T>::Part)__builtin_ia32_maskloadd256((const Ints*)p, lanes.bits.part[0]);
    return r;
  }
#endif
  if (all_of(lanes)) return load_raw(p, Full());
  T buffer[LANES] = {};
  i32 wanted[LANES];
  __builtin_memcpy(wanted, &lanes, sizeof wanted);
  _Pragma("GCC unroll 1") for (int lane = 0; lane < LANES; ++lane)
    if (wanted[lane]) buffer[lane] = p[lane];
  return load_raw(buffer, Full());
}

template <class V>
struct Lane;
template <class T>
struct Lane<Vec<T>> {
  using type = T;
};
template <>
struct Lane<Mask> {
  using type = bool;
};

template <class V, class Lanes>
INLINE V load(const typename Lane<V>::type* p, Lanes lanes) {
  if constexpr (same_type<V, Mask>) return truth(convert<i32>(load_raw((const u8*)p, lanes)));
  else return load_raw(p, lanes);
}
template <class V, class Lanes>
INLINE F32 load(const bfloat16* p, Lanes lanes) {
  return bitcast<float>(shift_left(convert<i32>(load_raw((const u16*)p, lanes)), 16));
}
template <class V, class Lanes>
INLINE F32 load(const float16* p, Lanes lanes) {
  const Vec<u16> raw = load_raw((const u16*)p, lanes);
#if defined(__F16C__) && defined(__clang__)
  typedef _Float16 Halfs __attribute__((vector_size(LANES * 2)));
  F32 r;
  r.part[0] = __builtin_convertvector((Halfs)raw.part[0], F32::Part);
  return r;
#elif defined(__F16C__) && VECTOR_BYTES == 32
  typedef short Shorts __attribute__((vector_size(16)));
  F32 r;
  r.part[0] = __builtin_ia32_vcvtph2ps256((Shorts)raw.part[0]);
  return r;
#else
  return float16_widen(convert<i32>(raw));
#endif
}
// One element, in kernels and loops that are not vectorised.
template <class T>
INLINE T load(const T* p) {
  return *p;
}
INLINE float load(const bfloat16* p) { return widen(*p); }
INLINE float load(const float16* p) { return widen(*p); }

// start, start + step, start + 2 * step, ...
template <class T>
INLINE Vec<T> ramp(i64 start, i64 step) {
  if constexpr (is_float<T>) {
    return convert<T>(ramp<i64>(start, step));
  } else {
    return Vec<T>((T)start) + convert<T>(lane_numbers()) * Vec<T>((T)step);
  }
}

// ---- Stores

template <class T>
INLINE void store_raw(T* p, Vec<T> x, Full) {
  for (int k = 0; k < Vec<T>::PARTS; ++k)
    __builtin_memcpy(p + k * Vec<T>::LANES_PER_PART, &x.part[k], sizeof x.part[k]);
}
template <class T>
INLINE void store_raw(T* p, Vec<T> x, Tail tail) {
#if defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
  if constexpr (sizeof(T) == 4) {
    typedef int Ints __attribute__((vector_size(32)));
    __builtin_ia32_maskstored256((Ints*)p, active(tail).bits.part[0], (Ints)x.part[0]);
    return;
  }
#endif
  __builtin_memcpy(p, &x, tail.n * sizeof(T));
}

template <class T, class Lanes>
INLINE void store(T* p, Vec<T> x, Lanes lanes) {
  store_raw(p, x, lanes);
}
template <class Lanes>
INLINE void store(bool* p, Mask x, Lanes lanes) {
  store_raw((u8*)p, convert<u8>(x), lanes);
}
template <class Lanes>
INLINE void store(bfloat16* p, F32 x, Lanes lanes) {
  store_raw((u16*)p, low_halves(bfloat16_lanes(x)), lanes);
}
template <class Lanes>
INLINE void store(float16* p, F32 x, Lanes lanes) {
#if defined(__F16C__) && defined(__clang__)
  typedef _Float16 Halfs __attribute__((vector_size(LANES * 2)));
  Vec<u16> raw;
  raw.part[0] = (Vec<u16>::Part)__builtin_convertvector(x.part[0], Halfs);
  store_raw((u16*)p, raw, lanes);
#elif defined(__F16C__) && VECTOR_BYTES == 32
  typedef u16 Shorts __attribute__((vector_size(16)));
  Vec<u16> raw;
  raw.part[0] = (Shorts)__builtin_ia32_vcvtps2ph256(x.part[0], 0);
  store_raw((u16*)p, raw, lanes);
#else
  store_raw((u16*)p, low_halves(float16_lanes(x)), lanes);
#endif
}
template <class T>
INLINE void store(T* p, T x) {
  *p = x;
}
INLINE void store(bfloat16* p, float x) { p->bits = bfloat16_bits(x); }
INLINE void store(float16* p, float x) { p->bits = float16_bits(x); }

// A loop over lanes that stays a loop: unrolled, it would only be slower to compile.
#define ROLLED _Pragma("GCC unroll 1")

// Lanes from anywhere: lane by lane, `at(lane)` gives the address.
template <class V, class At>
INLINE V gather(Full, At at) {
  typename Lane<V>::type buffer[LANES];
  for (int lane = 0; lane < LANES; ++lane) buffer[lane] = load(at(lane));
  return load<V>(buffer, Full());
}
template <class V, class At>
INLINE V gather(Tail tail, At at) {
  typename Lane<V>::type buffer[LANES] = {};
  ROLLED for (int lane = 0; lane < tail.n; ++lane) buffer[lane] = load(at(lane));
  return load<V>(buffer, Full());
}
template <class V, class At>
INLINE V gather(Mask lanes, At at) {
  typename Lane<V>::type buffer[LANES] = {};
  i32 wanted[LANES];
  store_raw(wanted, lanes.bits, Full());
  ROLLED for (int lane = 0; lane < LANES; ++lane)
    if (wanted[lane]) buffer[lane] = load(at(lane));
  return load<V>(buffer, Full());
}
// A vector by lane: `value(lane)` for every lane.
template <class V, class Value>
INLINE V by_lane(Value value) {
  typename Lane<V>::type buffer[LANES];
  ROLLED for (int lane = 0; lane < LANES; ++lane) buffer[lane] = value(lane);
  return load<V>(buffer, Full());
}
// Lanes to anywhere, in lane order.
template <class V, class Lanes, class At>
INLINE void scatter(V x, Lanes lanes, At at) {
  typename Lane<V>::type buffer[LANES];
  store(buffer, x, Full());
  ROLLED for (int lane = 0; lane < lanes.n; ++lane) store(at(lane), buffer[lane]);
}

// ---- Loops

// `body(index, lanes)` for all of [begin, end): whole vectors, then what is left.
template <class Body>
INLINE void vectors(Index begin, Index end, Body body) {
  Index i = begin;
  for (; i + LANES <= end; i += LANES) body(i, Full());
  if (i < end) body(i, Tail{int(end - i)});
}
// The same where end - begin is known to be a multiple of LANES.
template <class Body>
INLINE void whole_vectors(Index begin, Index end, Body body) {
  for (Index i = begin; i < end; i += LANES) body(i, Full());
}

}  // namespace vec
