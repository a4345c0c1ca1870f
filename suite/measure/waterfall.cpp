#include "suite/measure/waterfall.h"

#include <fmt/format.h>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

/// Mean time of one category over the ranks, rounded to the nearest picosecond.
Picoseconds mean_of(const VariantResult& variant, Category category) {
  const Picoseconds sum = variant.mean_breakdown.time[static_cast<std::size_t>(category)];
  return (sum + variant.ranks_in_breakdown / 2) / variant.ranks_in_breakdown;
}

double share_of(const VariantResult& variant, Category category) {
  return variant.step > 0 ? static_cast<double>(mean_of(variant, category)) / static_cast<double>(variant.step) : 0;
}

void check_measured(const VariantResult& variant) {
  CHECK(variant.ranks_in_breakdown > 0) << "variant " << variant.id << " has no ranks";
  Picoseconds sum = 0;
  for (const Picoseconds part : variant.mean_breakdown.time) sum += part;
  CHECK(sum == variant.step * variant.ranks_in_breakdown)
      << "the parts of variant " << variant.id << " add up to " << sum << " ps, not to " << variant.ranks_in_breakdown
      << " steps of " << variant.step;
}

}  // namespace

std::string busy_beside_mfu(const VariantResult& variant) {
  const double communication = share_of(variant, Category::tensor) + share_of(variant, Category::tensor_recompute) +
                               share_of(variant, Category::pipeline) + share_of(variant, Category::data) +
                               share_of(variant, Category::embedding) + share_of(variant, Category::global);
  const std::string useful = variant.mfu ? fmt::format("useful model FLOPs are {:.0f} % of peak", *variant.mfu * 100)
                                         : std::string("no peak is known for these GPUs, so MFU is not stated");
  return fmt::format(
      "{}: GPUs look {:.0f} % busy because a kernel that waits in a collective counts as busy; {} "
      "(of the step, recompute takes {:.0f} %, exposed communication {:.0f} %, waiting {:.0f} %)",
      variant.id, variant.gpu_busy * 100, useful, share_of(variant, Category::recompute) * 100, communication * 100,
      share_of(variant, Category::bubble) * 100);
}

Waterfall waterfall_between(const std::string& id, const VariantResult& from, const VariantResult& to) {
  check_measured(from);
  check_measured(to);
  Waterfall waterfall;
  waterfall.id = id;
  waterfall.from = from.id;
  waterfall.to = to.id;
  waterfall.from_s = static_cast<double>(from.step) * kSecondsPerPicosecond;
  waterfall.to_s = static_cast<double>(to.step) * kSecondsPerPicosecond;
  waterfall.one_line = busy_beside_mfu(from);

  Picoseconds rest = to.step - from.step;
  const auto add = [&](const char* name, std::initializer_list<Category> categories, const char* explanation) {
    Picoseconds part = 0;
    for (const Category category : categories) part += mean_of(to, category) - mean_of(from, category);
    rest -= part;
    waterfall.parts.push_back({name, static_cast<double>(part) * kSecondsPerPicosecond, explanation});
  };
  add("recompute compute", {Category::recompute}, "forward ops run again before the backward pass");
  add("recomputed collectives", {Category::tensor_recompute},
      "tensor-parallel collectives of the repeated forward, where nothing hides them");
  add("other tensor communication", {Category::tensor}, "exposed tensor-parallel collectives of forward and backward");
  add("bubble", {Category::bubble}, "waiting for another stage or for other members of a group");
  add("other communication", {Category::pipeline, Category::data, Category::embedding, Category::global},
      "exposed transfers between stages and replicas, copies around them included");
  waterfall.parts.push_back(
      {"rest", static_cast<double>(rest) * kSecondsPerPicosecond,
       "forward, backward and optimizer compute, which change pace beside communication kernels"});
  return waterfall;
}

}  // namespace benchsuite
