// Products of matrices, summed in registers: blocks of A and panels of B in the order in which they are read, and the loops
// over them. After Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008).
#pragma once
#include "kernel.h"

namespace vec {

// Columns of a panel of B.
constexpr int PANEL_VECTORS = 2;
constexpr int PANEL = PANEL_VECTORS * LANES;
// Places for rows in a step of a packed block of A. As many are used as the registers have room for sums.
constexpr int BLOCK = VECTOR_BYTES == 64 ? 16 : 8;
// Steps of a packed panel: a block of A and much of a panel fit in the first-level cache.
constexpr Index DEEPEST = 256;
// Panels that are packed together and stay in the second-level cache, where more than BLOCKS_NEAR blocks meet them: so few
// blocks stay near by themselves.
constexpr Index GROUP = 4;
constexpr Index BLOCKS_NEAR = 8;
// Elements of A that are packed at a time. They come from the last cache or memory, once for GROUP panels.
constexpr Index PACKED = 2048 * 1024;

// A matrix in memory: neighbours lie `across` elements apart, steps of the sum `along`.
struct Operand {
  const float* at;
  Index across, along;
};

// Of lanes numbered l, the halves of what two rows exchange in one step of turning a square of them around.
template <int... LANE>
struct LaneNumbers {
  template <int STEP>
  static INLINE void exchange(F32::Part& a, F32::Part& b) {
    const F32::Part first = __builtin_shufflevector(a, b, (LANE & STEP ? LANES + LANE - STEP : LANE)...);
    b = __builtin_shufflevector(a, b, (LANE & STEP ? LANES + LANE : LANE + STEP)...);
    a = first;
  }
};
using Numbered = LaneNumbers<LOW_LANES, HIGH_LANES>;
template <int STEP>
INLINE void turn(F32 (&rows)[LANES]) {
  if constexpr (STEP > 0) {
#pragma GCC unroll 16
    for (int row = 0; row < LANES; ++row)
      if (!(row & STEP)) Numbered::exchange<STEP>(rows[row].part[0], rows[row + STEP].part[0]);
    turn<STEP / 2>(rows);
  }
}

// to[step * apart + row] = from[row * across + step] for a square of LANES steps and rows, of which `last` stands for all behind it.
static __attribute__((noinline)) void turn_square(float* to, Index apart, const float* from, Index across, Index last) {
  F32 rows[LANES];
#pragma GCC unroll 16
  for (int lane = 0; lane < LANES; ++lane) rows[lane] = load_raw(from + at_most(lane, last) * across, Full());
  turn<LANES / 2>(rows);
#pragma GCC unroll 16
  for (int step = 0; step < LANES; ++step) store_raw(to + step * apart, rows[step], Full());
}

// Pack `depth` steps of `count` neighbours into to[step][width], of which `used` are read. What lies behind `count` there is any
// of them again.
static __attribute__((noinline)) void pack(float* to, Index width, Operand from, Index used, Index count, Index depth) {
  const float* const at = from.at;
  const Index across = from.across, along = from.along, last = count - 1;
  Index done = 0;
  if (across == 1 && count == used) {
    for (; done < depth; ++done)
      vectors(0, used, [&](Index k, auto lanes) INLINE_BODY {
        store_raw(to + done * width + k, load_raw(at + done * along + k, lanes), lanes);
      });
  } else if (along == 1) {
    for (; done + LANES <= depth; done += LANES)
      for (Index first = 0; first < width; first += LANES) {
        const Index here = at_most(first, last);
        turn_square(to + done * width + first, width, at + here * across + done, across, last - here);
      }
  }
  for (; done < depth; ++done)
    for (Index k = 0; k < used; ++k) to[done * width + k] = at[at_most(k, last) * across + done * along];
}

// Lines of 64 bytes that a panel is packed from, a step.
constexpr Index LINE = 64 / sizeof(float), LINES = PANEL / LINE;

// Ask for a share of the memory that whole panels will be packed from: lines [begin, end) of their LINES * depth each.
INLINE void prefetch(Operand from, Index depth, Index begin, Index end) {
  const Index each = LINES * depth;
  for (Index panel = begin / each; begin < end; ++panel) {
    const float* const at = from.at + panel * PANEL * from.across;
    const Index stop = at_most(end - panel * each, each);
    for (Index line = begin - panel * each; line < stop; ++line) {
      const Index fast = from.along == 1 ? line % PANEL : line / LINES;
      const Index slow = from.along == 1 ? line / PANEL : line % LINES;
      __builtin_prefetch(at + fast * (from.along == 1 ? from.across : from.along) + slow * LINE, 0, 2);
    }
    begin = panel * each + stop;
  }
}

// sums[row][column] += the products of `depth` steps; with `first` there are no sums yet. a[step][BLOCK], b[step][PANEL].
// Steps are summed by themselves before they are added: rounding grows with the steps of a cut and with the cuts, not with
// all steps.
template <int ROWS>
static __attribute__((noinline)) void multiply(float* sums, const float* a, const float* b, Index depth, bool first) {
  F32 s[ROWS][PANEL_VECTORS];
#pragma GCC unroll 16
  for (int row = 0; row < ROWS; ++row)
#pragma GCC unroll 2
    for (int v = 0; v < PANEL_VECTORS; ++v) s[row][v] = F32(0.0f);
#pragma GCC unroll 1
  for (Index k = 0; k < depth; ++k) {
    const F32 b0 = load_raw(b + k * PANEL, Full()), b1 = load_raw(b + k * PANEL + LANES, Full());
#pragma GCC unroll 16
    for (int row = 0; row < ROWS; ++row) {
      const F32 x(a[k * BLOCK + row]);
      s[row][0] = mul_add(x, b0, s[row][0]);
      s[row][1] = mul_add(x, b1, s[row][1]);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < ROWS; ++row)
#pragma GCC unroll 2
    for (int v = 0; v < PANEL_VECTORS; ++v) {
      float* const place = sums + row * PANEL + v * LANES;
      store_raw(place, first ? s[row][v] : load_raw(place, Full()) + s[row][v], Full());
    }
}

// How many rows of sums are made at a time, and by what.
struct Block {
  Index rows;
  void (*multiply)(float* sums, const float* a, const float* b, Index depth, bool first);
};
template <int ROWS>
INLINE Block block() {
  return {ROWS, multiply<ROWS>};
}

// The part of a product that one thread computes at a time: some rows and columns of one matrix of a batch.
struct Part {
  Index batch, first_row, last_row, first_column, last_column;
};

// How a batch of products is cut into parts: as many as there are threads, so that what they pack twice is least.
struct Parts {
  Index batch, rows, columns, block, by_rows, by_columns;

  Parts(Index batch, Index rows, Index columns, Index block)
      : batch(batch), rows(rows), columns(columns), block(block), by_rows(1), by_columns(1) {
    const Index threads = workers(), blocks = ceil_div(rows, block), panels = ceil_div(columns, PANEL);
    if (batch >= 2 * threads || batch == 0) return;
    Index least = 0;
    for (Index across = 1; across <= at_most(threads, panels); ++across) {
      const Index down = at_most(ceil_div(threads, across), at_least(blocks, 1));
      const Index height = ceil_div(blocks, down) * block, width = ceil_div(panels, across) * PANEL;
      const Index rounds = ceil_div(batch * across * down, threads);
      const Index cost = rounds * (height * width + 8 * (height + width));
      if (least == 0 || cost < least) least = cost, by_rows = down, by_columns = across;
    }
  }
  Index count() const { return rows && columns ? batch * by_rows * by_columns : 0; }
  Part operator[](Index item) const {
    const Index blocks = ceil_div(rows, block), panels = ceil_div(columns, PANEL);
    const Index column = item % by_columns, row = item / by_columns % by_rows;
    return {item / by_columns / by_rows, blocks * row / by_rows * block,
            at_most(blocks * (row + 1) / by_rows * block, rows), panels * column / by_columns * PANEL,
            at_most(panels * (column + 1) / by_columns * PANEL, columns)};
  }
};

// What is made of sums[row][PANEL] of `rows` rows from `row` on and `width` columns from `column` on: what differs from one kernel
// to another, called for many elements at a time, so that the loops around it are compiled once a file.
struct Finish {
  void (*call)(const void* body, const float* sums, Index row, Index rows, Index column, Index width);
  const void* body;
  INLINE void operator()(const float* sums, Index row, Index rows, Index column, Index width) const {
    call(body, sums, row, rows, column, width);
  }
};
// The same by elements: body(row, column, lanes, sum).
template <class Body>
INLINE Finish finish_by(const Body& body) {
  return {[](const void* body, const float* sums, Index row, Index rows, Index column, Index width) {
            ROLLED for (Index r = 0; r < rows; ++r)
              vectors(0, width, [&](Index c, auto lanes) INLINE_BODY {
                (*(const Body*)body)(row + r, column + c, lanes, load_raw(sums + r * PANEL + c, Full()));
              });
          },
          &body};
}

// Rows so few that a matrix is rather read where it is, steps along the lanes, than put in order.
constexpr int FEW = 4;

// to[row][PANEL] = the products of `depth` steps of ROWS rows of a, each `depth` apart, with `count` <= LANES columns of b.
template <int ROWS>
static __attribute__((noinline)) void dots(float* to, const float* a, Operand b, Index count, Index depth) {
  alignas(64) float sums[ROWS][LANES][LANES];
  for (Index column = 0; column < LANES; ++column) {
    const float* const other = b.at + at_most(column, count - 1) * b.across;
    F32 s[ROWS];
    for (int row = 0; row < ROWS; ++row) s[row] = F32(0.0f);
    vectors(0, depth, [&](Index k, auto lanes) INLINE_BODY {
      const F32 x = load_raw(other + k, lanes);
      for (int row = 0; row < ROWS; ++row) s[row] = mul_add(load_raw(a + row * depth + k, lanes), x, s[row]);
    });
    for (int row = 0; row < ROWS; ++row) store_raw(sums[row][column], s[row], Full());
  }
  for (int row = 0; row < ROWS; ++row) {
    turn_square(sums[row][0], LANES, sums[row][0], LANES, LANES - 1);
    F32 total = load_raw(sums[row][0], Full());
    for (int lane = 1; lane < LANES; ++lane) total = total + load_raw(sums[row][lane], Full());
    store_raw(to + row * PANEL, total, Full());
  }
}
static __attribute__((noinline)) void product_of_few(Part part, Index depth, Operand a, Operand b, Finish finish) {
  const Index rows = part.last_row - part.first_row;
  Row<float> room(FEW * depth);
  for (Index row = 0; row < FEW; ++row)
    for (Index k = 0; k < depth; ++k)
      room.data[row * depth + k] = a.at[(part.first_row + at_most(row, rows - 1)) * a.across + k * a.along];
  for (Index left = part.first_column; left < part.last_column; left += LANES) {
    const Index width = at_most(LANES, part.last_column - left);
    alignas(64) float sums[FEW * PANEL];
    const Operand here = {b.at + left * b.across, b.across, b.along};
    if (rows == 1) dots<1>(sums, room.data, here, width, depth);
    else dots<FEW>(sums, room.data, here, width, depth);
    finish(sums, part.first_row, rows, left, width);
  }
}

// A part of a product whose sums have `depth` terms. A block of A stays in the first-level cache while it meets a group of panels.
static __attribute__((noinline)) void product(Part part, Index depth, Operand a, Operand b, Block block, Finish finish) {
  const Index height = part.last_row - part.first_row, each = block.rows, steps = at_least(depth, 1);
  if (height > 0 && height <= FEW && b.along == 1) return product_of_few(part, depth, a, b, finish);
  const Index most = at_most(at_least(PACKED / (BLOCK * steps), 1), ceil_div(height, each));
  const Index cuts = ceil_div(steps, DEEPEST), step = ceil_div(steps, cuts);
  const Index group = most <= BLOCKS_NEAR ? 1 : at_most(GROUP, ceil_div(part.last_column - part.first_column, PANEL));
  const Index tiles = cuts == 1 ? 1 : most * group;
  Row<float> room(most * BLOCK * steps + tiles * each * PANEL + group * PANEL * step + 64 / sizeof(float));
  float* const panels = (float*)(((u64)room.data + 63) / 64 * 64);
  float* const packed = panels + group * PANEL * step;
  float* const sums = packed + most * BLOCK * steps;
  for (Index top = part.first_row; top < part.last_row; top += most * each) {
    const Index bottom = at_most(top + most * each, part.last_row), blocks = ceil_div(bottom - top, each);
    for (Index number = 0; number < blocks; ++number)
      pack(packed + number * BLOCK * depth, BLOCK, {a.at + (top + number * each) * a.across, a.across, a.along}, each,
           at_most(each, bottom - top - number * each), depth);
    for (Index left = part.first_column; left < part.last_column; left += group * PANEL) {
      const Index right = at_most(left + group * PANEL, part.last_column), here = ceil_div(right - left, PANEL);
      for (Index cut = 0; cut < cuts; ++cut) {
        const Index k = cut * step, deep = at_most(step, depth - k);
        const bool last = cut + 1 == cuts;
        for (Index p = 0; p < here; ++p) {
          const Index column = left + p * PANEL;
          const Operand source = {b.at + column * b.across + k * b.along, b.across, b.along};
          pack(panels + p * PANEL * step, PANEL, source, PANEL, at_most(PANEL, right - column), deep);
        }
        const Operand next = {last ? b.at + right * b.across : b.at + left * b.across + (k + step) * b.along, b.across, b.along};
        const Index ahead = last ? at_most(group, (part.last_column - right) / PANEL) : (right - left) / PANEL;
        const Index lines = at_least(ahead, 0) * LINES * step;
        for (Index number = 0; number < blocks; ++number) {
          const Index row = top + number * each, rows = at_most(each, bottom - row);
          prefetch(next, step, lines * number / blocks, lines * (number + 1) / blocks);
          for (Index p = 0; p < here; ++p) {
            const Index column = left + p * PANEL, width = at_most(PANEL, right - column);
            float* const mine = sums + (cuts == 1 ? 0 : number * group + p) * each * PANEL;
            block.multiply(mine, packed + number * BLOCK * depth + k * BLOCK, panels + p * PANEL * step, deep, cut == 0);
            if (last) finish(mine, row, rows, column, width);
          }
        }
      }
    }
  }
}

}  // namespace vec
