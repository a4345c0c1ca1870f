#include "suite/accuracy/ablation.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/core/parallel.h"

namespace benchsuite {

namespace {

struct Effect {
  std::string name;
  std::vector<Setting> settings;
  ProfileChange change;  ///< of the machine, where there are no settings
};

std::vector<Effect> effects() {
  const auto free_site = [](Site site) { return [site](HardwareProfile& p) { p.free_sites.push_back(site); }; };
  return {
      {"products at burst rate", {}, {"burst", [](HardwareProfile& p) { p.gemm.sustained_over_burst = 1; }}},
      {"no waves of tiles", {}, {"no waves", [](HardwareProfile& p) { p.gemm.wave_share = 0; }}},
      {"unaligned products at the aligned rate", {}, {"all aligned", [](HardwareProfile& p) { p.gemm.alignment.clear(); }}},
      {"products of few terms hide their outputs", {}, {"hidden outputs", [](HardwareProfile& p) { p.gemm.short_products = 0; }}},
      {"weight gradients add up free of charge", {}, {"free accumulation", [](HardwareProfile& p) { p.gemm.accumulate_exposed = 0; }}},
      {"memory-bound kernels at full bandwidth", {}, {"full bandwidth", [](HardwareProfile& p) {
         for (auto& [op, model] : p.memory_ops) model.share = 1;
       }}},
      {"launches cost nothing", {}, {"free launches", [](HardwareProfile& p) { p.host_eager_s = p.host_graph_s = p.host_library_s = 0; }}},
      {"collectives take no SMs", {}, {"no SM share", [](HardwareProfile& p) { p.collective_sm_permille = p.inter_node_sm_permille = 0; }}},
      {"embedding costs nothing", {}, {"free embedding", free_site(Site::embedding)}},
      {"head and loss cost nothing", {}, {"free head", [](HardwareProfile& p) {
         p.free_sites.insert(p.free_sites.end(), {Site::head, Site::loss});
       }}},
      {"optimizer costs nothing", {}, {"free optimizer", free_site(Site::optimizer)}},
      {"communication costs nothing", {}, {"free communication", [](HardwareProfile& p) { p.free_communication = true; }}},
      {"input gradients' collectives hidden", {{"stack.overlaps_tensor_backward", true}}, {}},
      {"input gradients' collectives exposed", {{"stack.overlaps_tensor_backward", false}}, {}},
      {"gradient reduction hidden", {{"stack.overlaps_gradient_reduction", true}}, {}},
      {"gradient reduction exposed", {{"stack.overlaps_gradient_reduction", false}}, {}},
      {"gradients in fp32", {{"stack.gradient_dtype", "fp32"}}, {}},
      {"the host never waits inside a step", {{"stack.host_waits_for", Json::array()}}, {}},
      {"no interleaving", {{"layout.vpp", 1}}, {}},
  };
}

}  // namespace

std::vector<AblationRow> ablate(const std::vector<PublishedRow>& rows, const std::vector<RowResult>& base, RowJobs& jobs,
                                const SourceRules& rules, int threads, const AccuracyProgress& progress,
                                const std::atomic<int>& signal) {
  std::vector<std::size_t> members;
  std::vector<std::string> sets;
  for (std::size_t i = 0; i < base.size(); ++i) {
    if (!base[i].error_pct || base[i].kind == RowKind::layer_time || !rules.target_of(base[i].set)) continue;
    members.push_back(i);
    if (std::find(sets.begin(), sets.end(), base[i].set) == sets.end()) sets.push_back(base[i].set);
  }
  struct Change {
    double error_pct = 0, step_change_pct = 0;
  };
  const std::vector<Effect> all = effects();
  std::vector<const ProfileChange*> machines;
  for (const Effect& effect : all) {
    if (effect.settings.empty()) machines.push_back(&effect.change);
  }
  std::vector<std::optional<Change>> changes(members.size() * all.size());  // [member][effect]
  ProgressCount count(progress, "rows without each effect in turn", members.size());
  for_each_index(members.size(), threads, [&](std::size_t m) {
    if (signal.load() != 0) return;
    const PublishedRow& row = rows[members[m]];
    const RowResult& before = base[members[m]];
    const std::vector<RowResult> on_machines = jobs.on_machines(row, machines);
    auto next = on_machines.begin();
    for (std::size_t e = 0; e < all.size(); ++e) {
      const std::vector<Setting>& settings = all[e].settings;
      const bool same = !settings.empty() && std::none_of(settings.begin(), settings.end(), [&](const Setting& setting) {
        return matters(setting.key, before.layout);
      });
      const RowResult other = settings.empty() ? *next++ : same ? before : jobs.one(row, settings);
      if (!other.error_pct) continue;
      changes[m * all.size() + e] = {*other.error_pct,
                                     100 * (other.predicted->iteration_s / before.predicted->iteration_s - 1)};
    }
    count.tick();
  });
  if (signal.load() != 0) throw Error(Error::Kind::run, "the run was interrupted");

  std::vector<AblationRow> table;
  for (const std::string& set : sets) {
    for (std::size_t e = 0; e < all.size(); ++e) {
      AblationRow line{.effect = all[e].name, .set = set};
      for (std::size_t m = 0; m < members.size(); ++m) {
        const RowResult& row = base[members[m]];
        const std::optional<Change>& change = changes[m * all.size() + e];
        if (row.set != set || !change) continue;
        ++line.rows;
        line.base_mean_abs_pct += std::abs(*row.error_pct);
        line.base_bias_pct += *row.error_pct;
        line.mean_abs_pct += std::abs(change->error_pct);
        line.bias_pct += change->error_pct;
        line.step_change_pct += change->step_change_pct;
      }
      if (line.rows == 0) continue;
      for (double* sum : {&line.base_mean_abs_pct, &line.base_bias_pct, &line.mean_abs_pct, &line.bias_pct, &line.step_change_pct}) {
        *sum /= static_cast<double>(line.rows);
      }
      table.push_back(line);
    }
  }
  return table;
}

}  // namespace benchsuite
