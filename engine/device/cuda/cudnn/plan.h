// From a graph of operations to what runs: the library's proposals for a GPU, and the first of them that can be built.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/cuda/cudnn/attention_graph.h"

namespace benchsuite::cuda {

/// The current GPU, as the library describes it.
Descriptor current_gpu();

/// Engine configurations that the library proposes for a graph on a GPU, best first, without those that say that they
/// are not deterministic. For fused attention the library (9.19) marks none so: that the result of a graph depends on
/// nothing but its inputs is the graph's business, see attention_graph.h.
std::vector<Descriptor> deterministic_configurations(const Descriptor& graph, const Descriptor& gpu);

/// Builds (and compiles) what a configuration stands for. Throws NotSupported when the library answers so, Error when it
/// fails.
Descriptor build(const Descriptor& configuration, const Descriptor& gpu);

/// A pass of attention that is ready to run.
class AttentionPlan {
 public:
  using Addresses = std::map<AttentionTensor, void*>;

  /// Nothing when the library supports none on this GPU, and then `why` says so. Throws Error when it fails: a rank must
  /// not fall back alone, to other sums and another workspace than its peers.
  static std::optional<AttentionPlan> make(const AttentionKey& key, const Descriptor& gpu, std::string& why);

  std::uint64_t workspace() const { return row_sums_bytes_ + library_bytes_; }
  /// Launches on the handle's stream. `addresses` are those of all tensors but the numbers and the row sums;
  /// `workspace` is aligned to 256 bytes.
  void run(cudnnHandle_t handle, Addresses addresses, float scale, std::span<std::byte> workspace) const;

 private:
  AttentionPlan(const AttentionKey& key, Descriptor plan);

  Descriptor plan_;
  AttentionKey key_;
  std::uint64_t row_sums_bytes_ = 0, library_bytes_ = 0;
};

}  // namespace benchsuite::cuda
