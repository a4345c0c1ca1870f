// From a published row to a configuration the engine can simulate, or the reason why not.
//
// What the row states is taken; what it leaves out comes from its source's rule and is listed in `assumptions`. Where the engine lacks what a row did, the row stays unmapped with the reason.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/train/config.h"
#include "suite/accuracy/published_row.h"
#include "suite/accuracy/source_rules.h"
#include "suite/cases/data_root.h"

namespace benchsuite {

/// What a row lets us compare.
struct Published {
  double iteration_s = 0;           ///< 0: none
  double tokens_per_s_per_gpu = 0;  ///< 0: none
  double peak_memory_gb = 0;        ///< as printed, GB; 0: none
  double layer_forward_s = 0, layer_backward_s = 0;
  double activation_gib = 0;        ///< saved activations of the first stage
  bool out_of_memory = false;
  std::string from;  ///< what the time follows from: "iteration_s", "tokens_per_s_per_gpu", "tflops_per_gpu by korthikanti-2022"
};

struct MappedRow {
  bool mapped = false;
  std::string reason;  ///< why it isn't mapped; empty when it is
  std::string set, stack, hardware;
  TrainConfig config;
  Published published;
  std::vector<std::string> assumptions;
  std::vector<UnstatedSetting> unstated;  ///< settings the ensemble draws, with their values
  bool held_memory = false;               ///< SourceRule
};

/// Stacks by name, read once, with the settings that their software leaves open.
class StackShelf {
 public:
  struct Entry {
    Stack stack;
    std::vector<UnstatedSetting> alternatives;
  };
  explicit StackShelf(const DataRoot& root) : root_(root) {}
  /// Throws Error for a stack that isn't there or is wrong.
  const Entry& get(const std::string& name);

 private:
  const DataRoot& root_;
  std::map<std::string, Entry> known_;
};

/// `override_key` = value laid over rule and row (the ensemble's and the ablation's way in); "" for none. Keys are
/// model.*, layout.*, stack.*, cluster.*.
struct Setting {
  std::string key;
  Json value;
};
/// Whether a setting can matter to a layout: what only ranks of a kind do needs several of them.
bool matters(const std::string& key, const Layout& layout);

MappedRow map_row(const PublishedRow& row, const SourceRules& rules, StackShelf& stacks, const DataRoot& root,
                  const std::vector<Setting>& settings = {});

/// The profile of a row's cluster: by GPU, and by NICs where the interconnect text states them ("4x ... 200 Gb/s",
/// "8x400G", "1600 Gb/s"). `note` is what was assumed, "" for nothing. "" where there is none, the reason in `note`.
std::string profile_of(const Json& cluster, const DataRoot& root, std::string& note);
/// Whether the interconnect text states the NICs.
bool states_nics(const Json& cluster);

}  // namespace benchsuite
