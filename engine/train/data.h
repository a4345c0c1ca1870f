// Training samples from a text file: a pure function of (file, seed, sample index), so that a run can start again at any
// sample and every rank of every layout reads the same one.
//
// The part of the file is cut into windows of s tokens; a sample is a window and the token after it (s + 1 tokens, labels
// are shifted by one). What does not fill a window is dropped, and of the windows of an epoch what does not fill a global
// batch. Each epoch has its own order of windows, a permutation keyed by (seed, epoch): a balanced Feistel network with
// Philox as its round function, walked until it falls inside (Black & Rogaway 2002), so that no table is kept.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace benchsuite {

struct DataConfig {
  std::string path;                ///< any file
  double first = 0, last = 1;      ///< the part of it to use, as fractions of its bytes
  bool shuffle = true;             ///< false: windows in file order, the same in every epoch
};

class TextData {
 public:
  /// Of bytes in memory. Throws Error (config, data.path of `file`, the configuration) when they do not fill one global batch.
  TextData(std::string_view text, std::int64_t seq, std::int64_t global_batch, std::uint64_t seed, bool shuffle,
           const std::string& file = {});
  /// Reads the text. Throws Error (config) when it can't be read, and as above.
  static TextData read(const DataConfig& config, std::int64_t seq, std::int64_t global_batch, std::uint64_t seed,
                       const std::string& file = {});

  std::int64_t samples_per_epoch() const { return samples_; }  ///< a multiple of the global batch
  std::int64_t dropped_windows() const { return windows_ - samples_; }
  std::int64_t dropped_tokens() const { return static_cast<std::int64_t>(tokens_.size()) - 1 - windows_ * seq_; }
  std::uint64_t checksum() const;  ///< FNV-1a, 64 bit, of the bytes in use

  /// Window that sample `sample` (from 0, over all epochs) reads.
  std::int64_t window_of(std::int64_t sample) const;
  /// Tokens of a sample; `tokens` has s + 1 elements.
  void fill(std::int64_t sample, std::span<std::int32_t> tokens) const;

 private:
  std::vector<std::uint8_t> tokens_;
  std::int64_t seq_, windows_, samples_;
  std::uint64_t seed_;
  bool shuffle_;
};

/// Place `index` of a permutation of [0, count) that (seed, key) chooses.
std::int64_t permuted(std::int64_t index, std::int64_t count, std::uint64_t seed, std::uint32_t key);

}  // namespace benchsuite
