// Clocks, power and temperature through the driver's NVML, loaded at run time: the toolkit does not always bring its
// header, and a machine without a driver does not have the library.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace gpu_check {

/// Medians over the second half of an interval.
struct Load {
  int samples = 0;
  double sm_mhz = 0, power_w = 0, power_limit_w = 0, celsius = 0;
};

class Nvml {
 public:
  /// The current CUDA device; null where the library or the device can't be reached.
  static std::unique_ptr<Nvml> open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  void start();  ///< samples every 20 ms on a thread of its own
  Load stop();

 private:
  Nvml() = default;
  struct Sample {
    unsigned mhz = 0, milliwatt = 0, celsius = 0;
  };
  Sample sample() const;

  void* library_ = nullptr;
  void* device_ = nullptr;
  int (*shutdown_)() = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*power_)(void*, unsigned*) = nullptr;
  int (*limit_)(void*, unsigned*) = nullptr;
  int (*temperature_)(void*, int, unsigned*) = nullptr;
  std::thread thread_;
  std::atomic<bool> running_{false};
  std::vector<Sample> samples_;
};

}  // namespace gpu_check
