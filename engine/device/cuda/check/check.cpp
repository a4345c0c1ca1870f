#include "check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace gpu_check {

void fail(const char* file, int line, const char* expression, const std::string& why) {
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + expression + ": " + why);
}

std::uint16_t to_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits += 0x7FFF + ((bits >> 16) & 1);
  return static_cast<std::uint16_t>(bits >> 16);
}

float from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

std::vector<float> noise(std::size_t count, std::uint32_t seed) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    // Wang's integer hash.
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u + seed;
    x = (x ^ 61u) ^ (x >> 16);
    x *= 9u;
    x ^= x >> 4;
    x *= 0x27d4eb2du;
    x ^= x >> 15;
    out[i] = static_cast<float>(x >> 8) * (2.0f / 16777216.0f) - 1.0f;
  }
  return out;
}

std::vector<std::uint16_t> bf16_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), to_bf16);
  return out;
}

std::vector<float> float_of(const std::vector<std::uint16_t>& bits) {
  std::vector<float> out(bits.size());
  std::transform(bits.begin(), bits.end(), out.begin(), from_bf16);
  return out;
}

void fill_noise(void* device, std::size_t bytes, std::uint32_t seed) {
  const std::vector<std::uint16_t> block = bf16_of(noise(std::min<std::size_t>(bytes / 2, 1u << 20), seed));
  for (std::size_t at = 0; at < bytes; at += block.size() * 2) {
    CUDA_CHECK(cudaMemcpy(static_cast<char*>(device) + at, block.data(), std::min(block.size() * 2, bytes - at),
                          cudaMemcpyHostToDevice));
  }
  settle();
}

namespace {

struct Event {
  cudaEvent_t handle{};
  Event() { CUDA_CHECK(cudaEventCreate(&handle)); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

struct Graph {
  cudaGraph_t graph{};
  cudaGraphExec_t exec{};
  ~Graph() {
    if (exec) cudaGraphExecDestroy(exec);
    if (graph) cudaGraphDestroy(graph);
  }
};

/// Captures what `launch` launches; a launch that fails does not leave the stream capturing.
void capture(cudaStream_t stream, const Launch& launch, int launches, Graph& graph) {
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    for (int i = 0; i < launches; ++i) launch(stream);
  } catch (...) {
    cudaStreamEndCapture(stream, &graph.graph);
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph.graph));
  CUDA_CHECK(cudaGraphInstantiate(&graph.exec, graph.graph, 0));
}

double milliseconds(const Event& from, const Event& to) {
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, from.handle, to.handle));
  return ms;
}

}  // namespace

double burst_seconds(cudaStream_t stream, const Launch& launch) {
  Event start, end;
  for (int i = 0; i < 2; ++i) launch(stream);  // loads modules, picks kernels
  CUDA_CHECK(cudaEventRecord(start.handle, stream));
  launch(stream);
  CUDA_CHECK(cudaEventRecord(end.handle, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  // About two milliseconds a replay: long against a graph's launch, short against the power limit's reaction.
  const double once = std::max(milliseconds(start, end), 1e-3);
  const int launches = static_cast<int>(std::clamp(2.0 / once, 1.0, 200.0));
  Graph graph;
  capture(stream, launch, launches, graph);
  CUDA_CHECK(cudaGraphLaunch(graph.exec, stream));
  double least = std::numeric_limits<double>::infinity();
  for (int replay = 0; replay < 5; ++replay) {
    CUDA_CHECK(cudaEventRecord(start.handle, stream));
    CUDA_CHECK(cudaGraphLaunch(graph.exec, stream));
    CUDA_CHECK(cudaEventRecord(end.handle, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    least = std::min(least, milliseconds(start, end) / launches);
  }
  return least * 1e-3;
}

double sustained_seconds(cudaStream_t stream, const Launch& launch, double seconds) {
  Event start, end;
  launch(stream);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  CUDA_CHECK(cudaEventRecord(start.handle, stream));
  launch(stream);
  CUDA_CHECK(cudaEventRecord(end.handle, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  // Batches of a tenth of a second: between two of them the GPU waits microseconds for the host.
  const int batch = static_cast<int>(std::clamp(100.0 / std::max(milliseconds(start, end), 1e-3), 1.0, 2000.0));
  std::int64_t counted = 0;
  bool second_half = false;
  while (elapsed() < seconds || counted == 0) {
    if (!second_half && elapsed() >= seconds / 2) {
      second_half = true;
      CUDA_CHECK(cudaEventRecord(start.handle, stream));
    }
    for (int i = 0; i < batch; ++i) launch(stream);
    if (second_half) counted += batch;
    CUDA_CHECK(cudaEventRecord(end.handle, stream));
    CUDA_CHECK(cudaEventSynchronize(end.handle));
  }
  return milliseconds(start, end) * 1e-3 / static_cast<double>(counted);
}

void Row::key(const char* name) { text_ += (text_.empty() ? "\"" : ", \"") + std::string(name) + "\": "; }

Row& Row::add(const char* name, const std::string& text) {
  key(name);
  text_ += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') text_ += '\\';
    text_ += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  text_ += '"';
  return *this;
}

Row& Row::add(const char* name, double value) {
  key(name);
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.6g", value);
  text_ += std::isfinite(value) ? digits : "null";
  return *this;
}

Row& Row::add(const char* name, std::int64_t value) {
  key(name);
  text_ += std::to_string(value);
  return *this;
}

Row& Row::add(const char* name, bool value) {
  key(name);
  text_ += value ? "true" : "false";
  return *this;
}

bool Session::time_left(double seconds, const char* what) {
  if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) return true;
  skipped.push_back(std::string(what) + ": out of time; the rows so far are complete");
  return false;
}

int sm_count() {
  int device = 0;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return properties.multiProcessorCount;
}

void expect_close(const std::string& what, const std::vector<float>& got, const std::vector<float>& want,
                  double absolute, double relative) {
  if (got.size() != want.size())
    throw Mismatch(what + ": " + std::to_string(got.size()) + " values, expected " + std::to_string(want.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double limit = absolute + relative * std::abs(static_cast<double>(want[i]));
    if (!(std::abs(static_cast<double>(got[i]) - want[i]) <= limit)) {
      char text[160];
      std::snprintf(text, sizeof text, ": element %zu is %.7g, the CPU reference says %.7g", i, got[i], want[i]);
      throw Mismatch(what + text);
    }
  }
}

}  // namespace gpu_check
