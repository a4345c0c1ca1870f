// One Run: everything a run of a case produced, as plain data. Console, JSON, Markdown and HTML are renderings of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/json_reader.h"
#include "engine/core/letters.h"

namespace benchsuite {

enum class Status : std::uint8_t { pass, xfail, skip, noref, warn, xpass, fail, aborted, timeout, error };  // worst last
std::string_view name_of(Status status);

/// Why an instant of a rank is not idle, in priority order: an instant belongs to the first category that applies.
enum class Category : std::uint8_t {
  forward, recompute, backward, optimizer,               ///< the compute stream is running an op of that phase
  tensor, tensor_recompute, pipeline, data, embedding, global,  ///< exposed communication that is transferring; data: and the copies around it
  bubble                                                 ///< waiting for another stage, or nothing to do
};
inline constexpr int kCategories = 11;
std::string_view name_of(Category category);

/// Time of one rank split over the categories; the parts add up to the step exactly.
struct Breakdown {
  std::array<Picoseconds, kCategories> time{};
};

/// A coloured rectangle of the pipeline picture.
struct GanttSpan {
  Category category{};
  std::int32_t micro_batch = -1;
  std::int16_t chunk = -1;
  Picoseconds start = 0, end = 0;
};

/// Exposed and hidden time of one kind of communication, mean over stages.
struct CommunicationTime {
  std::string kind;            ///< "tensor all_gather", "tensor reduce_scatter (recomputed)", "pipeline send", ...
  double exposed_s = 0, hidden_s = 0;
  double bytes = 0;            ///< sent per rank and step (ring), mean over stages
  double expected_bytes = -1;  ///< by the closed formula (megatron_semantics B.9 in our words); -1: none
  std::int64_t calls = 0;      ///< per rank and step, mean over stages, rounded
};

/// What one rank sends by one kind of communication in a step (ring).
struct SentBytes {
  std::string kind;            ///< as CommunicationTime::kind
  double bytes = 0;
  double expected_bytes = -1;  ///< by the closed formula for the rank's stage; -1: none
};

struct StageMemory {
  struct Term {
    std::string name;      ///< "saved: attention softmax output"
    double bytes = 0;
    std::string formula;   ///< how it follows from s, b, h, ... (suite/measure/memory_terms.h); empty when none is known
    std::string purpose;   ///< as in by_purpose
  };
  std::vector<Term> terms;               ///< everything that is there at the peak: adds up to peak_bytes
  std::vector<std::pair<std::string, double>> by_purpose;  ///< bytes at the peak, in order of Purpose, plus overhead
  double peak_bytes = 0;
  double reserved_bytes = -1;            ///< most that a caching allocator holds, overhead included; -1: the stack has none
  double saved_bytes = 0;                ///< saved activations at their high-water mark
  double saved_formula_bytes = -1;       ///< Korthikanti et al. 2022, section 4, for the same layout; -1: not covered
  std::vector<Term> saved_terms;
};

struct StageResult {
  int stage = 0;
  int representative_rank = 0;
  Breakdown breakdown;
  double gpu_busy = 0;
  std::vector<GanttSpan> gantt;
  StageMemory memory;
  std::int64_t peak_in_flight = 0;
  std::vector<SentBytes> sent;  ///< of the stage's rank that is furthest from its formula
};

/// A part of the idle time of a mean rank.
struct BubblePart {
  std::string name;
  double seconds = 0;
  std::string explanation;
};

struct VariantResult {
  std::string id, title;
  std::string hardware, stack;
  Json model, layout;          ///< resolved
  Status status = Status::pass;
  std::string reason_code, reason;
  Picoseconds step = 0;
  double iteration_s = 0, tokens_per_s_per_gpu = 0, model_tflops_per_gpu = 0;
  std::optional<double> mfu, hfu;  ///< null for a GPU without a known peak
  double gpu_busy = 0;             ///< mean over stages: compute or a resident communication kernel
  double bubble_share = 0;         ///< mean idle share of the step on the timeline
  double bubble_formula_step = 0;  ///< (p-1)/(v m + p-1)
  double bubble_formula_ideal = 0; ///< (p-1)/(v m)
  double bubble_over_ideal = 0;    ///< measured idle over the time of the passes, as bubble_formula_ideal has it
  std::vector<BubblePart> bubble_parts;  ///< formula, unequal stages, ...: they add up to bubble_share * iteration_s
  double recompute_s = 0;          ///< recompute compute time, mean over stages
  double peak_memory_gib = 0;
  double capacity_gib = 0;
  bool fits = true;
  std::optional<double> loss;      ///< device cpu only
  std::vector<double> loss_curve;  ///< loss of every trained step, in order; empty where nothing was trained
  std::vector<double> step_samples_s;  ///< seconds of each timed step; empty for one replay on sim, which is exact
  std::vector<StageResult> stages;
  std::vector<CommunicationTime> communication;
  Breakdown mean_breakdown;        ///< sum over ranks; divide by `ranks_in_breakdown`
  std::int64_t ranks_in_breakdown = 1;
  std::int64_t ops = 0;            ///< recorded on all roles
  double flops_model = 0, flops_hardware = 0;
  std::string flops_formula;       ///< id of the versioned formula
  double speed_of_light_s = 0;     ///< model FLOPs at dense peak: no step can be shorter
};

/// From variant `from` to variant `to`: parts add up to the difference exactly.
struct Waterfall {
  struct Part {
    std::string name;
    double seconds = 0;            ///< to minus from (negative: saved)
    std::string explanation;
  };
  std::string id, from, to;
  double from_s = 0, to_s = 0;
  std::vector<Part> parts;
  std::string one_line;            ///< gpu_busy beside MFU: why 95 % busy is 24 % MFU
};

enum class Verdict : std::uint8_t { pass, warn, fail, improved, noref, missing, shown };  ///< shown: claims never gate
std::string_view name_of(Verdict verdict);

/// One expectation, judged. What compares or files checks goes by `id`, what people read shows `title_of`.
struct CheckResult {
  std::string id;                  ///< stable: that of the expectation, e.g. "ratio_full_selective_m8"
  std::string title;               ///< for people, e.g. "step-time ratio full/selective, m = 8"
  std::string metric;              ///< "full_m8.iteration_s / selective_m8.iteration_s"
  std::string kind;                ///< measurement | claim | bound | baseline
  std::optional<double> value;
  std::string unit;
  std::optional<double> pass_low, pass_high, warn_low, warn_high;
  std::optional<double> target;
  Verdict verdict = Verdict::missing;
  bool gates = true;
  std::string source;              ///< provenance: paper, section, table
  std::string explanation;         ///< claims: one sentence with the arithmetic
};

inline const std::string& title_of(const CheckResult& check) { return check.title.empty() ? check.id : check.title; }

struct CaseResult {
  std::string id, title, case_hash;
  std::string method_note;         ///< Markdown, from cases/<id>.md; may be empty
  Status status = Status::pass;
  std::string reason_code, reason;
  std::vector<VariantResult> variants;
  std::vector<Waterfall> waterfalls;
  std::vector<CheckResult> checks;
  double elapsed_s = 0;
};

struct Run {
  std::string run_id;              ///< "20261129T150102Z-7f3a"
  std::string suite_version, engine_commit;
  std::string device;              ///< sim, cpu, cuda
  std::vector<std::string> argv;
  std::string started, ended;      ///< UTC ISO-8601
  std::string host;
  Json environment;                ///< name -> value, by an exact allow-list; null where nothing was captured
  int exit_code = 0;
  std::vector<CaseResult> cases;
};

}  // namespace benchsuite
