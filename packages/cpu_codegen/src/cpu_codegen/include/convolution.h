// Convolutions with neighbours, by blocks as products of matrices: the rows of A are never put in order, the micro-kernel
// reads each point's channels where they lie. After Dukhan, The Indirect Convolution Algorithm (2019).
#pragma once
#include "product.h"

namespace vec {

// Bytes of what blocks are made of that may lie in the second-level cache beside the panels: one cut of their points, and sums.
constexpr Index NEARBY = 512 * 1024;
// Steps of a packed panel: long runs over channels end seldom. Panels of so many steps that stay in that cache.
constexpr Index DEEPEST_TAPS = 576, GROUP_OF_TAPS = 4;

// Weights in memory: results lie `across` elements apart, channels `along`; the taps where `taps` says. They are `ordered` if
// they follow upon each other, and upon them the next channel's.
struct Weights {
  const float* at;
  Index across, along;
  const Index* taps;
  bool ordered;
};

// Pack `count` <= width results of `channels` channels into to[tap][channel][width]. What lies behind them there is any of them
// again.
static __attribute__((noinline)) void pack_weights(float* to, Index width, Weights from, Index taps, Index count, Index channels) {
  if (!from.ordered) {
    for (Index tap = 0; tap < taps; ++tap)
      pack(to + tap * channels * width, width, {from.at + from.taps[tap], from.across, from.along}, width, count, channels);
    return;
  }
  const Index depth = taps * channels, last = count - 1;
  Index tap = 0, channel = 0, done = 0;
  const auto place = [&]() INLINE_BODY {
    float* const here = to + (tap * channels + channel) * width;
    if (++tap == taps) tap = 0, ++channel;
    return here;
  };
  for (; done + LANES <= depth; done += LANES) {
    float* places[LANES];
    ROLLED for (int step = 0; step < LANES; ++step) places[step] = place();
    ROLLED for (Index first = 0; first < width; first += LANES) {
      alignas(64) float square[LANES][LANES];
      const Index here = at_most(first, last);
      turn_square(square[0], LANES, from.at + here * from.across + done, from.across, last - here);
      for (int step = 0; step < LANES; ++step)
        store_raw(places[step] + first, load_raw(square[step], Full()), Full());
    }
  }
  for (; done < depth; ++done) {
    float* const here = place();
    ROLLED for (Index k = 0; k < width; ++k) here[k] = from.at[at_most(k, last) * from.across + done];
  }
}

// sums[row][column] += the products of `channels` channels, from `begin` on, of all taps; with `first` there are no sums yet.
// points[tap][row] is where a point's channels lie, b[tap][channel][column]; columns are of VECTORS vectors.
template <int ROWS, int VECTORS>
static __attribute__((noinline)) void multiply_points(float* sums, const float* const* points, Index taps, Index begin,
                                                      Index channels, const float* b, bool first) {
  Sums<ROWS, VECTORS> s;
#pragma GCC unroll 1
  for (Index tap = 0; tap < taps; ++tap, points += ROWS) {
#pragma GCC unroll 1
    for (Index k = begin; k < begin + channels; ++k, b += VECTORS * LANES) {
      F32 y[VECTORS];
#pragma GCC unroll 2
      for (int v = 0; v < VECTORS; ++v) y[v] = load_raw(b + v * LANES, Full());
#pragma GCC unroll 16
      for (int row = 0; row < ROWS; ++row) {
        const F32 x(points[row][k]);
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; ++v) s.of[row][v] = mul_add(x, y[v], s.of[row][v]);
      }
    }
  }
  s.add_to(sums, first);
}

// to[tap][ROWS]: where the channels lie that each tap meets at each of the rows from `row` on, of which `last` stands for all
// behind it; or `zeros`.
struct Find {
  void (*call)(const void* body, const float** to, Index row, Index last, const float* zeros);
  const void* body;
};
// The same by rows: body(to, row, zeros).
template <int ROWS, class Body>
INLINE Find find_by(const Body& body) {
  return {[](const void* body, const float** to, Index row, Index last, const float* zeros) {
            ROLLED for (Index r = 0; r < ROWS; ++r) (*(const Body*)body)(to + r, at_most(row + r, last), zeros);
          },
          &body};
}

// How many points' sums are made at a time, and by what: for panels that are whole, and for those of one vector.
struct PointsBlock {
  Index rows;
  void (*multiply)(float* sums, const float* const* points, Index taps, Index begin, Index channels, const float* b,
                   bool first);
  void (*multiply_narrow)(float* sums, const float* const* points, Index taps, Index begin, Index channels,
                          const float* b, bool first);
};
template <int ROWS>
INLINE PointsBlock points_block() {
  return {ROWS, multiply_points<ROWS, PANEL_VECTORS>, multiply_points<ROWS, 1>};
}

// The elements of a part of a convolution: its rows are points of the result, its columns channels of it. A block of points stays
// in the first-level cache while it meets a group of panels.
static __attribute__((noinline)) void convolve(Part part, Index taps, Index channels, Weights weights,
                                               PointsBlock block, Find find, Finish finish) {
  const Index each = block.rows, height = part.last_row - part.first_row, across = ceil_div(part.last_column - part.first_column, PANEL);
  const Index fitting = DEEPEST_TAPS / taps, even = fitting > 16 ? fitting / 16 * 16 : at_least(fitting, 1);
  const Index cuts = ceil_div(channels, even), step = ceil_div(channels, cuts);
  const Index group = at_most(GROUP_OF_TAPS, across);
  const Index a_row = step * sizeof(float) + taps * sizeof(float*) + (cuts > 1 ? group * PANEL * sizeof(float) : 0);
  const Index most = at_most(at_least(NEARBY / (each * a_row), 1), ceil_div(height, each));
  const Index tiles = cuts == 1 ? 1 : most * group;
  Row<const float*> points(most * each * taps);
  Row<float> room(channels + tiles * each * PANEL + group * PANEL * taps * step + 64 / sizeof(float));
  float* const panels = (float*)(((u64)room.data + 63) / 64 * 64);
  float* const sums = panels + group * PANEL * taps * step;
  float* const zeros = sums + tiles * each * PANEL;
  for (Index k = 0; k < channels; ++k) zeros[k] = 0;
  for (Index top = part.first_row; top < part.last_row; top += most * each) {
    const Index bottom = at_most(top + most * each, part.last_row), blocks = ceil_div(bottom - top, each);
    for (Index number = 0; number < blocks; ++number)
      find.call(find.body, points.data + number * each * taps, top + number * each, bottom - 1, zeros);
    for (Index left = part.first_column; left < part.last_column; left += group * PANEL) {
      const Index right = at_most(left + group * PANEL, part.last_column), here = ceil_div(right - left, PANEL);
      for (Index cut = 0; cut < cuts; ++cut) {
        const Index k = cut * step, deep = at_most(step, channels - k);
        const bool last = cut + 1 == cuts;
        for (Index p = 0; p < here; ++p) {
          const Index column = left + p * PANEL, width = at_most(PANEL, right - column);
          float* const panel = panels + p * PANEL * taps * step;
          Weights source = weights;
          source.at += column * weights.across + k * weights.along;
          pack_weights(panel, width <= LANES ? LANES : PANEL, source, taps, width, deep);
        }
        const float* const from = last ? weights.at + right * weights.across
                                       : weights.at + left * weights.across + (k + step) * weights.along;
        const Index ahead = last ? at_most(group, (part.last_column - right) / PANEL) : (right - left) / PANEL;
        const Index next = taps * (last ? step : at_most(step, channels - k - step));
        const Index lines = weights.ordered ? at_least(ahead, 0) * LINES * next : 0;
        for (Index number = 0; number < blocks; ++number) {
          const Index row = top + number * each, rows = at_most(each, bottom - row);
          const float* const* const found = points.data + number * each * taps;
          if (lines) prefetch({from, weights.across, 1}, next, lines * number / blocks, lines * (number + 1) / blocks);
          for (Index p = 0; p < here; ++p) {
            const Index column = left + p * PANEL, width = at_most(PANEL, right - column);
            float* const mine = sums + (cuts == 1 ? 0 : number * group + p) * each * PANEL;
            const float* const panel = panels + p * PANEL * taps * step;
            (width <= LANES ? block.multiply_narrow : block.multiply)(mine, found, taps, k, deep, panel, cut == 0);
            if (last) finish(mine, row, rows, column, width);
          }
        }
      }
    }
  }
}

}  // namespace vec
