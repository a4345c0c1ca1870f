// What can run but is probably not meant.
#include <string>

#include "engine/train/config.h"

namespace benchsuite {

namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

}  // namespace

std::vector<std::string> notes(const TrainConfig& config) {
  const Layout& layout = config.layout;
  std::vector<std::string> sentences;
  if (layout.recompute.selects(RecomputeModule::core_attn) && layout.attention == AttentionKernel::flash) {
    sentences.push_back(
        "layout.recompute: recomputing core_attn is pointless with flash attention, which stores no attention matrix; it costs a "
        "second forward of the kernel and frees almost nothing.");
  }
  if (layout.zero_stage >= 1 && layout.dp * layout.cp == 1) {
    sentences.push_back("layout.zero_stage: with one replica ZeRO has nothing to shard.");
  }
  if (layout.pp > 1 && layout.micro_batches() < layout.pp) {
    sentences.push_back("layout.global_batch: " + text(layout.micro_batches()) + " micro-batches for " +
                        text(layout.pp) + " pipeline stages leave most stages idle most of the time.");
  }
  if (const std::int64_t rows = padded_vocab(config.model.vocab, layout.tp); rows != config.model.vocab) {
    sentences.push_back("model.vocab: " + text(config.model.vocab) + " rows are padded to " + text(rows) +
                        ", a multiple of 128 tp; FLOPs and memory count the padded rows.");
  }
  return sentences;
}

}  // namespace benchsuite
