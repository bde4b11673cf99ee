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
constexpr Index DEEPEST = 384;
// Panels that are packed together and stay in the second-level cache, where more than BLOCKS_NEAR blocks meet them: so few
// blocks stay near by themselves.
constexpr Index GROUP = 8;
constexpr Index BLOCKS_NEAR = 8;
// Blocks or panels that something is not packed for when it meets no more than these.
constexpr Index MEETING_FEW = 8;
// Elements: rows that lie a multiple of these apart would push each other out of the first-level cache.
constexpr Index CROWDED = 1024;
// Elements of A that are packed at a time. They come from the last cache or memory, once for GROUP panels.
constexpr Index PACKED = 2048 * 1024;
// Blocks of A that are packed at a time, at most: B is packed again for the next ones, which costs little against so many.
constexpr Index BLOCKS_PACKED = 32;
// Sums that wait for further steps: more of them would pass through memory for every cut.
constexpr Index SUMS = 1024 * 1024;

// Elements in 64 bytes; such lines that a panel is packed from, a step.
constexpr Index LINE = 64 / sizeof(float), LINES = PANEL / LINE;

// A matrix in memory: neighbours lie `across` elements apart, steps of the sum `along`.
struct Operand {
  const float* at;
  Index across, along;
};

// to[step * apart + row] = from[row * across + step] for a square of LANES steps and rows, of which `last` stands for all behind it.
static __attribute__((noinline)) void turn_square(float* to, Index apart, const float* from, Index across, Index last) {
  turn_block(to, apart, from, across, last);
}

// Pack `depth` steps of `count` neighbours into to[step][width], of which `used` are read. What lies behind `count` there is any
// of them again.
static __attribute__((noinline)) void pack(float* to, Index width, Operand from, Index used, Index count, Index depth) {
  const float* const at = from.at;
  const Index across = from.across, along = from.along, last = count - 1;
  Index done = 0;
  if (across == 1 && count == used) {
    for (; done < depth; ++done) {
      // Steps may lie a page apart, where the processor asks for nothing by itself.
      for (Index k = 0; k < used; k += LINE) __builtin_prefetch(at + (done + 12) * along + k);
      vectors(0, used, [&](Index k, auto lanes) INLINE_BODY {
        store_raw(to + done * width + k, load_raw(at + done * along + k, lanes), lanes);
      });
    }
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

// Pack `depth` steps of `rows` rows into blocks of `each`, which lie `apart`.
static __attribute__((noinline)) void pack_blocks(float* to, Index apart, Operand from, Index each, Index rows, Index depth) {
  Index packed = 0;
  if (from.across == 1) {  // whole blocks step by step, so that memory is read as it lies
    const Index whole = rows / each;
    for (Index k = 0; k < depth; ++k)
      for (Index block = 0; block < whole; ++block)
        vectors(0, each, [&](Index row, auto lanes) INLINE_BODY {
          store_raw(to + block * apart + k * BLOCK + row, load_raw(from.at + k * from.along + block * each + row, lanes), lanes);
        });
    packed = whole;
  }
  for (; packed * each < rows; ++packed) {
    const Operand source = {from.at + packed * each * from.across, from.across, from.along};
    pack(to + packed * apart, BLOCK, source, each, at_most(each, rows - packed * each), depth);
  }
}

// Ask for a share of the memory that whole panels will be packed from: lines [begin, end) of their LINES * depth each.
INLINE void prefetch(Operand from, Index depth, Index begin, Index end) {
  if (begin >= end) return;
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

template <int ROWS, int VECTORS = PANEL_VECTORS>
struct Sums {
  F32 of[ROWS][VECTORS];

  INLINE Sums() {
#pragma GCC unroll 16
    for (int row = 0; row < ROWS; ++row)
#pragma GCC unroll 2
      for (int v = 0; v < VECTORS; ++v) of[row][v] = F32(0.0f);
  }
  // sums[row][PANEL] += these; with `first` there are none yet. Steps are summed by themselves before they are added: rounding
  // grows with the steps of a cut and with the cuts, not with all steps.
  INLINE void add_to(float* sums, bool first) const {
#pragma GCC unroll 16
    for (int row = 0; row < ROWS; ++row)
#pragma GCC unroll 2
      for (int v = 0; v < VECTORS; ++v) {
        float* const place = sums + row * PANEL + v * LANES;
        store_raw(place, first ? of[row][v] : load_raw(place, Full()) + of[row][v], Full());
      }
  }
};

// sums[row][column] += the products of `depth` steps: a[step][BLOCK], b[step][PANEL].
template <int ROWS>
static __attribute__((noinline)) void multiply(float* sums, const float* a, const float* b, Index depth, bool first) {
  Sums<ROWS> s;
#pragma GCC unroll 1
  for (Index k = 0; k < depth; ++k) {
    // What comes from the second-level cache and behind it is asked for early: other cores keep what lies behind it busy.
    __builtin_prefetch(b + (k + 16) * PANEL);
    __builtin_prefetch(b + (k + 16) * PANEL + LANES);
    __builtin_prefetch(a + (k + 16) * BLOCK);
    const F32 b0 = load_raw(b + k * PANEL, Full()), b1 = load_raw(b + k * PANEL + LANES, Full());
#pragma GCC unroll 16
    for (int row = 0; row < ROWS; ++row) {
      const F32 x(a[k * BLOCK + row]);
      s.of[row][0] = mul_add(x, b0, s.of[row][0]);
      s.of[row][1] = mul_add(x, b1, s.of[row][1]);
    }
  }
  s.add_to(sums, first);
}

// The same of what lies anywhere: rows of a as its operand says, steps of b `along` apart.
template <int ROWS>
static __attribute__((noinline)) void multiply_anywhere(float* sums, Operand a, const float* b, Index along, Index depth, bool first) {
  Sums<ROWS> s;
  const float* from[(ROWS + 3) / 4];  // each fourth row: three more are an offset away, which addresses hold
#pragma GCC unroll 4
  for (int row = 0; row < ROWS; row += 4) from[row / 4] = a.at + row * a.across;
#pragma GCC unroll 1
  for (Index k = 0; k < depth; ++k) {
    const F32 b0 = load_raw(b, Full()), b1 = load_raw(b + LANES, Full());
#pragma GCC unroll 16
    for (int row = 0; row < ROWS; ++row) {
      const F32 x(from[row / 4][row % 4 * a.across]);
      s.of[row][0] = mul_add(x, b0, s.of[row][0]);
      s.of[row][1] = mul_add(x, b1, s.of[row][1]);
    }
#pragma GCC unroll 4
    for (int fourth = 0; fourth < (ROWS + 3) / 4; ++fourth) from[fourth] += a.along;
    b += along;
  }
  s.add_to(sums, first);
}

// How many rows of sums are made at a time, and by what.
struct Block {
  Index rows;
  void (*multiply)(float* sums, const float* a, const float* b, Index depth, bool first);
  void (*multiply_anywhere)(float* sums, Operand a, const float* b, Index along, Index depth, bool first);
};
template <int ROWS>
INLINE Block block() {
  return {ROWS, multiply<ROWS>, multiply_anywhere<ROWS>};
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
  for (Index column = count; column < LANES; ++column)
    for (int row = 0; row < ROWS; ++row) store_raw(sums[row][column], F32(0.0f), Full());
  for (Index column = 0; column < count; ++column) {
    const float* const other = b.at + column * b.across;
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
// What is packed of A is met by all columns: all steps of as many rows as there is room for; or, where that would be a part of them
// and all sums fit beside it, some steps of all rows. What would meet little is not packed but read where it lies.
static __attribute__((noinline)) void product(Part part, Index depth, Operand a, Operand b, Block block, Finish finish) {
  const Index height = part.last_row - part.first_row, each = block.rows, steps = at_least(depth, 1);
  if (height > 0 && height <= FEW && b.along == 1) return product_of_few(part, depth, a, b, finish);
  const Index all = ceil_div(height, each), across = ceil_div(part.last_column - part.first_column, PANEL);
  const Index cuts = ceil_div(steps, DEEPEST), step = ceil_div(steps, cuts);
  const bool a_in_place = across <= MEETING_FEW && (a.along == 1 || a.across == 1) && a.across % CROWDED;
  const bool b_in_place = a_in_place && all <= MEETING_FEW && b.across == 1;
  const Index room_for = a_in_place ? all : at_least(PACKED / (BLOCK * steps), 1);
  const bool by_steps = room_for < all && all * across * each * PANEL <= SUMS && all * BLOCK * step <= PACKED;
  const Index most = by_steps ? all : at_most(at_most(room_for, BLOCKS_PACKED), all), chunk = by_steps ? step : steps;
  const Index group = most <= BLOCKS_NEAR ? 1 : at_most(GROUP, across);
  const Index kept = by_steps ? across : group;  // panels whose sums wait for more steps
  const Index tiles = cuts == 1 ? 1 : most * kept, blocks_packed = a_in_place ? 1 : most;
  Row<float> room(blocks_packed * BLOCK * chunk + tiles * each * PANEL + group * PANEL * step + LINE);
  float* const panels = (float*)(((u64)room.data + 63) / 64 * 64);
  float* const packed = panels + group * PANEL * step;
  float* const sums = packed + blocks_packed * BLOCK * chunk;
  for (Index top = part.first_row; top < part.last_row; top += most * each)
    for (Index first = 0; first < steps; first += chunk) {
      const Index bottom = at_most(top + most * each, part.last_row), blocks = ceil_div(bottom - top, each);
      const Index unpacked = a_in_place ? (bottom - top) / each * each : 0;
      const Operand rest = {a.at + (top + unpacked) * a.across + first * a.along, a.across, a.along};
      pack_blocks(packed, BLOCK * chunk, rest, each, bottom - top - unpacked, at_most(chunk, depth - first));
      for (Index left = part.first_column; left < part.last_column; left += group * PANEL) {
        const Index right = at_most(left + group * PANEL, part.last_column), here = ceil_div(right - left, PANEL);
        float* const mine = sums + (by_steps ? (left - part.first_column) * each : 0);
        for (Index k = first; k < at_most(first + chunk, steps); k += step) {
          const Index deep = at_most(step, depth - k);
          const bool last = k + step >= steps, turned = k + step >= first + chunk;
          const auto panel = [&](Index p) INLINE_BODY {
            return Operand{b.at + (left + p * PANEL) * b.across + k * b.along, b.across, b.along};
          };
          const auto in_place = [&](Index p) INLINE_BODY { return b_in_place && right - left >= (p + 1) * PANEL; };
          for (Index p = 0; p < here; ++p)
            if (!in_place(p))
              pack(panels + p * PANEL * step, PANEL, panel(p), PANEL, at_most(PANEL, right - left - p * PANEL), deep);
          const Operand next = {turned ? b.at + right * b.across + first * b.along
                                       : b.at + left * b.across + (k + step) * b.along, b.across, b.along};
          const Index ahead = turned ? at_most(group, (part.last_column - right) / PANEL) : (right - left) / PANEL;
          const Index lines = at_least(ahead, 0) * LINES * step;
          for (Index number = 0; number < blocks; ++number) {
            const Index row = top + number * each, rows = at_most(each, bottom - row);
            prefetch(next, step, lines * number / blocks, lines * (number + 1) / blocks);
            for (Index p = 0; p < here; ++p) {
              const Index column = left + p * PANEL, width = at_most(PANEL, right - column);
              float* const place = mine + (cuts == 1 ? 0 : number * kept + p) * each * PANEL;
              if (a_in_place) {
                const Operand packed_block = {packed + (k - first) * BLOCK, 1, BLOCK};
                const Operand from = rows == each ? Operand{a.at + row * a.across + k * a.along, a.across, a.along} : packed_block;
                if (in_place(p)) block.multiply_anywhere(place, from, panel(p).at, b.along, deep, k == 0);
                else block.multiply_anywhere(place, from, panels + p * PANEL * step, PANEL, deep, k == 0);
              } else {
                const float* const from = packed + number * BLOCK * chunk + (k - first) * BLOCK;
                block.multiply(place, from, panels + p * PANEL * step, deep, k == 0);
              }
              if (last) finish(place, row, rows, column, width);
            }
          }
        }
      }
    }
}

}  // namespace vec
