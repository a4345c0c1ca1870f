// gpu_check operators: measures on one GPU the operators that public tables leave open. See scripts/gpu_check --help.
#include <cublasLt.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

#include "check.h"

namespace {

using gpu_check::Failure;
using gpu_check::Mismatch;
using gpu_check::Row;
using gpu_check::Session;

// As benchsuite's: 1 an expectation failed (a kernel is wrong), 2 usage, 3 the run broke, 5 skipped (no GPU).
constexpr int kPass = 0, kFail = 1, kUsage = 2, kError = 3, kSkipped = 5;

/// The name of the published tables for a device name: "NVIDIA H100 80GB HBM3" is "H100-SXM5-80GB".
std::string table_name(const std::string& name, std::size_t bytes) {
  const bool sxm = name.find("PCIe") == std::string::npos && name.find("NVL") == std::string::npos;
  const std::string size = bytes > (std::size_t{60} << 30) ? "80GB" : "40GB";
  for (const auto& [part, table] : {std::pair{"GB200", std::string("GB200")},
                                    {"GH200", std::string("GH200")},
                                    {"B200", std::string("B200-SXM")},
                                    {"H200", std::string("H200-SXM-141GB")},
                                    {"H100", std::string("H100-SXM5-80GB")},
                                    {"A100", "A100-SXM4-" + size},
                                    {"V100", std::string("V100-SXM2")}})
    if (sxm && name.find(part) != std::string::npos) return table;
  return name;
}

void write(std::ostream& out, const Session& session, const std::string& device, int driver, int runtime) {
  Row source;
  source.add("device", device).add("driver", driver).add("cuda", runtime);
  source.add("cublaslt", static_cast<std::int64_t>(cublasLtGetVersion()));
  source.add("method",
             "gpu_check operators: burst = replays of a captured graph of about 2 ms, so operands that fit into the L2 "
             "come from there; sustained = back to back for seconds, second half");
  out << "{\"schema_version\": 1,\n\"about\": \"Operator rows measured by scripts/gpu_check on one "
         "GPU.\",\n\"sources\": {";
  const char* comma = "";
  for (const char* key : {"gpu_check", "gpu_check-burst", "gpu_check-sustained"}) {
    out << comma << "\n  \"" << key << "\": {" << source.text() << "}";
    comma = ",";
  }
  out << "\n},\n\"skipped\": [";
  comma = "";
  for (const std::string& why : session.skipped) {
    const std::string text = Row().add("s", why).text();
    out << comma << text.substr(text.find(": ") + 2);
    comma = ", ";
  }
  out << "],\n\"rows\": [";
  comma = "";
  for (const Row& row : session.rows) {
    out << comma << "\n  {" << row.text() << "}";
    comma = ",";
  }
  out << "\n]}\n";
}

/// Runs a section; what goes wrong in one does not lose the rows of the others.
int run_section(Session& session, const char* name, void (*body)(Session&)) {
  std::fprintf(stderr, "gpu_check: %s\n", name);
  try {
    body(session);
    return kPass;
  } catch (const Mismatch& wrong) {
    std::fprintf(stderr, "gpu_check: wrong result: %s\n", wrong.what());
    session.skipped.push_back(std::string(name) + ": stopped by a wrong result: " + wrong.what());
    return kFail;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "gpu_check: %s\n", failure.what());
    session.skipped.push_back(std::string(name) + ": stopped: " + failure.what());
    return kError;
  }
}

int run(const std::string& file, bool quick, bool check_only) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "gpu_check: no CUDA device here (%s); nothing was measured\n",
                 status == cudaSuccess ? "none is visible" : cudaGetErrorString(status));
    return kSkipped;
  }
  CUDA_CHECK(cudaSetDevice(0));
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major < 8) {
    std::fprintf(stderr, "gpu_check: %s has no bf16 matrix units; nothing was measured\n", properties.name);
    return kSkipped;
  }
  int driver = 0, runtime = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  Session session;
  session.gpu = table_name(properties.name, properties.totalGlobalMem);
  session.quick = quick;
  session.check_only = check_only;
  CUDA_CHECK(cudaStreamCreateWithFlags(&session.stream, cudaStreamNonBlocking));

  struct Section {
    const char* name;
    void (*body)(Session&);
    bool measures;
  };
  int code = kPass;
  for (const Section& section :
       {Section{"checking memory-bound kernels against the CPU", gpu_check::check_memory_ops, false},
        Section{"checking matrix products against the CPU", gpu_check::check_products, false},
        Section{"launch costs", gpu_check::measure_launches, true},
        Section{"matrix products", gpu_check::measure_products, true},
        Section{"memory-bound ops", gpu_check::measure_memory_ops, true},
        Section{"products at the power limit", gpu_check::measure_power, true},
        Section{"attention", gpu_check::check_and_measure_attention, false}}) {
    if (section.measures && check_only) continue;
    const int outcome = run_section(session, section.name, section.body);
    if (code == kPass) code = outcome;
    if (outcome == kFail) break;  // rows of kernels that are wrong are worth nothing
  }
  for (const std::string& why : session.skipped) std::fprintf(stderr, "gpu_check: skipped: %s\n", why.c_str());
  if (file.empty() || file == "-") {
    write(std::cout, session, properties.name, driver, runtime);
    std::cout.flush();
  } else {
    std::ofstream out(file);
    write(out, session, properties.name, driver, runtime);
    out.flush();
    if (!out) throw Failure(file + ": can't be written");
  }
  std::fprintf(stderr, "gpu_check: %zu rows\n", session.rows.size());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::string file;
  bool quick = false, check_only = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--out") == 0 && i + 1 < argc) {
      file = argv[++i];
    } else if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--check") == 0) {
      check_only = true;
    } else if (std::strcmp(argv[i], "operators") != 0) {
      std::fprintf(stderr, "gpu_check: unknown argument \"%s\"; see scripts/gpu_check --help\n", argv[i]);
      return kUsage;
    }
  }
  try {
    return run(file, quick, check_only);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gpu_check: %s\n", failure.what());
    return kError;
  }
}
