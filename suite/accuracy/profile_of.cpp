#include <algorithm>
#include <fmt/format.h>

#include <regex>

#include "suite/accuracy/map_row.h"

namespace benchsuite {

namespace {

/// A row's name of a GPU, the family of profiles whose names begin so, what is assumed, and ProfileOf::gpus_per_tray: a GB200
/// NVL72 is one NVLink domain of 18 compute trays with 4 GPUs each (NVIDIA, GB200 NVL72 datasheet), and benchmark tables
/// count nodes by trays.
struct Family {
  const char *gpu, *profiles, *assumed = "";
  int gpus_per_tray = 0;
};
constexpr Family kFamilies[] = {
    {"a100-sxm4-80gb", "dgx-a100-80g"}, {"a100-sxm4-40gb", "dgx-a100-40g"}, {"h100-sxm5-80gb", "dgx-h100"},
    {"h200-sxm-141gb", "dgx-h200"},     {"h200", "dgx-h200"},               {"b200", "hgx-b200"},
    {"gb200", "gb200-nvl72", "", 4},    {"v100-sxm3-32gb", "dgx-2-v100"},
    {"a100-sxm4-40gb-or-80gb", "dgx-a100-80g", "memory of the A100 not stated: runs on 80 GB"},
};

/// NICs of a node and their line rate in Gb/s, as the text has them.
struct Nics {
  int count = 0, gigabits = 0;
};

Nics nics_in(const std::string& text) {
  std::smatch match;
  static const std::regex each(R"((\d+)\s*x\s*[A-Za-z -]*?(\d{3})\s*G)");
  if (std::regex_search(text, match, each)) return {std::stoi(match[1]), std::stoi(match[2])};
  static const std::regex whole(R"((\d{3,4})\s*Gb/s node-to-node)");
  if (std::regex_search(text, match, whole)) return {8, std::stoi(match[1]) / 8};
  return {};
}

}  // namespace

bool states_nics(const Json& cluster) { return nics_in(PublishedRow::text(cluster, "interconnect")).count > 0; }

ProfileOf profile_of(const Json& cluster, const DataRoot& root) {
  const std::string gpu = PublishedRow::text(cluster, "gpu");
  ProfileOf found;
  std::string family;
  for (const Family& known : kFamilies) {
    if (gpu != known.gpu) continue;
    family = known.profiles;
    found.note = known.assumed;
    found.gpus_per_tray = known.gpus_per_tray;
  }
  if (family.empty()) {
    found.note = gpu.empty() ? "cluster.gpu is not stated" : "no hardware profile for GPU " + gpu;
    return found;
  }
  const std::vector<std::string> names = root.names(DataKind::hardware);
  const auto exists = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (const Nics nics = nics_in(PublishedRow::text(cluster, "interconnect")); nics.count > 0) {
    const std::string exact = fmt::format("{}-{}x{}g", family, nics.count, nics.gigabits);
    const bool omni_path = PublishedRow::text(cluster, "interconnect").find("Omni-Path") != std::string::npos;
    found.name = omni_path && exists(exact + "-opa") ? exact + "-opa" : exists(exact) ? exact : "";
    found.network_stated = !found.name.empty();
  }
  if (found.name.empty() && exists(family)) found.name = family;
  if (found.name.empty()) found.note = "there is no hardware profile " + family;
  return found;
}

}  // namespace benchsuite
