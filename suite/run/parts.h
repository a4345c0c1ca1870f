// Results of a run before its end: every variant and every case has its file the moment it is there. The last variant of a case
// that ran to its end has none: the case's own file follows at once.
//
//   RUN/variants/CASE/VARIANT.json   until the case is complete
//   RUN/cases/CASE.json              judged
//
// Each is a result.json of its own (suite/report/result_json.h), so that `report` renders it, and what is read back is bit
// for bit what was written.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "suite/results/run.h"
#include "suite/results/shared_text.h"

namespace benchsuite {

class Parts {
 public:
  /// `frame` says which run the parts belong to; its cases are left out.
  Parts(std::string folder, Run frame);

  /// Of variants that ran to their end; those that were stopped leave nothing.
  void write(const CaseResult& result, const VariantResult& variant);
  /// Of a case all of whose variants ran to their end; the files of its variants go.
  void write(const CaseResult& result);

  /// The text of the whole run. What was written is not made into text again: it may not have changed since.
  SharedText text(const Run& run) const;

  /// What an earlier process left of the case with this hash, nothing when it left none. Throws Error (config) when the
  /// file can't be what it left.
  std::optional<VariantResult> variant(const CaseResult& blank, const std::string& id) const;
  std::optional<CaseResult> complete(const CaseResult& blank) const;

 private:
  std::string folder_of(const std::string& case_id) const { return folder_ + "/variants/" + case_id; }
  void drop_variants(const std::string& case_id) const;
  std::optional<CaseResult> read(const std::string& file, const CaseResult& blank) const;

  std::string folder_;
  Run frame_;
  std::map<std::string, SharedText> cases_, variants_;  // what was written: cases by id, variants of the case that runs
};

/// Whether it ended by itself, not by a signal or a time limit.
bool ran_to_its_end(const VariantResult& variant);
bool ran_to_its_end(const CaseResult& result);

}  // namespace benchsuite
