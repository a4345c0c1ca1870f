#include "suite/measure/memory_report.h"

#include "engine/model/formulas.h"
#include "engine/model/terms.h"
#include "engine/program/memory_summary.h"

namespace benchsuite {

namespace {

/// What Korthikanti et al. count, and what they leave out because it is small.
struct TermFormula {
  Term term;
  const char* each;        ///< bytes of one buffer, in letters; e = bytes of an element, /r = /t under sequence parallelism
  bool in_paper = true;
};
constexpr TermFormula kFormulas[] = {
    {Term::attention_input, "e s b h/r"},
    {Term::attention_statistics, "8 s b/r", false},
    {Term::attention_norm, "e s b h/r"},
    {Term::qkv, "3 e s b h/t"},
    {Term::softmax_output, "e a s^2 b/t"},
    {Term::softmax_dropout_mask, "a s^2 b/t"},
    {Term::softmax_dropped, "e a s^2 b/t"},
    {Term::attention_log_sum, "4 a s b/t", false},
    {Term::context, "e s b h/t"},
    {Term::attention_output_mask, "s b h/r"},
    {Term::mlp_input, "e s b h/r"},
    {Term::mlp_statistics, "8 s b/r", false},
    {Term::mlp_norm, "e s b h/r"},
    {Term::fc1_output, "e s b f/t"},
    {Term::gelu_output, "e s b f/t"},
    {Term::mlp_output_mask, "s b h/r"},
    {Term::layer_group_input, "e s b h/r"},
    {Term::embedding_mask, "s b h/r"},
    {Term::final_input, "e s b h/r"},
    {Term::final_statistics, "8 s b/r", false},
    {Term::final_norm, "e s b h/r"},
    {Term::logits, "4 s b V/t"},
};

std::string in_letters(const std::string& each, bool sequence_parallel) {
  const std::size_t place = each.find("/r");
  if (place == std::string::npos) return each;
  return each.substr(0, place) + (sequence_parallel ? "/t" : "");
}

double outside_bytes(const TrainConfig& config, const Program& program) {
  // Each arena in use is rounded up to whole segments of the allocator: at most one segment each.
  std::int64_t arenas = 0;
  for (const std::uint64_t bytes : program.arena_bytes) arenas += bytes > 0 ? 1 : 0;
  return static_cast<double>(config.stack.context_bytes) +
         static_cast<double>(config.stack.communicator_bytes) * static_cast<double>(program.groups.size()) +
         static_cast<double>(config.stack.segment_bytes * arenas);
}

}  // namespace

StageMemory measure_memory(const TrainConfig& config, std::int64_t stage, const Program& program) {
  const MemorySummary summary = summarise_memory(program);
  StageMemory memory;
  for (int purpose = 0; purpose < kPurposes; ++purpose) {
    double bytes = static_cast<double>(summary.peak_by_purpose[static_cast<std::size_t>(purpose)]);
    if (static_cast<Purpose>(purpose) == Purpose::workspace) bytes += static_cast<double>(config.stack.workspace_bytes);
    memory.by_purpose.emplace_back(name_of(static_cast<Purpose>(purpose)), bytes);
    memory.peak_bytes += bytes;
  }
  const double outside = outside_bytes(config, program);
  memory.by_purpose.emplace_back("overhead", outside);
  memory.peak_bytes += outside;

  const bool sequence_parallel = config.layout.sequence_parallel && config.layout.tp > 1;
  for (const MemorySummary::Term& term : summary.saved_terms) {
    const TermFormula* formula = nullptr;
    for (const TermFormula& candidate : kFormulas) {
      if (index_of(candidate.term) == term.term) formula = &candidate;
    }
    CHECK(formula) << program.terms[term.term] << " is saved, but has no formula";
    const std::string each = in_letters(formula->each, sequence_parallel);
    memory.saved_terms.push_back({program.terms[term.term] + (formula->in_paper ? "" : " (not in the paper's count)"),
                                  static_cast<double>(term.bytes), std::to_string(term.buffers) + " x " + each});
    if (formula->in_paper) memory.saved_bytes += static_cast<double>(term.bytes);
  }
  const SavedActivations saved = saved_activations(config.model, config.layout, config.stack, stage);
  memory.saved_formula_bytes = saved.layers_total + saved.outside_bytes;
  return memory;
}

double reserved_bytes(const TrainConfig& config, const Program& program) {
  return static_cast<double>(summarise_memory(program).reserved_bytes) +
         static_cast<double>(config.stack.workspace_bytes) + outside_bytes(config, program);
}

}  // namespace benchsuite
