// From a published row to a configuration the engine can simulate, or the reason why not.
//
// What the row states is taken; what it leaves out comes from its source's rule and is listed in `assumptions`. Where the engine lacks what a row did, the row stays unmapped with the reason.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/device/sim/hardware.h"
#include "engine/train/config.h"
#include "suite/accuracy/measured.h"
#include "suite/accuracy/published_row.h"
#include "suite/accuracy/source_rules.h"
#include "suite/cases/data_root.h"

namespace benchsuite {

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

/// Stacks by name, read once, with the settings that their software leaves open; and the machines that rows ran on.
class StackShelf {
 public:
  struct Entry {
    Stack stack;
    std::vector<UnstatedSetting> alternatives;
  };
  explicit StackShelf(const DataRoot& root) : root_(root) {}
  /// Throws Error for a stack that isn't there or is wrong.
  const Entry& get(const std::string& name);
  const HardwareProfile& machine(const std::string& name);

 private:
  const DataRoot& root_;
  std::map<std::string, Entry> known_;
  std::map<std::string, HardwareProfile> machines_;
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

/// The machine of a row's cluster.
struct ProfileOf {
  std::string name;           ///< "" where there is none, the reason in `note`
  std::string note;           ///< what was assumed of the GPU, "" for nothing
  bool network_stated = false;  ///< its NICs are those of the interconnect text
  int gpus_per_tray = 0;      ///< where sources call a part of the profile's node a node; 0: they don't
};
/// By GPU, and by NICs where the interconnect text states them ("4x ... 200 Gb/s", "8x400G", "1600 Gb/s").
ProfileOf profile_of(const Json& cluster, const DataRoot& root);
/// Whether the interconnect text states the NICs.
bool states_nics(const Json& cluster);

}  // namespace benchsuite
