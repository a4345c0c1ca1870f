// What the real cuDNN says about our attention graphs, without a GPU: since 9.8 it proposes and builds plans for a GPU
// that is only described (cuDNN documentation, "Deviceless Ahead-of-time Compilation"). Matching a graph with an engine
// and compiling the engine's kernel need no GPU; loading the kernel does, so where there is no driver, a build ends
// there.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/core/error.h"
#include "engine/device/cuda/cudnn/plan.h"

namespace benchsuite::cuda {
namespace {

using ::testing::HasSubstr;

/// As the data sheets of A100, H100 (SXM) and B200 and the CUDA programming guide's table of compute capabilities have
/// them.
struct Gpu {
  const char* name;
  int version, multiprocessors, shared_memory_of_a_block;
  std::int64_t cache, memory;
  int clock_khz;
};
constexpr Gpu kGpus[] = {{"A100", 800, 108, 163 << 10, 40 << 20, std::int64_t{80} << 30, 1'410'000},
                         {"H100", 900, 132, 227 << 10, 50 << 20, std::int64_t{80} << 30, 1'980'000},
                         {"B200", 1000, 148, 227 << 10, 126 << 20, std::int64_t{180} << 30, 1'965'000}};
void PrintTo(const Gpu& gpu, std::ostream* out) { *out << gpu.name; }

Descriptor described(const Gpu& gpu) {
  const std::string json = fmt::format(
      R"({{"deviceVer": {}, "multiProcessorCount": {}, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
"maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
"maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "regsPerBlock": 65536, "totalGlobalMem": {}, "smClockRateKHz": {},
"l2CacheSize": {}, "maxBlockSize": [1024, 1024, 64], "memClockRateKHz": 2600000, "maxGridSize": [2147483647, 65535, 65535],
"supportCoopLaunch": 1, "pciDeviceId": 0, "isTccDriver": 0, "cudaDeviceId": 0, "driverVer": 13000, "deviceName": "{}"}})",
      gpu.version, gpu.multiprocessors, gpu.shared_memory_of_a_block, gpu.memory, gpu.clock_khz, gpu.cache, gpu.name);
  Descriptor out(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  out.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(json));
  out.finalize();
  return out;
}

std::vector<Descriptor> proposals(const AttentionKey& key, const Descriptor& gpu) {
  OperationGraph operations;
  write_attention(operations, key);
  return deterministic_configurations(operations.finish(), gpu);
}

std::string words(const AttentionKey& key) {
  return fmt::format("{}{} s {} b {} a {} d {} u {}", key.backward ? "backward" : "forward",
                     key.causal ? " causal" : "", key.s, key.b, key.a, key.d, key.u);
}

/// Both passes, with and without the causal mask.
template <class Body>
void each_pass(AttentionKey key, Body body) {
  for (const bool backward : {false, true}) {
    for (const bool causal : {false, true}) {
      key.backward = backward, key.causal = causal;
      body(key);
    }
  }
}

class LibraryEngines : public ::testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    if (void* const driver = dlopen("libcuda.so.1", RTLD_LAZY)) {
      dlclose(driver);
    } else {
      GTEST_SKIP() << "cuDNN's compiled engines want a libcuda.so.1, if only the CUDA toolkit's stub of it: "
                   << dlerror();
    }
  }
};

// GPT-3 and Llama heads, smaller ones, a number of positions that divides by nothing, several samples, grouped queries.
constexpr AttentionKey kKeys[] = {
    {.s = 2048, .b = 1, .a = 16, .d = 128, .u = 16}, {.s = 4096, .b = 2, .a = 32, .d = 128, .u = 8},
    {.s = 2048, .b = 4, .a = 12, .d = 80, .u = 12},  {.s = 1024, .b = 2, .a = 16, .d = 64, .u = 16},
    {.s = 1000, .b = 3, .a = 6, .d = 96, .u = 2},    {.s = 203, .b = 2, .a = 4, .d = 40, .u = 4},
    {.s = 8, .b = 1, .a = 4, .d = 8, .u = 2}};

TEST_P(LibraryEngines, TakeOurGraphs) {
  const Descriptor gpu = described(GetParam());
  for (const AttentionKey& shape : kKeys) {
    each_pass(shape, [&](const AttentionKey& key) { EXPECT_FALSE(proposals(key, gpu).empty()) << words(key); });
  }
}

TEST_P(LibraryEngines, AreCompiledForOurGraphs) {
  const Descriptor gpu = described(GetParam());
  for (const AttentionKey& shape : {kKeys[0], kKeys[4]}) {
    each_pass(shape, [&](const AttentionKey& key) {
      const std::vector<Descriptor> found = proposals(key, gpu);
      ASSERT_FALSE(found.empty()) << words(key);
      // On another GPU than the one described, or on none, the driver refuses what has been compiled.
      try {
        build(found[0], gpu);
      } catch (const NotSupported& answer) {
        ADD_FAILURE() << words(key) << ": " << answer.why;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER")) << words(key);
      }
    });
  }
}

TEST_P(LibraryEngines, LeaveOtherHeadsAlone) {
  const Descriptor gpu = described(GetParam());
  each_pass({.s = 64, .b = 1, .a = 2, .d = 12, .u = 2},
            [&](const AttentionKey& key) { EXPECT_TRUE(proposals(key, gpu).empty()) << words(key); });
}

INSTANTIATE_TEST_SUITE_P(Gpus, LibraryEngines, ::testing::ValuesIn(kGpus),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace benchsuite::cuda
