#include "suite/accuracy/ensemble.h"

#include <algorithm>

#include "engine/core/rng.h"
#include "engine/device/eager_kernels.h"
#include "engine/device/sim/cost_model.h"
#include "engine/parallel/rank_grid.h"

namespace benchsuite {

namespace {

bool is_range(const Json& json) {
  return json.is_object() && json.contains("value") && json["value"].is_number() && json.contains("range") &&
         json["range"].is_array() && json["range"].size() == 2 && json["range"][0].is_number() && json["range"][1].is_number();
}

/// Calls `visit` with each {"value", "range"} below `json` and its dotted path.
template <class Node, class Visit>
void for_each_range(Node& json, const std::string& path, const Visit& visit) {
  if (!json.is_object()) return;
  if (is_range(json)) {
    visit(json, path);
    return;
  }
  for (auto item = json.begin(); item != json.end(); ++item) {
    for_each_range(item.value(), path.empty() ? item.key() : path + "." + item.key(), visit);
  }
}

}  // namespace

std::vector<RangedConstant> ranged_constants(const HardwareProfile& hardware) {
  std::vector<RangedConstant> constants;
  for_each_range(hardware.raw, "", [&](const Json& json, const std::string& path) {
    constants.push_back({path, json["range"][0].get<double>(), json["value"].get<double>(), json["range"][1].get<double>()});
  });
  return constants;
}

double uniform_by(std::uint64_t seed, int draw, const std::string& name) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  const auto words = philox(seed, {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32),
                                   static_cast<std::uint32_t>(draw), 0});
  return static_cast<double>(uniform_from(words[0]));
}

std::shared_ptr<const HardwareProfile> drawn_profile(const HardwareProfile& hardware, std::uint64_t seed, int draw) {
  Json raw = hardware.raw;
  raw.erase("based_on");  // it is whole already
  for_each_range(raw, "", [&](Json& json, const std::string& path) {
    const double low = json["range"][0].get<double>(), high = json["range"][1].get<double>();
    json["value"] = low + uniform_by(seed, draw, path) * (high - low);
  });
  std::vector<Violation> problems;
  auto drawn = std::make_shared<HardwareProfile>(read_hardware(raw, hardware.name, problems));
  if (!problems.empty()) throw Error(std::move(problems));
  drawn->raw = nullptr;  // hundreds of profiles live side by side
  return drawn;
}

std::vector<Setting> drawn_settings(const std::vector<UnstatedSetting>& settings, const std::string& set, std::uint64_t seed,
                                    int draw, int attempt) {
  std::vector<Setting> drawn;
  for (const UnstatedSetting& setting : settings) {
    const double u = uniform_by(seed, draw, set + " " + setting.key + " " + std::to_string(attempt));
    const auto count = static_cast<double>(setting.values.size());
    drawn.push_back({setting.key, setting.values[std::min(setting.values.size() - 1, static_cast<std::size_t>(u * count))]});
  }
  return drawn;
}

Repricer::Repricer(const StepEstimate& estimate, const TrainConfig& config, const HardwareProfile& base)
    : estimate_(estimate), config_(config) {
  for (const Category category : {Category::tensor, Category::tensor_recompute, Category::pipeline, Category::data,
                                  Category::embedding, Category::global}) {
    exposed_ += estimate.seconds[static_cast<std::size_t>(category)];
  }
  reference_ = seconds_of(bounds_on(base));
}

StepBounds Repricer::bounds_on(const HardwareProfile& hardware) const {
  // Prices of compute ops don't depend on the placement: one node is enough.
  Layout one = config_.layout;
  one.tp = one.pp = one.dp = one.cp = 1;
  const Placement placement = place(one, hardware.gpus_per_node);
  const CostModel costs(hardware, placement, {});
  StepBounds bounds;
  double ops = 0;
  for (const LedgerEntry& entry : estimate_.ledger) {
    const double seconds =
        entry.count * static_cast<double>(costs.compute(entry.shape, entry.site)) * kSecondsPerPicosecond;
    const bool pass = entry.phase == Phase::forward || entry.phase == Phase::recompute || entry.phase == Phase::backward;
    (pass ? bounds.passes : bounds.ends) += seconds;
    ops += entry.count * launches_of(entry.shape);
  }
  const bool graph = config_.stack.cuda_graphs && config_.stack.cuda_graph_scope.full_iteration;
  bounds.host = ops * (graph ? hardware.host_graph_s : hardware.host_eager_s);
  return bounds;
}

double Repricer::seconds_of(const StepBounds& bounds) const {
  const Layout& layout = config_.layout;
  const auto slots = static_cast<double>(layout.micro_batches() * layout.vpp);
  const double stretch = (slots + static_cast<double>(layout.pp - 1)) / slots;
  const double device = (bounds.passes + exposed_) * stretch + bounds.ends, host = bounds.host * stretch;
  return config_.stack.launch_blocking ? device + host : std::max(device, host);
}

double Repricer::step(const HardwareProfile& drawn) const {
  if (reference_ <= 0) return estimate_.iteration_s;
  return estimate_.iteration_s * seconds_of(bounds_on(drawn)) / reference_;
}

}  // namespace benchsuite
