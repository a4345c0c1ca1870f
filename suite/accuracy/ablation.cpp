#include "suite/accuracy/ablation.h"

#include <cmath>

namespace benchsuite {

namespace {

struct Effect {
  std::string name;
  std::vector<Setting> settings;
  ProfileChange change;  ///< without a name: the machine stays
};

std::vector<Effect> effects() {
  const auto free_site = [](Site site) { return [site](HardwareProfile& p) { p.free_sites.push_back(site); }; };
  return {
      {"products at burst rate", {}, {"burst", [](HardwareProfile& p) { p.gemm.sustained_over_burst = 1; }}},
      {"no waves of tiles", {}, {"no waves", [](HardwareProfile& p) { p.gemm.wave_share = 0; }}},
      {"weight gradients add up free of charge", {}, {"free accumulation", [](HardwareProfile& p) { p.gemm.accumulate_exposed = 0; }}},
      {"memory-bound kernels at full bandwidth", {}, {"full bandwidth", [](HardwareProfile& p) {
         for (auto& [op, model] : p.memory_ops) model.share = 1;
       }}},
      {"launches cost nothing", {}, {"free launches", [](HardwareProfile& p) { p.host_eager_s = p.host_graph_s = 0; }}},
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
      {"no interleaving", {{"layout.vpp", 1}}, {}},
  };
}

}  // namespace

std::vector<AblationRow> ablate(const std::vector<PublishedRow>& rows, const std::vector<RowResult>& base, RowJobs& jobs,
                                const SourceRules& rules, const std::atomic<int>& signal) {
  std::vector<AblationRow> table;
  std::vector<std::pair<std::string, std::vector<std::size_t>>> sets;
  for (std::size_t i = 0; i < base.size(); ++i) {
    if (!base[i].error_pct || base[i].kind == RowKind::layer_time) continue;
    auto found = std::find_if(sets.begin(), sets.end(), [&](const auto& set) { return set.first == base[i].set; });
    if (found == sets.end()) found = sets.insert(sets.end(), {base[i].set, {}});
    found->second.push_back(i);
  }
  for (const auto& [set, members] : sets) {
    if (!rules.target_of(set)) continue;
    std::vector<std::size_t> chosen;
    const std::size_t count = std::min(members.size(), kAblationRows);
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(members[i * members.size() / count]);
    for (const Effect& effect : effects()) {
      AblationRow line{.effect = effect.name, .set = set};
      double n = 0;
      for (const std::size_t i : chosen) {
        if (signal.load() != 0) throw Error(Error::Kind::run, "the run was interrupted");
        const RowResult other = jobs.one(rows[i], effect.settings, effect.change.name.empty() ? nullptr : &effect.change);
        if (!other.error_pct) continue;
        n += 1;
        line.base_mean_abs_pct += std::abs(*base[i].error_pct);
        line.base_bias_pct += *base[i].error_pct;
        line.mean_abs_pct += std::abs(*other.error_pct);
        line.bias_pct += *other.error_pct;
        line.step_change_pct += 100 * (other.predicted->iteration_s / base[i].predicted->iteration_s - 1);
      }
      if (n == 0) continue;
      line.rows = static_cast<std::size_t>(n);
      for (double* value : {&line.base_mean_abs_pct, &line.base_bias_pct, &line.mean_abs_pct, &line.bias_pct, &line.step_change_pct}) *value /= n;
      table.push_back(line);
    }
  }
  return table;
}

}  // namespace benchsuite
