// What launching costs: the GPU's time between kernels, and the host's time for each kind of call, eager and in a
// graph.
#include <algorithm>
#include <chrono>

#include "check.h"

namespace gpu_check {

namespace {

__global__ void nothing() {}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void add_row(Session& session, const std::string& what, double seconds, int calls) {
  Row row = session.row();
  row.add("what", what).add("us", seconds / calls * 1e6).add("calls", calls).add("source", "gpu_check");
  session.rows.push_back(row);
}

/// Host seconds of `calls` calls while the queue has room (each batch is short against its depth of about a thousand).
template <class F>
double host_seconds(cudaStream_t stream, int calls, const F& call) {
  double sum = 0;
  for (int done = 0; done < calls;) {
    const int batch = std::min(256, calls - done);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) call();
    sum += seconds_since(begin);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    done += batch;
  }
  return sum;
}

}  // namespace

void measure_launches(Session& session) {
  constexpr int kCalls = 8192;
  cudaStream_t stream = session.stream;
  const auto empty = [&] { launch(nothing, 1, 32, stream); };
  for (int i = 0; i < 100; ++i) empty();
  CUDA_CHECK(cudaStreamSynchronize(stream));

  add_row(session, "host: eager kernel launch", host_seconds(stream, kCalls, empty), kCalls);
  Buffer<char> from(4096), to(4096);
  add_row(
      session, "host: cudaMemcpyAsync on the device",
      host_seconds(stream, kCalls,
                   [&] { CUDA_CHECK(cudaMemcpyAsync(to.get(), from.get(), 4096, cudaMemcpyDeviceToDevice, stream)); }),
      kCalls);
  cudaEvent_t event{};
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  cudaStream_t other{};
  CUDA_CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  add_row(session, "host: event record and wait on another stream",
          host_seconds(stream, kCalls,
                       [&] {
                         CUDA_CHECK(cudaEventRecord(event, stream));
                         CUDA_CHECK(cudaStreamWaitEvent(other, event, 0));
                       }),
          kCalls);
  CUDA_CHECK(cudaStreamSynchronize(other));
  CUDA_CHECK(cudaStreamDestroy(other));
  CUDA_CHECK(cudaEventDestroy(event));

  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) empty();
  CUDA_CHECK(cudaStreamSynchronize(stream));
  add_row(session, "end to end: empty kernels one behind the other, eager", seconds_since(begin), kCalls);

  begin = std::chrono::steady_clock::now();
  constexpr int kSynchronised = 500;
  for (int i = 0; i < kSynchronised; ++i) {
    empty();
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  add_row(session, "end to end: one empty kernel and its synchronisation", seconds_since(begin), kSynchronised);

  constexpr int kNodes = 1000, kReplays = 20;
  cudaGraph_t graph{};
  cudaGraphExec_t exec{};
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kNodes; ++i) empty();
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_CHECK(cudaGraphLaunch(exec, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  double host = 0;
  begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kReplays; ++i) {
    const auto one = std::chrono::steady_clock::now();
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
    host += seconds_since(one);
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  add_row(session, "end to end: empty kernels one behind the other, in a graph", seconds_since(begin),
          kNodes * kReplays);
  add_row(session, "host: launch of a graph, for each of its 1000 kernels", host, kNodes * kReplays);
  CUDA_CHECK(cudaGraphExecDestroy(exec));
  CUDA_CHECK(cudaGraphDestroy(graph));
}

}  // namespace gpu_check
