// Transposed copies to memory nearby: blocks of LANES by LANES elements are turned around in registers.
#pragma once
#include "memory.h"

namespace vec {

#define UNROLLED _Pragma("GCC unroll 16")

// Of every two rows that are D apart, the D lanes off the diagonal change places.
template <int D, class Part, int... K>
INLINE void exchange(Part (&row)[LANES], LaneList<K...>) {
  UNROLLED for (int i = 0; i < LANES; ++i) {
    if (i & D) continue;
    const Part a = row[i], b = row[i + D];
    row[i] = __builtin_shufflevector(a, b, (K & D ? LANES + K - D : K)...);
    row[i + D] = __builtin_shufflevector(a, b, (K & D ? LANES + K : K + D)...);
  }
}
// Of rows of `from`, `last` stands for all behind it.
template <class To, class From>
INLINE void turn_block(To* to, Index to_step, const From* from, Index from_step, Index last = LANES - 1) {
  typename Vec<To>::Part row[LANES];
  UNROLLED for (int i = 0; i < LANES; ++i) row[i] = load<Vec<To>>(from + at_most(i, last) * from_step, Full()).part[0];
  if constexpr (LANES > 8) exchange<8>(row, AllLanes());
  if constexpr (LANES > 4) exchange<4>(row, AllLanes());
  exchange<2>(row, AllLanes());
  exchange<1>(row, AllLanes());
  UNROLLED for (int i = 0; i < LANES; ++i) __builtin_memcpy(to + i * to_step, &row[i], sizeof row[i]);
}
// to[row * to_step + column] = from[column * from_step + row]; From: To, or a narrower format of it in memory.
template <class To, class From>
__attribute__((noinline)) static void turn(To* to, Index to_step, const From* from, Index from_step, Index rows,
                                           Index columns) {
  Index whole_rows = 0, whole_columns = 0;
  if constexpr (sizeof(To) == 4) {
    whole_rows = rows / LANES * LANES, whole_columns = columns / LANES * LANES;
    for (Index c = 0; c < whole_columns; c += LANES)
      for (Index r = 0; r < whole_rows; r += LANES)
        turn_block(to + r * to_step + c, to_step, from + c * from_step + r, from_step);
  }
  for (Index c = 0; c < columns; ++c)
    for (Index r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      to[r * to_step + c] = load(from + c * from_step + r);
}

}  // namespace vec
