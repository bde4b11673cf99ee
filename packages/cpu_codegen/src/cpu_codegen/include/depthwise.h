// Convolutions of channels, each by itself, channels along the lanes: several neighbouring places of a row at a time, so that
// each element of the image is loaded once a row of taps, and the taps once for all places.
#pragma once
#include "kernel.h"

namespace vec {

// A row of COUNT places, COLUMNS at a time. Tap k of place j reads STEP * j + APART * k, and adds nothing where
// BY * j + ALONG * k is not in [LOW, HIGH).
template <int TAPS_, int STEP_, int APART_, Index COUNT_, int COLUMNS_, Index BY, Index ALONG, Index LOW, Index HIGH>
struct Windows {
  static constexpr int TAPS = TAPS_, STEP = STEP_, APART = APART_, COLUMNS = COLUMNS_;
  static constexpr Index COUNT = COUNT_, BLOCKS = (COUNT + COLUMNS - 1) / COLUMNS;

  // The last block ends where the row does.
  static constexpr Index first(Index block) { return block == BLOCKS - 1 ? COUNT - COLUMNS : block * COLUMNS; }
  static constexpr bool inside(Index place, Index tap) {
    return BY * place + ALONG * tap >= LOW && BY * place + ALONG * tap < HIGH;
  }
  static constexpr bool any_whole() {
    for (Index block = 0; block < BLOCKS; ++block)
      if (whole(block)) return true;
    return false;
  }
  static constexpr bool whole(Index block) {
    const Index left = first(block), right = left + COLUMNS - 1;
    return inside(left, 0) && inside(left, TAPS - 1) && inside(right, 0) && inside(right, TAPS - 1);
  }
};

// Rows of the image and of the taps, as far apart as said, in elements.
struct Rows {
  const float* image;
  Index image_row, image_place;
  const float* taps;
  Index taps_row, taps_place;
  Index count;
};

// sums[column][channel] of a block; WHOLE: of any that all taps of all places are inside of.
template <class W, Index BLOCK, bool WHOLE>
static __attribute__((noinline)) void sum_block(float* sums, Rows rows, Index channels) {
  constexpr int PLACES = (W::COLUMNS - 1) * W::STEP + (W::TAPS - 1) * W::APART + 1;
  vectors(0, channels, [&](Index channel, auto lanes) INLINE_BODY {
    F32 s[W::COLUMNS];
#pragma GCC unroll 64
    for (int j = 0; j < W::COLUMNS; ++j) s[j] = F32(0.0f);
    const float* image = rows.image + channel;
    const float* taps = rows.taps + channel;
#pragma GCC unroll 1
    for (Index row = 0; row < rows.count; ++row, image += rows.image_row, taps += rows.taps_row) {
      F32 w[W::TAPS];
#pragma GCC unroll 64
      for (int k = 0; k < W::TAPS; ++k) w[k] = load_raw(taps + k * rows.taps_place, lanes);
#pragma GCC unroll 256
      for (int place = 0; place < PLACES; ++place) {
        bool wanted = false;
#pragma GCC unroll 64
        for (int k = 0; k < W::TAPS; ++k) {
          const int j = (place - k * W::APART) / W::STEP;
          if (j * W::STEP + k * W::APART == place && j >= 0 && j < W::COLUMNS)
            wanted |= WHOLE || W::inside(W::first(BLOCK) + j, k);
        }
        if (!wanted) continue;
        const F32 x = load_raw(image + place * rows.image_place, lanes);
#pragma GCC unroll 64
        for (int k = 0; k < W::TAPS; ++k) {
          const int j = (place - k * W::APART) / W::STEP;
          if (j * W::STEP + k * W::APART == place && j >= 0 && j < W::COLUMNS)
            if (WHOLE || W::inside(W::first(BLOCK) + j, k)) s[j] = mul_add(x, w[k], s[j]);
        }
      }
    }
#pragma GCC unroll 64
    for (int j = 0; j < W::COLUMNS; ++j) store_raw(sums + j * channels + channel, s[j], lanes);
  });
}
template <class W, Index BLOCK = 0>
INLINE void sum_block_at(Index block, float* sums, Rows rows, Index channels) {
  if constexpr (BLOCK == W::BLOCKS) {
    if constexpr (W::any_whole()) sum_block<W, 0, true>(sums, rows, channels);
  } else if constexpr (W::whole(BLOCK)) {
    sum_block_at<W, BLOCK + 1>(block, sums, rows, channels);
  } else {
    if (block == BLOCK) sum_block<W, BLOCK, false>(sums, rows, channels);
    else sum_block_at<W, BLOCK + 1>(block, sums, rows, channels);
  }
}

// finish(place, channel, lanes, sums) for a row of places and `channels` channels. `rows` are those at the first place.
template <class W, class Finish>
INLINE void depthwise(Rows rows, Index channels, Finish finish) {
  Row<float> sums(W::COLUMNS * channels);
  for (Index block = 0; block < W::BLOCKS; ++block) {
    const Index first = W::first(block);
    Rows here = rows;
    here.image += first * W::STEP * rows.image_place;
    sum_block_at<W>(block, sums.data, here, channels);
    for (Index place = block * W::COLUMNS; place < first + W::COLUMNS; ++place) {
      const float* const from = sums.data + (place - first) * channels;
      vectors(0, channels, [&](Index channel, auto lanes) INLINE_BODY {
        finish(place, channel, lanes, load_raw(from + channel, lanes));
      });
    }
  }
}

}  // namespace vec
