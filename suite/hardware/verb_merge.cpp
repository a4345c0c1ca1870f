// hardware merge: a profile with the collectives that calibrate fitted.
#include <fmt/format.h>

#include <filesystem>

#include "engine/device/sim/hardware.h"
#include "suite/calibrate/fragment.h"
#include "suite/cases/data_root.h"
#include "suite/hardware/verb_hardware.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"

namespace benchsuite {

int verb_hardware_merge(const HardwareRequest& request) {
  std::vector<Violation> problems;
  const std::string base =
      DataRoot::find().locate(DataKind::hardware, request.name, "command line", "NAME", problems);
  if (!problems.empty()) throw Error(problems);
  Json profile = load_hardware(base).raw;
  profile.erase("based_on");

  std::vector<Fragment> fragments;
  for (const std::string& file : request.fragments) {
    const Json json = parse_json_file(file);
    if (!is_fragment(json)) {
      problems.push_back({"command line", "FRAGMENT", file, "is no fragment", "name what calibrate --out wrote"});
      continue;
    }
    fragments.push_back(read_fragment(json, file, problems));
  }
  if (!problems.empty()) throw Error(problems);

  std::vector<std::string> notes;
  profile = merge_fragments(std::move(profile), fragments, notes);
  profile["name"] = std::filesystem::path(request.out).stem().string();
  profile["title"] = profile["title"].get<std::string>() + ", collectives calibrated";
  read_hardware(profile, request.out, problems);
  if (!problems.empty()) throw Error(problems);
  write_file(request.out, profile.dump(2) + "\n");
  for (const Fragment& fragment : fragments) {
    if (fragment.verdict == "unhealthy")
      notes.emplace_back("a fragment was judged unhealthy: the profile describes a cluster with that fault");
  }
  for (const std::string& note : notes) fmt::print("  note: {}\n", note);
  fmt::print("{}\n", request.out);
  return kExitPass;
}

}  // namespace benchsuite
