// Vectors from memory and back: narrow formats, loads, stores, lanes from anywhere, and the loops that walk over memory.
#pragma once
#include "vec.h"

namespace vec {

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
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
// Lanes as bits. Lanes whose bit is 0 touch no memory.
INLINE u16 lane_bits(Mask lanes) { return __builtin_ia32_ptestmd512(lanes.bits.part[0], lanes.bits.part[0], (u16)-1); }
INLINE u16 lane_bits(Tail tail) { return u16((1u << tail.n) - 1); }
typedef char Bytes16 __attribute__((vector_size(16)));
typedef short Shorts16 __attribute__((vector_size(32)));
typedef int Ints16 __attribute__((vector_size(64)));
typedef long long Longs8 __attribute__((vector_size(64)));
template <class T>
INLINE Vec<T> load_bits(const T* p, u16 bits) {
  using Part = typename Vec<T>::Part;
  Vec<T> r;
  if constexpr (sizeof(T) == 1) r.part[0] = (Part)__builtin_ia32_loaddquqi128_mask((const char*)p, Bytes16{}, bits);
  if constexpr (sizeof(T) == 2) r.part[0] = (Part)__builtin_ia32_loaddquhi256_mask((const short*)p, Shorts16{}, bits);
  if constexpr (sizeof(T) == 4) r.part[0] = (Part)__builtin_ia32_loaddqusi512_mask((const int*)p, Ints16{}, bits);
  if constexpr (sizeof(T) == 8) {
    r.part[0] = (Part)__builtin_ia32_loaddqudi512_mask((const long long*)p, Longs8{}, (u8)bits);
    r.part[1] = (Part)__builtin_ia32_loaddqudi512_mask((const long long*)p + 8, Longs8{}, (u8)(bits >> 8));
  }
  return r;
}
template <class T>
INLINE void store_bits(T* p, Vec<T> x, u16 bits) {
  if constexpr (sizeof(T) == 1) __builtin_ia32_storedquqi128_mask((char*)p, (Bytes16)x.part[0], bits);
  if constexpr (sizeof(T) == 2) __builtin_ia32_storedquhi256_mask((short*)p, (Shorts16)x.part[0], bits);
  if constexpr (sizeof(T) == 4) __builtin_ia32_storedqusi512_mask((int*)p, (Ints16)x.part[0], bits);
  if constexpr (sizeof(T) == 8) {
    __builtin_ia32_storedqudi512_mask((long long*)p, (Longs8)x.part[0], (u8)bits);
    __builtin_ia32_storedqudi512_mask((long long*)p + 8, (Longs8)x.part[1], (u8)(bits >> 8));
  }
}
template <class T, class Lanes>
INLINE Vec<T> load_raw(const T* p, Lanes lanes) {
  return load_bits(p, lane_bits(lanes));
}
#else
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
#endif

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
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
  return store_bits(p, x, lane_bits(tail));
#elif defined(__AVX2__) && VECTOR_BYTES == 32 && !defined(__clang__)
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
#pragma GCC unroll 16
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
// Where each lane reads, and whether all that lanes read lies so near together that one vector holds it.
template <class T>
struct Places {
  T at[LANES];
  I32 offset;
  Index first;
  int span;
  bool near;
  INLINE Index operator[](Index lane) const { return at[lane]; }
};
template <class T, class Lanes>
INLINE Places<T> places(Vec<T> value, Lanes lanes) {
  Places<T> r;
  store(r.at, value, Full());
  const T start = r.at[0], last = r.at[lanes.n - 1];
  const T first = start < last ? start : last, beyond = (start < last ? last : start) - first;
  const Vec<T> offset = value - Vec<T>(first);
  r.near = beyond < LANES && all_of(((offset >= Vec<T>(T(0))) & (offset <= Vec<T>(beyond))) | !active(lanes));
  r.offset = convert<i32>(offset);
  r.first = first;
  r.span = (int)beyond + 1;
  return r;
}
// The elements of a row that begins at p.
template <class V, class T, class Lanes, class Element>
INLINE V pick(const Places<T>& places, const Element* p, Lanes lanes) {
#if !defined(__clang__)
  if constexpr (!same_type<V, Mask>) {
    if constexpr (V::PARTS == 1 && sizeof(typename Lane<V>::type) == 4) {
      if (places.near) {
        V r = load<V>(p + places.first, Tail{places.span});
        r.part[0] = __builtin_shuffle(r.part[0], places.offset.part[0]);
        return r;
      }
    }
  }
#endif
  return gather<V>(lanes, [&](Index lane) INLINE_BODY { return p + places.at[lane]; });
}
// Every other element from p on, of two vectors that lie side by side.
template <class V, class Element, class Lanes>
INLINE V load_alternate(const Element* p, Lanes lanes) {
  static_assert(V::PARTS == 1);
  const int span = 2 * lanes.n - 1;
  V low, high;
  if constexpr (same_type<Lanes, Full>) {
    low = load<V>(p, Full());
    high = load<V>(p + LANES, Tail{LANES - 1});
  } else {
    low = load<V>(p, Tail{span < LANES ? span : LANES});
    high = load<V>(p + LANES, Tail{span < LANES ? 0 : span - LANES});
  }
  low.part[0] = __builtin_shufflevector(low.part[0], high.part[0], EVEN_LANES);
  return low;
}
template <int... K>
struct LaneList {};
using AllLanes = LaneList<LOW_LANES, HIGH_LANES>;

// a[0], b[0], a[1], b[1], ... from p on.
template <class Element, class V, class Lanes, int... K>
INLINE void store_pairs(Element* p, V a, V b, Lanes lanes, LaneList<K...>) {
  static_assert(V::PARTS == 1);
  V low, high;
  low.part[0] = __builtin_shufflevector(a.part[0], b.part[0], (K / 2 + K % 2 * LANES)...);
  high.part[0] = __builtin_shufflevector(a.part[0], b.part[0], (LANES / 2 + K / 2 + K % 2 * LANES)...);
  if constexpr (same_type<Lanes, Full>) {
    store(p, low, Full());
    store(p + LANES, high, Full());
  } else {
    const int span = 2 * lanes.n;
    store(p, low, Tail{span < LANES ? span : LANES});
    store(p + LANES, high, Tail{span < LANES ? 0 : span - LANES});
  }
}
template <class Element, class V, class Lanes>
INLINE void store_pairs(Element* p, V a, V b, Lanes lanes) {
  store_pairs(p, a, b, lanes, AllLanes());
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
