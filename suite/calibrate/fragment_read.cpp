// read_fragment and merge_fragments: what calibrate wrote, taken into a profile.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "suite/calibrate/fragment.h"

namespace benchsuite {

namespace {

constexpr const char* kOps[] = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                "send",       "broadcast",  "reduce"};

void read_errors(ObjectReader& fit) {
  const Json* errors = fit.raw("fit_error", true);
  if (!errors) return;
  ObjectReader reader(*errors, fit.file(), fit.dotted("fit_error"), fit.problems());
  for (const char* key : {"median", "p90"}) {
    double value = 0;
    reader.required(key, value);
    if (value < 0) reader.problem(key, "is negative", "give a share, 0.05 for 5 %");
  }
  reader.finish();
}

FragmentFit read_fit(ObjectReader& reader, const Json& sources, bool across) {
  FragmentFit fit;
  reader.required("op", fit.op);
  if (std::find(std::begin(kOps), std::end(kOps), fit.op) == std::end(kOps))
    reader.problem("op", "not a collective", fmt::format("choose from {}", fmt::join(kOps, ", ")));
  reader.required("ranks", fit.ranks);
  if (fit.ranks < 2) reader.problem("ranks", "must be 2 or more", "a collective of one rank costs nothing");
  if (across) reader.required("nodes", fit.nodes);
  reader.required("a", fit.a_us);
  reader.required("busbw", fit.busbw_gb_s);
  reader.required("c", fit.c_us);
  if (!(fit.a_us >= 0)) reader.problem("a", "is negative", "give microseconds");
  if (!(fit.busbw_gb_s > 0)) reader.problem("busbw", "must be more than 0", "give GB/s");
  if (!(fit.c_us >= 0)) reader.problem("c", "is negative", "give microseconds per square root of a byte");
  reader.required("source", fit.source);
  if (!sources.contains(fit.source))
    reader.problem("source", "\"" + fit.source + "\" is not a key of \"sources\"",
                   "add it to the top-level \"sources\"");
  std::int64_t rows = 0;
  reader.required("rows", rows);
  read_errors(reader);
  reader.finish();
  return fit;
}

}  // namespace

bool is_fragment(const Json& json) {
  return json.is_object() && json.contains("kind") && json["kind"] == kFragmentKind;
}

Fragment read_fragment(const Json& json, const std::string& file, std::vector<Violation>& problems) {
  Fragment fragment;
  ObjectReader reader(json, file, "", problems);
  int version = 0;
  std::string kind;
  reader.required("schema_version", version);
  if (version != 1) reader.problem("schema_version", "this build reads version 1", "calibrate again with this build");
  reader.required("kind", kind);
  reader.raw("hardware", true);  // the profile it was judged against, or null
  reader.required("verdict", fragment.verdict);
  reader.raw("judgement", true);
  const Json* sources = reader.raw("sources", true);
  fragment.sources = sources && sources->is_object() ? *sources : Json::object();
  for (const auto& [section, across] : {std::pair{"nvlink", false}, std::pair{"fabric", true}}) {
    const Json* part = reader.raw(section);
    if (!part) continue;
    ObjectReader inner(*part, file, section, problems);
    const Json* list = inner.raw("collectives", true);
    for (std::size_t i = 0; list && list->is_array() && i < list->size(); ++i) {
      ObjectReader entry((*list)[i], file, fmt::format("{}.collectives[{}]", section, i), problems);
      fragment.fits.push_back(read_fit(entry, fragment.sources, across));
      if (!across) fragment.inside.push_back((*list)[i]);
    }
    inner.finish();
  }
  reader.finish();
  return fragment;
}

Json merge_fragments(Json profile, const std::vector<Fragment>& fragments, std::vector<std::string>& notes) {
  Json& nvlink = profile["nvlink"];
  std::set<std::string> replaced;
  std::size_t across = 0, count = 0;
  for (const Fragment& fragment : fragments) {
    const std::string suffix = fragments.size() > 1 ? fmt::format("-{}", ++count) : "";
    for (const auto& [key, text] : fragment.sources.items()) profile["sources"][key + suffix] = text;
    across += fragment.fits.size() - fragment.inside.size();
    for (Json fit : fragment.inside) {
      const std::string op = fit["op"] == "alltoall" ? "all_to_all" : fit["op"].get<std::string>();
      if (op == "broadcast" || op == "reduce") {
        notes.push_back(op + ": a profile has no such collective; left out");
        continue;
      }
      fit["op"] = op;
      fit["source"] = fit["source"].get<std::string>() + suffix;
      Json& list = nvlink["collectives"];
      if (replaced.insert(op).second) {
        std::erase_if(list.get_ref<Json::array_t&>(), [&](const Json& entry) { return entry["op"] == op; });
        if (nvlink.contains("ramps")) nvlink["ramps"].erase(op);  // it belonged to the fits that go
      }
      const auto same = std::find_if(list.begin(), list.end(), [&](const Json& entry) {
        return entry["op"] == op && entry["ranks"] == fit["ranks"];
      });
      if (same != list.end()) {
        notes.push_back(fmt::format("{} of {} ranks is fitted twice: the last one counts", op, fit["ranks"].dump()));
        *same = std::move(fit);
      } else {
        list.push_back(std::move(fit));
      }
    }
  }
  if (nvlink.contains("ramps") && nvlink["ramps"].empty()) nvlink.erase("ramps");
  if (across > 0) {
    notes.push_back(
        fmt::format("{} fit{} between nodes left out: the profile's wire protocols stand, they hold for every "
                    "number of nodes",
                    across, across == 1 ? "" : "s"));
  }
  return profile;
}

}  // namespace benchsuite
