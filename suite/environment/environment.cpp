#include "suite/environment/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "suite/cases/stable_hash.h"
#include "suite/environment/redaction.h"
#include "suite/environment/version.h"

extern char** environ;

namespace benchsuite {

namespace fs = std::filesystem;

namespace {

// Names documented by CUDA, OpenMP, the schedulers, Open MPI, UCX and NCCL that change where or how a run runs. Exact:
// a prefix does not prove that a value is safe.
constexpr std::string_view kAllowed[] = {
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "DNNL_MAX_CPU_ISA",
    "SLURM_JOB_ID",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_PARTITION",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "UCX_TLS",
    "UCX_NET_DEVICES",
    "UCX_RNDV_THRESH",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_BUFFSIZE",
    "NCCL_NTHREADS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_CROSS_NIC",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_AR_THRESHOLD",
    "NCCL_NVLS_ENABLE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_TOPO_FILE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_CUMEM_ENABLE",
    "NCCL_MNNVL_ENABLE",
    "NCCL_WORK_FIFO_DEPTH",
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_ASYNC_ERROR_HANDLING",
};

class Facts {
 public:
  void add(const std::string& name, const std::string& value) {
    if (value.empty()) {
      unreadable_.push_back(name);
    } else {
      facts_[name] = tame(value);
    }
  }
  void add(const std::string& name, std::int64_t value) { facts_[name] = value; }
  /// A fact that many machines just don't have.
  void add_if(const std::string& name, const std::string& value) {
    if (!value.empty()) facts_[name] = tame(value);
  }
  Json take() {
    std::string list;
    for (const std::string& name : unreadable_) list += (list.empty() ? "" : ", ") + name;
    if (!list.empty()) facts_["unreadable"] = list;
    return std::move(facts_);
  }

 private:
  Json facts_ = Json::object();
  std::vector<std::string> unreadable_;
};

std::string trimmed(std::string text) {
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trimmed(line);
}

/// The value behind "key<spaces>:" or "key=" in a file of lines.
std::string value_in(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find_first_not_of(" \t", key.size());
    if (at == std::string::npos || (line[at] != ':' && line[at] != '=')) continue;
    std::string value = trimmed(line.substr(at + 1));
    if (value.size() > 1 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    return value;
  }
  return "";
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void add_host(Facts& facts) {
  char name[256] = {};
  facts.add("host.name", ::gethostname(name, sizeof name - 1) == 0 ? name : "");
  struct utsname system {};
  const bool known = ::uname(&system) == 0;
  facts.add("host.kernel", known ? system.release : "");
  facts.add("host.machine", known ? system.machine : "");
  facts.add("host.os", value_in("/etc/os-release", "PRETTY_NAME"));
  facts.add("host.cpu", value_in("/proc/cpuinfo", "model name"));
  facts.add("host.cpus", static_cast<std::int64_t>(std::thread::hardware_concurrency()));
  facts.add("host.memory", value_in("/proc/meminfo", "MemTotal"));
  facts.add_if("host.numa_nodes", first_line("/sys/devices/system/node/online"));
  facts.add_if("host.numa_balancing", first_line("/proc/sys/kernel/numa_balancing"));
  facts.add_if("host.transparent_hugepages", first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.add_if("host.governor", first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  facts.add_if("host.cgroup_cpu", first_line("/sys/fs/cgroup/cpu.max"));
  facts.add_if("host.cgroup_memory", first_line("/sys/fs/cgroup/memory.max"));
}

void add_gpus(Facts& facts) {
  facts.add_if("gpu.driver", value_in("/proc/driver/nvidia/version", "NVRM version"));
  std::int64_t count = 0;
  for (const fs::path& gpu : entries("/proc/driver/nvidia/gpus")) {
    const std::string key = "gpu." + std::to_string(count++) + ".";
    facts.add(key + "name", value_in(gpu / "information", "Model"));
    facts.add_if(key + "vbios", value_in(gpu / "information", "Video BIOS"));
    facts.add_if(key + "bus", gpu.filename().string());
  }
  facts.add("gpu.count", count);
}

void add_fabric(Facts& facts) {
  for (const fs::path& device : entries("/sys/class/infiniband")) {
    for (const fs::path& port : entries(device / "ports")) {
      const std::string key = "fabric." + device.filename().string() + "." + port.filename().string() + ".";
      facts.add(key + "rate", first_line(port / "rate"));
      facts.add(key + "state", first_line(port / "state"));
    }
  }
}

void add_variables(Facts& facts, const char* const* environment) {
  std::map<std::string, std::string> kept;
  for (const char* const* entry = environment; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(text.substr(0, equals));
    const bool allowed = std::find(std::begin(kAllowed), std::end(kAllowed), name) != std::end(kAllowed);
    if (names_a_secret(name)) continue;
    if (allowed) kept[name] = redact_arguments({std::string(text.substr(equals + 1))}).front();
    // Somebody tunes NCCL with a name we don't know: that it is there matters, its value may be anything.
    if (!allowed && name.starts_with("NCCL_")) kept[name] = "set";
  }
  for (const auto& [name, value] : kept) facts.add("variable." + name, value.empty() ? "(empty)" : value);
}

bool changes_performance(const std::string& name) {
  if (name.starts_with("gpu.")) return !name.ends_with(".bus");
  if (name.starts_with("fabric.")) return name.ends_with(".rate");
  for (const char* exact : {"host.machine", "host.cpu", "host.cpus", "host.numa_nodes", "host.governor",
                            "host.cgroup_cpu", "build.type", "build.compiler"}) {
    if (name == exact) return true;
  }
  if (!name.starts_with("variable.")) return false;
  return !name.starts_with("variable.SLURM_JOB_") && !name.starts_with("variable.NCCL_DEBUG");
}

std::string shown(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

std::span<const std::string_view> allowed_variables() { return kAllowed; }

Json capture_environment(const char* const* environment) {
  Facts facts;
  facts.add("build.commit", engine_commit());
  facts.add("build.type", build_type());
  facts.add("build.compiler", __VERSION__);
  add_host(facts);
  add_gpus(facts);
  add_fabric(facts);
  add_variables(facts, environment);
  return facts.take();
}

Json capture_environment() { return capture_environment(environ); }

std::string system_fingerprint(const Json& environment, std::string_view device) {
  if (device == "sim") return "sim";
  Json relevant = {{"device", device}};
  for (const auto& [name, value] : environment.items()) {
    if (changes_performance(name)) relevant[name] = value;
  }
  return stable_hash(relevant);
}

std::vector<std::string> environment_difference(const Json& before, const Json& after) {
  std::map<std::string, std::pair<std::string, std::string>> sides;
  for (const auto& [name, value] : before.items()) sides[name].first = shown(value);
  for (const auto& [name, value] : after.items()) sides[name].second = shown(value);
  std::vector<std::string> lines;
  for (const auto& [name, pair] : sides) {
    if (pair.first == pair.second) continue;
    const auto side = [](const std::string& text) { return text.empty() ? std::string("absent") : text; };
    lines.push_back(name + ": " + side(pair.first) + " -> " + side(pair.second));
  }
  return lines;
}

}  // namespace benchsuite
