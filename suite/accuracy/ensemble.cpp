#include "suite/accuracy/ensemble.h"

#include <algorithm>

#include "engine/core/fnv1a.h"
#include "engine/core/rng.h"
#include "engine/device/eager_kernels.h"
#include "engine/device/sim/cost_model.h"
#include "engine/parallel/rank_grid.h"
#include "suite/measure/simulate.h"

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

RangedConstant constant_at(const Json& json, const std::string& path) {
  return {path, json.value("as", path), json.value("unit", ""), json["range"][0].get<double>(), json["value"].get<double>(), json["range"][1].get<double>()};
}

/// The profile with each ranged constant as `value` says.
template <class Value>
HardwareProfile changed(const HardwareProfile& hardware, const Value& value) {
  Json raw = hardware.raw;
  raw.erase("based_on");  // it is whole already
  for_each_range(raw, "", [&](Json& json, const std::string& path) { json["value"] = value(constant_at(json, path)); });
  std::vector<Violation> problems;
  HardwareProfile made = read_hardware(raw, hardware.name, problems);
  if (!problems.empty()) throw Error(std::move(problems));
  made.raw = nullptr;  // hundreds of profiles live side by side
  return made;
}

SlowPart part_of(const std::string& path) {
  if (path.starts_with("host.")) return SlowPart::host;
  return path.starts_with("nvlink.") || path.starts_with("fabric.") ? SlowPart::communication : SlowPart::compute;
}

/// Whether a higher value makes the step longer.
bool slow_when_high(const std::string& unit) {
  return unit == "us" || unit == "ratio of time" || unit == "share of extra traffic" || unit == "share of SMs";
}

Placement one_node(const HardwareProfile& hardware) {
  Layout one;
  one.tp = one.pp = one.dp = one.cp = 1;
  return place(one, hardware.gpus_per_node);
}

bool same_op(const PathEntry& a, const PathEntry& b) { return a.shape == b.shape && a.site == b.site && a.span == b.span; }

}  // namespace

std::vector<RangedConstant> ranged_constants(const HardwareProfile& hardware) {
  std::vector<RangedConstant> constants;
  for_each_range(hardware.raw, "", [&](const Json& json, const std::string& path) { constants.push_back(constant_at(json, path)); });
  return constants;
}

double uniform_by(std::uint64_t seed, int draw, const std::string& name) {
  const std::uint64_t hash = fnv1a64(name);
  const auto words = philox(seed, {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32),
                                   static_cast<std::uint32_t>(draw), 0});
  return static_cast<double>(uniform_from(words[0]));
}

Machine::Machine(HardwareProfile hardware)
    : hardware_(std::move(hardware)), placement_(one_node(hardware_)), costs_(hardware_, placement_) {}

double Machine::seconds(const PathEntry& entry, double launch_s) const {
  if (entry.span) return transfer_time(hardware_, entry.shape, *entry.span).seconds + launch_s;
  return static_cast<double>(costs_.price(entry.shape, entry.site).duration) * kSecondsPerPicosecond +
         launches_of(entry.shape) * launch_s;
}

std::shared_ptr<const Machine> drawn_machine(const HardwareProfile& hardware, std::uint64_t seed, int draw) {
  HardwareProfile drawn = changed(hardware, [&](const RangedConstant& constant) {
    const double u = uniform_by(seed, draw, constant.drawn_as);
    return u < 0.5 ? constant.low + 2 * u * (constant.value - constant.low)
                   : constant.value + (2 * u - 1) * (constant.high - constant.value);
  });
  drawn.error_draw = ErrorDraw{seed, draw};
  return std::make_shared<Machine>(std::move(drawn));
}

std::shared_ptr<const Machine> corner_machine(const HardwareProfile& hardware, SlowPart part) {
  return std::make_shared<Machine>(changed(hardware, [&](const RangedConstant& constant) {
    return (part_of(constant.path) == part) == slow_when_high(constant.unit) ? constant.high : constant.low;
  }));
}

Corners corners_of(const HardwareProfile& hardware) {
  Corners corners = {std::make_shared<Machine>(hardware)};
  for (const SlowPart part : {SlowPart::compute, SlowPart::communication, SlowPart::host}) {
    corners.push_back(corner_machine(hardware, part));
  }
  // Where the host waits, each pass is bound by it or by the device: chains that go from one to the other pass by pass are those
  // of machines in between.
  for (const double share : {1.0 / 3, 2.0 / 3}) {
    corners.push_back(std::make_shared<Machine>(changed(hardware, [&](const RangedConstant& constant) {
      return part_of(constant.path) == SlowPart::host ? constant.low + share * (constant.value - constant.low) : constant.value;
    })));
  }
  return corners;
}

SteadyStateOptions options_for(const Corners& corners) {
  SteadyStateOptions options;
  options.paths = true;
  for (std::size_t i = 1; i < corners.size(); ++i) options.also_on.push_back(&corners[i]->hardware());
  return options;
}

std::vector<Setting> drawn_settings(const std::vector<UnstatedSetting>& settings, const std::string& set, std::uint64_t seed,
                                    int draw, int attempt) {
  std::vector<Setting> drawn;
  for (const UnstatedSetting& setting : settings) {
    const double u = uniform_by(seed, draw % kJointDraws, set + " " + setting.key + " " + std::to_string(attempt));
    const auto count = static_cast<double>(setting.values.size());
    drawn.push_back({setting.key, setting.values[std::min(setting.values.size() - 1, static_cast<std::size_t>(u * count))]});
  }
  return drawn;
}

Repricer::Repricer(const StepEstimate& estimate, const TrainConfig& config, const Corners& corners) : config_(config) {
  CHECK(estimate.paths.size() == corners.size()) << estimate.paths.size() << " chains on " << corners.size() << " machines";
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const StepPath& path = estimate.paths[i];
    const HardwareProfile& found_on = corners[i]->hardware();
    const double launch = launch_s(found_on), blocking = config.stack.launch_blocking ? launch : 0;
    Chain chain;
    chain.fixed_s = path.fixed_s;
    (launch > 0 ? chain.launches : chain.fixed_s) += launch > 0 ? path.launch_s / launch : path.launch_s;
    for (const PathEntry& entry : path.entries) {
      const double alone = corners[i]->seconds(entry, blocking);
      if (alone <= 0) {
        chain.fixed_s += entry.seconds;
        continue;
      }
      const auto known = std::find_if(ops_.begin(), ops_.end(), [&](const PathEntry& op) { return same_op(op, entry); });
      Priced priced{static_cast<std::size_t>(known - ops_.begin())};
      if (known == ops_.end()) ops_.push_back(entry);
      priced.alone_s = entry.seconds / alone;
      const auto crowded = [&](double seconds, int permille, double& by_permille) {
        if (permille <= 0) return;
        by_permille = seconds / alone / permille;
        priced.alone_s -= seconds / alone;
      };
      crowded(entry.crowded_inside_s, found_on.collective_sm_permille, priced.inside_s);
      crowded(entry.crowded_across_s, found_on.inter_node_sm_permille, priced.across_s);
      chain.entries.push_back(priced);
    }
    chains_.push_back(std::move(chain));
  }
  const std::vector<double> here = chains_on(*corners.front());
  for (std::size_t i = 1; i < chains_.size(); ++i) {
    if (here[i] > here[0]) chains_[i].scale = here[0] / here[i];
  }
}

double Repricer::launch_s(const HardwareProfile& hardware) const {
  return static_cast<double>(host_of(config_.stack, hardware).per_op) * kSecondsPerPicosecond;
}

std::vector<double> Repricer::chains_on(const Machine& machine) const {
  const HardwareProfile& hardware = machine.hardware();
  const double launch = launch_s(hardware), blocking = config_.stack.launch_blocking ? launch : 0;
  std::vector<double> seconds;
  seconds.reserve(ops_.size());
  for (const PathEntry& op : ops_) seconds.push_back(machine.seconds(op, blocking));
  std::vector<double> sums;
  sums.reserve(chains_.size());
  for (const Chain& chain : chains_) {
    double sum = chain.fixed_s + chain.launches * launch;
    for (const Priced& entry : chain.entries) {
      sum += seconds[entry.op] * (entry.alone_s + entry.inside_s * hardware.collective_sm_permille +
                                  entry.across_s * hardware.inter_node_sm_permille);
    }
    sums.push_back(chain.scale * sum);
  }
  return sums;
}

double Repricer::step(const Machine& drawn) const {
  const std::vector<double> sums = chains_on(drawn);
  return *std::max_element(sums.begin(), sums.end());
}

}  // namespace benchsuite
