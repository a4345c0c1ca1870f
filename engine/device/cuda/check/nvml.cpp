#include "nvml.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>

namespace gpu_check {

namespace {

constexpr int kClockSm = 1, kTemperatureGpu = 0;  // nvmlClockType_t, nvmlTemperatureSensors_t

template <class F>
bool find(void* library, const char* name, F& out) {
  out = reinterpret_cast<F>(dlsym(library, name));
  return out != nullptr;
}

double median(std::vector<unsigned> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::unique_ptr<Nvml> Nvml::open() {
  std::unique_ptr<Nvml> nvml(new Nvml);
  nvml->library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!nvml->library_) return nullptr;
  int (*init)() = nullptr;
  int (*by_bus)(const char*, void**) = nullptr;
  if (!find(nvml->library_, "nvmlInit_v2", init) || !find(nvml->library_, "nvmlDeviceGetHandleByPciBusId_v2", by_bus) ||
      !find(nvml->library_, "nvmlDeviceGetClockInfo", nvml->clock_) ||
      !find(nvml->library_, "nvmlDeviceGetPowerUsage", nvml->power_) ||
      !find(nvml->library_, "nvmlDeviceGetEnforcedPowerLimit", nvml->limit_) ||
      !find(nvml->library_, "nvmlDeviceGetTemperature", nvml->temperature_) || init() != 0)
    return nullptr;
  find(nvml->library_, "nvmlShutdown", nvml->shutdown_);
  int device = 0;
  char bus[32] = {};
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess ||
      by_bus(bus, &nvml->device_) != 0)
    return nullptr;
  return nvml;
}

Nvml::~Nvml() {
  running_ = false;
  if (thread_.joinable()) thread_.join();
  if (shutdown_) shutdown_();
  if (library_) dlclose(library_);
}

Nvml::Sample Nvml::sample() const {
  Sample out;
  clock_(device_, kClockSm, &out.mhz);
  power_(device_, &out.milliwatt);
  temperature_(device_, kTemperatureGpu, &out.celsius);
  return out;
}

void Nvml::start() {
  samples_.clear();
  running_ = true;
  thread_ = std::thread([this] {
    while (running_) {
      samples_.push_back(sample());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
}

Load Nvml::stop() {
  running_ = false;
  thread_.join();
  std::vector<unsigned> mhz, milliwatt, celsius;
  for (std::size_t i = samples_.size() / 2; i < samples_.size(); ++i) {
    mhz.push_back(samples_[i].mhz);
    milliwatt.push_back(samples_[i].milliwatt);
    celsius.push_back(samples_[i].celsius);
  }
  unsigned limit = 0;
  limit_(device_, &limit);
  return {static_cast<int>(mhz.size()), median(mhz), median(milliwatt) / 1000, limit / 1000.0, median(celsius)};
}

}  // namespace gpu_check
