// Convolutions with neighbours, by blocks as products of matrices: the rows of A are never put in order, the micro-kernel
// reads each point's channels where they lie. After Dukhan, The Indirect Convolution Algorithm (2019).
#pragma once
#include "product.h"

namespace vec {

// Bytes of what blocks are made of that may lie in the second-level cache beside the panels: one cut of their points, and sums.
constexpr Index NEARBY = 512 * 1024;
// Steps of a packed panel: long runs over channels end seldom.
constexpr Index DEEPEST_TAPS = 576;

// Weights in memory: results lie `across` elements apart, channels `along`; the taps where `taps` says. They are `ordered` if
// they follow upon each other, and upon them the next channel's.
struct Weights {
  const float* at;
  Index across, along;
  const Index* taps;
  bool ordered;
};

// Pack `count` <= WIDTH results of `channels` channels into to[tap][channel][WIDTH]. What lies behind them there is any of them
// again.
template <int WIDTH>
static __attribute__((noinline)) void pack_weights(float* to, Weights from, Index taps, Index count, Index channels) {
  if (!from.ordered) {
    for (Index tap = 0; tap < taps; ++tap)
      pack<WIDTH, WIDTH>(to + tap * channels * WIDTH, {from.at + from.taps[tap], from.across, from.along}, count, channels);
    return;
  }
  const Index depth = taps * channels, last = count - 1;
  Index tap = 0, channel = 0, done = 0;
  const auto place = [&]() INLINE_BODY {
    float* const here = to + (tap * channels + channel) * WIDTH;
    if (++tap == taps) tap = 0, ++channel;
    return here;
  };
  for (; done + LANES <= depth; done += LANES) {
    float* places[LANES];
    ROLLED for (int step = 0; step < LANES; ++step) places[step] = place();
    ROLLED for (Index first = 0; first < WIDTH; first += LANES) {
      F32 rows[LANES];
#pragma GCC unroll 16
      for (int lane = 0; lane < LANES; ++lane)
        rows[lane] = load_raw(from.at + at_most(first + lane, last) * from.across + done, Full());
      turn<LANES / 2>(rows);
#pragma GCC unroll 16
      for (int step = 0; step < LANES; ++step) store_raw(places[step] + first, rows[step], Full());
    }
  }
  for (; done < depth; ++done) {
    float* const here = place();
    ROLLED for (Index k = 0; k < WIDTH; ++k) here[k] = from.at[at_most(k, last) * from.across + done];
  }
}

// sums[row][column] += the products of `channels` channels, from `begin` on, of all taps; with `first` there are no sums yet.
// points[tap][row] is where a point's channels lie, b[tap][channel][column]; columns are of VECTORS vectors.
template <int ROWS, int VECTORS>
static __attribute__((noinline)) void multiply_points(float* sums, const float* const* points, Index taps, Index begin,
                                                      Index channels, const float* b, bool first) {
  F32 s[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int row = 0; row < ROWS; ++row)
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; ++v) s[row][v] = F32(0.0f);
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
        for (int v = 0; v < VECTORS; ++v) s[row][v] = mul_add(x, y[v], s[row][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < ROWS; ++row)
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; ++v) {
      float* const place = sums + row * PANEL + v * LANES;
      store_raw(place, first ? s[row][v] : load_raw(place, Full()) + s[row][v], Full());
    }
}

// What differs from one convolution to another, called for many points at a time.
struct Around {
  // to[tap][ROWS]: where the channels lie that each tap meets at each of the rows from `row` on, of which `last` stands for all
  // behind it; or `zeros`.
  void (*find)(const void* data, const float** to, Index row, Index last, const float* zeros);
  const void* find_data;
  // What is made of sums[row][PANEL] of `rows` rows from `row` on and `width` columns from `column` on.
  void (*finish)(const void* data, const float* sums, Index row, Index rows, Index column, Index width);
  const void* finish_data;
};
template <int ROWS, class Find, class Finish>
INLINE Around around(const Find& find, const Finish& finish) {
  return {[](const void* data, const float** to, Index row, Index last, const float* zeros) {
            ROLLED for (Index r = 0; r < ROWS; ++r) (*(const Find*)data)(to + r, at_most(row + r, last), zeros);
          },
          &find,
          [](const void* data, const float* sums, Index row, Index rows, Index column, Index width) {
            ROLLED for (Index r = 0; r < rows; ++r)
              vectors(0, width, [&](Index k, auto lanes) INLINE_BODY {
                (*(const Finish*)data)(row + r, column + k, lanes, load_raw(sums + r * PANEL + k, Full()));
              });
          },
          &finish};
}

// The elements of a part of a convolution: its rows are points of the result, its columns channels of it. A block of points stays
// in the first-level cache while it meets a group of panels.
template <int ROWS>
static __attribute__((noinline)) void convolve(Part part, Index taps, Index channels, Weights weights, Around around) {
  const Index height = part.last_row - part.first_row, across = ceil_div(part.last_column - part.first_column, PANEL);
  const Index fitting = DEEPEST_TAPS / taps, even = fitting > 16 ? fitting / 16 * 16 : at_least(fitting, 1);
  const Index cuts = ceil_div(channels, even), step = ceil_div(channels, cuts);
  const Index group = at_most(GROUP, across);
  const Index a_row = step * sizeof(float) + taps * sizeof(float*) + (cuts > 1 ? group * PANEL * sizeof(float) : 0);
  const Index most = at_most(at_least(NEARBY / (ROWS * a_row), 1), ceil_div(height, ROWS));
  const Index tiles = cuts == 1 ? 1 : most * group;
  Row<const float*> points(most * ROWS * taps);
  Row<float> room(channels + tiles * ROWS * PANEL + group * PANEL * taps * step + 64 / sizeof(float));
  float* const panels = (float*)(((u64)room.data + 63) / 64 * 64);
  float* const sums = panels + group * PANEL * taps * step;
  float* const zeros = sums + tiles * ROWS * PANEL;
  for (Index k = 0; k < channels; ++k) zeros[k] = 0;
  for (Index top = part.first_row; top < part.last_row; top += most * ROWS) {
    const Index bottom = at_most(top + most * ROWS, part.last_row), blocks = ceil_div(bottom - top, ROWS);
    for (Index block = 0; block < blocks; ++block)
      around.find(around.find_data, points.data + block * ROWS * taps, top + block * ROWS, bottom - 1, zeros);
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
          if (width <= LANES) pack_weights<LANES>(panel, source, taps, width, deep);
          else pack_weights<PANEL>(panel, source, taps, width, deep);
        }
        const float* const from = last ? weights.at + right * weights.across
                                       : weights.at + left * weights.across + (k + step) * weights.along;
        const Index ahead = last ? at_most(group, (part.last_column - right) / PANEL) : (right - left) / PANEL;
        const Index next = taps * (last ? step : at_most(step, channels - k - step));
        const Index lines = weights.ordered ? at_least(ahead, 0) * LINES * next : 0;
        for (Index block = 0; block < blocks; ++block) {
          const Index row = top + block * ROWS, rows = at_most(ROWS, bottom - row);
          const float* const* const found = points.data + block * ROWS * taps;
          if (lines) prefetch({from, weights.across, 1}, next, lines * block / blocks, lines * (block + 1) / blocks);
          for (Index p = 0; p < here; ++p) {
            const Index column = left + p * PANEL, width = at_most(PANEL, right - column);
            float* const mine = sums + (cuts == 1 ? 0 : block * group + p) * ROWS * PANEL;
            const float* const panel = panels + p * PANEL * taps * step;
            if (width <= LANES) multiply_points<ROWS, 1>(mine, found, taps, k, deep, panel, cut == 0);
            else multiply_points<ROWS, PANEL_VECTORS>(mine, found, taps, k, deep, panel, cut == 0);
            if (last) around.finish(around.finish_data, mine, row, rows, column, width);
          }
        }
      }
    }
  }
}

}  // namespace vec
