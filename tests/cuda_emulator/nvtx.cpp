#include <nvtx3/nvToolsExt.h>

#include "machine.h"

namespace {

thread_local std::vector<cuda_emulator::Operation> ranges;

}  // namespace

namespace cuda_emulator {

Operation current_range() { return ranges.empty() ? Operation{0, 0, ""} : ranges.back(); }

}  // namespace cuda_emulator

int nvtxRangePushEx(const nvtxEventAttributes_t* attributes) {
  ranges.push_back({0, attributes->payload.ullValue, attributes->message.ascii ? attributes->message.ascii : ""});
  return static_cast<int>(ranges.size()) - 1;
}

int nvtxRangePushA(const char* message) {
  ranges.push_back({0, 0, message});
  return static_cast<int>(ranges.size()) - 1;
}

int nvtxRangePop() {
  if (ranges.empty()) return -1;
  ranges.pop_back();
  return static_cast<int>(ranges.size());
}
