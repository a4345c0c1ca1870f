#include "suite/run/parts.h"

#include <algorithm>
#include <filesystem>

#include "suite/report/result_json.h"
#include "suite/results/run_files.h"

namespace benchsuite {

namespace fs = std::filesystem;

namespace {

void make_folder(const std::string& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure)
    throw Error(Error::Kind::io, path + ": can't be written: " + failure.message() + "; choose another --out");
}

}  // namespace

bool ran_to_its_end(const VariantResult& variant) {
  return variant.status != Status::aborted && variant.status != Status::timeout;
}

bool ran_to_its_end(const CaseResult& result) {
  return std::all_of(result.variants.begin(), result.variants.end(),
                     [](const VariantResult& variant) { return ran_to_its_end(variant); });
}

Parts::Parts(std::string folder, Run frame) : folder_(std::move(folder)), frame_(std::move(frame)) {
  frame_.cases.clear();
}

void Parts::write(const CaseResult& result, const VariantResult& variant) {
  if (!ran_to_its_end(variant)) return;
  CaseResult only;
  only.id = result.id;
  only.title = result.title;
  only.case_hash = result.case_hash;
  only.status = Status::noref;
  only.reason_code = "INCOMPLETE";
  only.reason = "one variant, before the case is judged";
  const SharedText& text = variants_[variant.id] = variant_text(variant);
  const SharedText in_case[] = {case_text(only, {&text, 1})};
  make_folder(folder_of(result.id));
  write_file(folder_of(result.id) + "/" + variant.id + ".json", result_text(frame_, in_case));
}

void Parts::write(const CaseResult& result) {
  std::vector<SharedText> variants;
  for (const VariantResult& variant : result.variants) {
    const auto known = variants_.find(variant.id);
    variants.push_back(known != variants_.end() ? known->second : variant_text(variant));
  }
  variants_.clear();
  const SharedText& text = cases_[result.id] = case_text(result, variants);
  if (!ran_to_its_end(result)) return;
  make_folder(folder_ + "/cases");
  write_file(folder_ + "/cases/" + result.id + ".json", result_text(frame_, {&text, 1}));
  drop_variants(result.id);
}

SharedText Parts::text(const Run& run) const {
  std::vector<SharedText> cases;
  for (const CaseResult& result : run.cases) {
    const auto known = cases_.find(result.id);
    if (known != cases_.end()) {
      cases.push_back(known->second);
      continue;
    }
    std::vector<SharedText> variants;
    for (const VariantResult& variant : result.variants) variants.push_back(variant_text(variant));
    cases.push_back(case_text(result, variants));
  }
  return result_text(run, cases);
}

void Parts::drop_variants(const std::string& case_id) const {
  std::error_code ignored;  // they say nothing that the case doesn't; left behind they do no harm
  fs::remove_all(folder_of(case_id), ignored);
  fs::remove(folder_ + "/variants", ignored);
}

std::optional<CaseResult> Parts::read(const std::string& file, const CaseResult& blank) const {
  if (!fs::is_regular_file(file)) return std::nullopt;
  Run run = run_from_json(parse_json_file(file), file);
  const bool same = run.run_id == frame_.run_id && run.cases.size() == 1 && run.cases[0].id == blank.id &&
                    run.cases[0].case_hash == blank.case_hash;
  if (!same) throw Error({Violation{file, "run_id", run.run_id, "belongs to another run or case", "remove the file"}});
  return std::move(run.cases[0]);
}

std::optional<VariantResult> Parts::variant(const CaseResult& blank, const std::string& id) const {
  std::optional<CaseResult> found = read(folder_of(blank.id) + "/" + id + ".json", blank);
  if (!found || found->variants.size() != 1 || found->variants[0].id != id) return std::nullopt;
  return std::move(found->variants[0]);
}

std::optional<CaseResult> Parts::complete(const CaseResult& blank) const {
  std::optional<CaseResult> found = read(folder_ + "/cases/" + blank.id + ".json", blank);
  if (!found) return found;
  found->method_note = blank.method_note;
  drop_variants(blank.id);  // a process that was killed right after it wrote the case left them
  return found;
}

}  // namespace benchsuite
