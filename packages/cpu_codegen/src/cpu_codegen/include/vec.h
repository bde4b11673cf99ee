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
INLINE Index at_most(Index a, Index b) { return a < b ? a : b; }
INLINE Index at_least(Index a, Index b) { return a > b ? a : b; }

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

#if VECTOR_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
typedef int IntPart __attribute__((vector_size(64)));
#define WIDEN_BYTES(IS_UNSIGNED, A)                                                 \
  (IS_UNSIGNED ? __builtin_ia32_pmovzxbd512_mask(A, IntPart{}, (u16)-1)             \
               : __builtin_ia32_pmovsxbd512_mask(A, IntPart{}, (u16)-1))
#elif VECTOR_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
#define WIDEN_BYTES(IS_UNSIGNED, A) (IS_UNSIGNED ? __builtin_ia32_pmovzxbd256(A) : __builtin_ia32_pmovsxbd256(A))
#endif
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
#if (VECTOR_BYTES == 64 && defined(__AVX512F__) || VECTOR_BYTES == 32 && defined(__AVX2__)) && !defined(__clang__)
      // Bytes too: by way of 32-bit integers, which one instruction makes.
      if constexpr (sizeof(From) == 1 && sizeof(To) == 4) {
        if constexpr (is_float<To>) {
          r.part[k] = convert<To>(convert<i32>(a)).part[k];
        } else {
          typedef char Bytes __attribute__((vector_size(16)));
          Bytes bytes = {};
          __builtin_memcpy(&bytes, &a.part[k], sizeof a.part[k]);
          r.part[k] = (typename Vec<To>::Part)WIDEN_BYTES((same_type<From, u8>), bytes);
        }
        continue;
      }
#endif
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
      if constexpr (sizeof(From) == 2 && sizeof(To) == 4 && !is_float<To>) {
        typedef short Shorts __attribute__((vector_size(32)));
        typedef int Ints __attribute__((vector_size(64)));
        if constexpr (same_type<From, u16>)
          r.part[k] = (typename Vec<To>::Part)__builtin_ia32_pmovzxwd512_mask((Shorts)a.part[k], Ints{}, (u16)-1);
        else
          r.part[k] = (typename Vec<To>::Part)__builtin_ia32_pmovsxwd512_mask((Shorts)a.part[k], Ints{}, (u16)-1);
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

}  // namespace vec
