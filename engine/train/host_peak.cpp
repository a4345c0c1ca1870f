#include "engine/train/host_peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/device/cpu/matmul.h"

namespace benchsuite {

double measure_host_peak() {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t n = 384;
  constexpr double flops = 2.0 * n * n * n;
  constexpr auto window = std::chrono::milliseconds(60);
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  double best = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::atomic<unsigned> ready = 0;
    std::vector<double> rates(cores);
    std::vector<std::thread> threads;
    for (unsigned core = 0; core < cores; ++core) {
      threads.emplace_back([&, core] {
        cpu::use_one_thread();
        std::vector<float> a(n * n, 1.0f), b(n * n, 0.5f), c(n * n);
        const auto multiply = [&] { cpu::matmul({n, n, n, 1, 0}, {a.data(), n, false}, {b.data(), n, false}, c.data(), n); };
        multiply();  // what the first call sets up is not its speed
        for (++ready; ready < cores;) std::this_thread::yield();
        const auto start = Clock::now();
        int count = 0;
        while (Clock::now() - start < window) {
          multiply();
          ++count;
        }
        rates[core] = count * flops / std::chrono::duration<double>(Clock::now() - start).count();
      });
    }
    for (std::thread& thread : threads) thread.join();
    double sum = 0;
    for (const double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

}  // namespace benchsuite
