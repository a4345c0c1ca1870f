#include "suite/run/selection.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

namespace benchsuite {

namespace {

bool has_tag(const CaseFile& source, const std::vector<std::string>& tags) {
  return std::any_of(tags.begin(), tags.end(), [&](const std::string& tag) {
    return std::find(source.tags.begin(), source.tags.end(), tag) != source.tags.end();
  });
}

/// Whether `resolved` is what ROOT/cases/ID.json resolves to without --set.
bool is_as_written(const ResolvedCase& resolved, const DataRoot& root) {
  const std::string file = root.file_of(DataKind::cases, resolved.source.id);
  if (!std::filesystem::is_regular_file(file)) return false;
  std::vector<Violation> problems;
  const CaseFile original = read_case(parse_json_file(file), file, problems);
  if (!problems.empty()) return false;
  const ResolvedCase reference = resolve_case(original, {}, root, problems);
  return problems.empty() && reference.hash == resolved.hash;
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

/// Whether a variant says itself what it runs on.
bool chooses_hardware(const VariantSpec& variant) {
  return std::any_of(variant.set.begin(), variant.set.end(), [](const Override& set) {
    return set.key == "hardware" || set.key.starts_with("hardware.");
  });
}

/// Leaves the variants that are asked for. The hash stays that of the whole case: its variants are what they were.
void keep_variants(SelectedCase& selected, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  std::vector<ResolvedVariant>& variants = selected.resolved.variants;
  const std::size_t before = variants.size();
  std::erase_if(variants, [&](const ResolvedVariant& variant) { return !matches_any(variant.id, patterns); });
  selected.partial = selected.partial || variants.size() != before;
  Json kept = Json::array();
  for (Json& variant : selected.resolved.resolved["variants"]) {
    if (matches_any(variant["id"].get<std::string>(), patterns)) kept.push_back(std::move(variant));
  }
  selected.resolved.resolved["variants"] = std::move(kept);
}

/// A --set that some variants can't bear: says which can.
void say_what_works(const CaseFile& source, const std::vector<Override>& sets, const DataRoot& root,
                    std::vector<Violation>& found) {
  std::string broken, sound;
  for (const VariantSpec& variant : source.variants) {
    CaseFile alone = source;
    alone.variants = {variant};
    std::vector<Violation> problems;
    resolve_case(alone, sets, root, problems);
    std::string& list = problems.empty() ? sound : broken;
    list += (list.empty() ? "" : ", ") + variant.id;
  }
  if (sound.empty()) return;
  found.push_back(
      {"--set", "variants", broken, "can't be had with it", "choose others by --variant GLOB; it suits " + sound});
}

SelectedCase select_case(const std::string& file, const std::string& name, const std::vector<Override>& sets,
                         const Selection& selection, const DataRoot& root, std::vector<Violation>& problems) {
  std::vector<Violation> found;
  SelectedCase selected;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    problems.push_back({"command line", "--case-file", file, "there is no such file", "check the path"});
    return selected;
  }
  CaseFile source = read_case(parse_json_file(file), file, found);
  if (!name.empty() && !source.id.empty() && source.id != name) {
    found.push_back({file, "id", source.id, "differs from the file's name", "call it \"" + name + "\""});
  }
  if (selection.skip_own_hardware) {
    std::erase_if(source.variants, chooses_hardware);
    selected.partial = true;
  }
  if (!sets.empty() && !selection.variants.empty()) {  // what is not asked for need not bear the --set, nor equal another
    const std::size_t dropped = std::erase_if(source.variants, [&](const VariantSpec& variant) {
      return !matches_any(variant.id, selection.variants);
    });
    selected.partial = selected.partial || dropped > 0;
  }
  selected.resolved.source = source;
  if (found.empty()) {
    selected.resolved = resolve_case(source, sets, root, found);
    if (!found.empty() && !sets.empty()) say_what_works(source, sets, root, found);
  }
  for (Violation& violation : found) violation.file = root.shorten(violation.file);
  if (found.empty()) {
    selected.expected = find_expected(source.id, root, found);
    selected.as_written = (sets.empty() && !name.empty()) || is_as_written(selected.resolved, root);
    if (selected.expected && selected.as_written && found.empty()) {
      std::vector<std::string> variants;
      for (const VariantSpec& variant : source.variants) variants.push_back(variant.id);
      check_variants(*selected.expected, variants, found);
    }
  }
  if (found.empty()) keep_variants(selected, selection.variants);
  problems.insert(problems.end(), found.begin(), found.end());
  return selected;
}

}  // namespace

std::optional<ExpectedFile> find_expected(const std::string& case_id, const DataRoot& root,
                                          std::vector<Violation>& problems) {
  const std::string file = root.file_of(DataKind::expected, case_id);
  if (!std::filesystem::is_regular_file(file)) return std::nullopt;
  ExpectedFile expected = read_expected(parse_json_file(file), root.shorten(file), problems);
  if (!expected.case_id.empty() && expected.case_id != case_id) {
    problems.push_back(
        {expected.file, "case", expected.case_id, "differs from the file's name", "call it \"" + case_id + "\""});
  }
  return expected;
}

std::vector<SelectedCase> select_cases(const Selection& selection, const DataRoot& root,
                                       std::vector<Violation>& problems) {
  std::vector<Override> sets;
  for (const std::string& text : selection.sets) sets.push_back(parse_set(text));
  std::vector<SelectedCase> selected;
  const auto take = [&](const std::string& file, const std::string& name) {
    // A file that can't be parsed is one more violation, so that the others are still reported with it.
    try {
      const std::size_t before = problems.size();
      SelectedCase next = select_case(file, name, sets, selection, root, problems);
      const bool tagged = selection.tags.empty() || has_tag(next.resolved.source, selection.tags);
      const bool any = !next.resolved.variants.empty() || problems.size() != before;
      const auto& only = selection.only;
      const bool wanted = only.empty() || std::find(only.begin(), only.end(), next.resolved.source.id) != only.end();
      if (tagged && any && wanted && problems.size() == before) selected.push_back(std::move(next));
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::io) {
        problems.push_back({"command line", "--case-file", file, error.what(), "check its permissions"});
        return;
      }
      if (error.kind() != Error::Kind::config) throw;
      for (Violation violation : error.violations()) {
        violation.file = root.shorten(violation.file);
        problems.push_back(std::move(violation));
      }
    }
  };
  const bool by_tag_only = selection.names.empty() && selection.files.empty() && !selection.tags.empty();
  for (const std::string& name : root.names(DataKind::cases)) {
    if (matches_any(name, selection.exclude)) continue;
    if (matches_any(name, selection.names) || by_tag_only) take(root.file_of(DataKind::cases, name), name);
  }
  for (const std::string& file : selection.files) take(file, "");
  for (std::size_t i = 0; i < selected.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const std::string& id = selected[i].resolved.source.id;
      if (id.empty() || id != selected[j].resolved.source.id) continue;
      problems.push_back({root.shorten(selected[i].resolved.source.file), "id", id, "two selected cases have this id",
                          "give one of them another id, or run them apart"});
    }
  }
  return selected;
}

}  // namespace benchsuite
