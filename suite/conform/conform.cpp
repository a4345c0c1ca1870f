#include "suite/conform/conform.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

namespace benchsuite {

namespace {

bool same_configuration(const TrainConfig& a, const TrainConfig& b) {
  return a.model == b.model && a.layout == b.layout && a.stack == b.stack;
}

/// body(index) for every index below `count`, on `jobs` threads; stops handing out when `stop` is set.
void for_each_index(std::size_t count, int jobs, const std::atomic<int>& stop,
                    const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    while (stop.load() == 0) {
      const std::size_t index = next++;
      if (index >= count) return;
      body(index);
    }
  };
  std::vector<std::jthread> threads;
  for (int job = 1; job < jobs; ++job) threads.emplace_back(work);
  work();
}

/// The largest |a - b|; infinite where either is not a number.
double distance(double a, double b) {
  const double apart = std::fabs(a - b);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

struct Trained {
  CpuTrainingResult result;
  std::string error;  ///< why there is no result
};

/// The first parameter whose values are not bit for bit those of the partner.
std::string differing_parameter(const CpuTrainingResult& a, const CpuTrainingResult& b) {
  for (const auto& [name, values] : b.parameters) {
    const auto found = a.parameters.find(name);
    if (found == a.parameters.end() || found->second != values) return name;
  }
  return a.parameters.size() == b.parameters.size() ? "" : "parameters of another model";
}

class Conformance {
 public:
  explicit Conformance(const ConformOptions& options) : options_(options), setups_(conform_setups()) {
    trained_.resize(setups_.size());
    against_.resize(setups_.size());
    std::size_t base = 0;
    for (std::size_t i = 0; i < setups_.size(); ++i) {
      if (setups_[i].layout.empty()) base = i;
      const std::size_t partner = find(bit_equal_partner(setups_[i].config));
      against_[i] = partner == i ? base : partner;
    }
  }

  ConformReport run(const std::function<void(const ConformRow&, std::size_t)>& told, const std::atomic<int>& stop) {
    const auto began = std::chrono::steady_clock::now();
    std::vector<std::size_t> chosen, references, others;
    std::vector<bool> needed(setups_.size());
    for (std::size_t i = 0; i < setups_.size(); ++i) {
      if (setups_[i].layout.empty() || fnmatch(options_.filter.c_str(), setups_[i].id.c_str(), 0) != 0) continue;
      chosen.push_back(i);
      needed[against_[i]] = true;
    }
    for (std::size_t i = 0; i < setups_.size(); ++i) {
      if (needed[i]) references.push_back(i);
    }
    for (const std::size_t i : chosen) {
      if (!needed[i]) others.push_back(i);
    }
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const int jobs = options_.jobs > 0 ? options_.jobs : cores;

    std::vector<std::optional<ConformRow>> rows(setups_.size());
    std::mutex telling;
    const auto judge_and_tell = [&](std::size_t i) {
      const std::scoped_lock lock(telling);
      rows[i] = judge(i);
      if (told) told(*rows[i], chosen.size());
    };
    for_each_index(references.size(), jobs, stop, [&](std::size_t k) { train(references[k]); });
    if (stop.load() == 0) {
      for (const std::size_t i : chosen) {
        if (needed[i]) judge_and_tell(i);
      }
    }
    for_each_index(others.size(), jobs, stop, [&](std::size_t k) {
      train(others[k]);
      judge_and_tell(others[k]);
      trained_[others[k]] = {};
    });

    ConformReport report;
    report.steps = options_.steps;
    for (const DType precision : {DType::fp32, DType::bf16}) report.tolerances.push_back(conform_tolerance(precision));
    report.interrupted = stop.load() != 0;
    for (auto& row : rows) {
      if (row) report.rows.push_back(std::move(*row));
    }
    report.words = explained_words(report.rows);
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return report;
  }

 private:
  std::size_t find(const TrainConfig& config) const {
    for (std::size_t i = 0; i < setups_.size(); ++i) {
      if (same_configuration(setups_[i].config, config)) return i;
    }
    CHECK(false) << "a layout's partner is not in the table";
    return 0;
  }

  void train(std::size_t i) {
    const bool is_baseline = setups_[i].layout.empty();
    try {
      trained_[i].result = train_on_cpu(setups_[i].config, {.steps = options_.steps,
                                                            .faults = is_baseline ? Faults{} : options_.faults,
                                                            .poison = true});
    } catch (const std::exception& error) {
      trained_[i].error = error.what();
    }
  }

  ConformRow judge(std::size_t i) const {
    const ConformSetup& setup = setups_[i];
    const ConformSetup& partner = setups_[against_[i]];
    const bool bits = same_configuration(bit_equal_partner(setup.config), partner.config);
    ConformRow row{.id = setup.id,
                   .layout = setup.layout,
                   .against = partner.id,
                   .required = bits ? ConformRow::Required::bits : ConformRow::Required::tolerance};
    const Trained& mine = trained_[i];
    const Trained& theirs = trained_[against_[i]];
    if (!mine.error.empty() || !theirs.error.empty()) {
      row.max_abs_loss = row.max_rel_grad_norm = std::numeric_limits<double>::infinity();
      row.note = mine.error.empty() ? "the reference failed: " + theirs.error : mine.error;
      return row;
    }
    for (std::size_t step = 0; step < static_cast<std::size_t>(options_.steps); ++step) {
      const double norm = theirs.result.gradient_norm[step];
      row.max_abs_loss = std::max(row.max_abs_loss, distance(mine.result.loss[step], theirs.result.loss[step]));
      row.max_rel_grad_norm =
          std::max(row.max_rel_grad_norm, distance(mine.result.gradient_norm[step], norm) / std::fabs(norm));
    }
    if (bits) {
      const std::string parameter = differing_parameter(mine.result, theirs.result);
      row.pass = row.max_abs_loss == 0 && row.max_rel_grad_norm == 0 && parameter.empty();
      if (!row.pass)
        row.note = parameter.empty() ? "not bit-equal" : "not bit-equal: " + parameter + " after the last step";
      return row;
    }
    const ConformTolerance tolerance = conform_tolerance(setup.config.layout.precision);
    row.pass = row.max_abs_loss <= tolerance.loss && row.max_rel_grad_norm <= tolerance.gradient_norm;
    if (!row.pass) {
      row.note = fmt::format("beyond the tolerance of {:.0e} in loss and {:.0e} in gradient norm", tolerance.loss,
                             tolerance.gradient_norm);
    }
    return row;
  }

  const ConformOptions& options_;
  std::vector<ConformSetup> setups_;
  std::vector<std::size_t> against_;  // by setup: its bit-equal partner, or the baseline
  std::vector<Trained> trained_;      // by setup
};

}  // namespace

ConformReport run_conform(const ConformOptions& options,
                          const std::function<void(const ConformRow&, std::size_t)>& told,
                          const std::atomic<int>& stop) {
  return Conformance(options).run(told, stop);
}

}  // namespace benchsuite
