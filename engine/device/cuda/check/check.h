// gpu_check: what the pieces of the operator benchmark share. Checked calls, device buffers, timing, rows of JSON.
//
// A standalone program (scripts/gpu_check builds and runs it): it shares no code with the engine, needs nothing but the
// CUDA toolkit, and cuDNN and the driver's NVML where they are present.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gpu_check {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// A kernel that does not compute what the CPU reference says.
struct Mismatch : Failure {
  using Failure::Failure;
};

[[noreturn]] void fail(const char* file, int line, const char* expression, const std::string& why);

#define CUDA_CHECK(expression)                                                                                   \
  do {                                                                                                           \
    const cudaError_t status_ = (expression);                                                                    \
    if (status_ != cudaSuccess) ::gpu_check::fail(__FILE__, __LINE__, #expression, cudaGetErrorString(status_)); \
  } while (0)

/// For libraries whose status is 0 when all is well.
#define STATUS_CHECK(expression)                                                                                 \
  do {                                                                                                           \
    const auto status_ = (expression);                                                                           \
    if (static_cast<int>(status_) != 0)                                                                          \
      ::gpu_check::fail(__FILE__, __LINE__, #expression, "status " + std::to_string(static_cast<int>(status_))); \
  } while (0)

/// Waits for copies and fills: the kernels run on a stream that does not wait for the default one.
inline void settle() { CUDA_CHECK(cudaStreamSynchronize(nullptr)); }

/// Device memory of `count` elements.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count) { CUDA_CHECK(cudaMalloc(&data_, count * sizeof(T))); }
  explicit Buffer(const std::vector<T>& host) : Buffer(host.size()) { put(host); }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return data_; }
  std::size_t size() const { return count_; }
  void put(const std::vector<T>& host) {
    CUDA_CHECK(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    settle();
  }
  std::vector<T> host() const {
    std::vector<T> out(count_);
    CUDA_CHECK(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }
  void fill_bytes(int byte) const {
    CUDA_CHECK(cudaMemset(data_, byte, count_ * sizeof(T)));
    settle();
  }
  void zero() const { fill_bytes(0); }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// bf16 as its 16 bits, rounded to nearest even.
std::uint16_t to_bf16(float value);
float from_bf16(std::uint16_t bits);

/// Values in [-1, 1) from a counter; equal on every machine.
std::vector<float> noise(std::size_t count, std::uint32_t seed);
std::vector<std::uint16_t> bf16_of(const std::vector<float>& values);
std::vector<float> float_of(const std::vector<std::uint16_t>& bits);
/// Noise of a large buffer: a block of host noise copied over it.
void fill_noise(void* device, std::size_t bytes, std::uint32_t seed);

using Launch = std::function<void(cudaStream_t)>;

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), std::size_t blocks, int threads, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/// GPU seconds of one launch: replays of a captured graph of several launches, the least of a few replays' means.
double burst_seconds(cudaStream_t stream, const Launch& launch);

/// Runs launches for about `seconds` without a pause; returns seconds per launch over the second half.
double sustained_seconds(cudaStream_t stream, const Launch& launch, double seconds);

/// One object of the output, built key by key.
class Row {
 public:
  Row& add(const char* key, const std::string& text);
  Row& add(const char* key, const char* text) { return add(key, std::string(text)); }
  Row& add(const char* key, double value);
  Row& add(const char* key, std::int64_t value);
  Row& add(const char* key, int value) { return add(key, static_cast<std::int64_t>(value)); }
  Row& add(const char* key, bool value);
  const std::string& text() const { return text_; }

 private:
  void key(const char* name);
  std::string text_;
};

/// What a section works with and writes to.
struct Session {
  std::string gpu;  ///< the device's name
  cudaStream_t stream{};
  bool quick = false;       ///< a few shapes of each family
  bool check_only = false;  ///< comparisons with the CPU, no measurements
  std::vector<Row> rows;
  std::vector<std::string> skipped;  ///< "what: why"
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  /// Whether the run is younger than `seconds`; the rest of a section that is late goes into `skipped`, so that the whole
  /// stays within five minutes on a slow machine.
  bool time_left(double seconds, const char* what);

  /// A row that begins with the GPU's name.
  Row row() const { return Row().add("gpu", gpu); }
};

int sm_count();

/// Throws Mismatch when `got` and `want` differ by more than `absolute + relative |want|` anywhere.
void expect_close(const std::string& what, const std::vector<float>& got, const std::vector<float>& want,
                  double absolute, double relative);

// The sections. check_* compares each kernel with a CPU reference on a small shape; measure_* adds rows.
void check_memory_ops(Session& session);
void measure_memory_ops(Session& session);
void check_products(Session& session);
void measure_products(Session& session);
void measure_power(Session& session);  ///< a product held at the power limit against bursts
void check_and_measure_attention(Session& session);
void measure_launches(Session& session);

}  // namespace gpu_check
