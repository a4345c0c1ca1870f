#include "engine/device/cuda/host_mirror.h"

#include <cstring>

namespace benchsuite::cuda {

namespace {

bool host_writes(Purpose purpose) {
  return purpose == Purpose::inputs || purpose == Purpose::parameters || purpose == Purpose::master || purpose == Purpose::moments;
}

}  // namespace

HostMirror::HostMirror(std::array<std::span<std::byte>, kPurposes> arenas) {
  for (std::size_t i = 0; i < copies_.size(); ++i) copies_[i].device = arenas[i];
  for (const Purpose purpose : {Purpose::inputs, Purpose::outputs}) {
    Copy& copy = copies_[static_cast<std::size_t>(purpose)];
    if (copy.device.empty()) continue;
    copy.pinned = make_pinned_memory(copy.device.size());
    std::memset(copy.pinned.get(), 0, copy.device.size());
  }
  copies_[static_cast<std::size_t>(Purpose::inputs)].state = State::maybe_written;  // the host's from the start
}

std::span<std::byte> HostMirror::host(Copy& copy) const {
  if (copy.pinned) return {static_cast<std::byte*>(copy.pinned.get()), copy.device.size()};
  copy.pageable.resize(copy.device.size());
  return copy.pageable;
}

std::span<std::byte> HostMirror::arena(Purpose purpose, cudaStream_t stream) {
  Copy& copy = copies_[static_cast<std::size_t>(purpose)];
  const std::span<std::byte> memory = host(copy);
  if (copy.state == State::stale && !memory.empty()) {
    CUDA_CHECK(cudaMemcpyAsync(memory.data(), copy.device.data(), memory.size(), cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    copy.state = State::equal;
  }
  if (host_writes(purpose)) copy.state = State::maybe_written;
  return memory;
}

void HostMirror::upload(cudaStream_t stream) {
  for (Copy& copy : copies_) {
    if (copy.state != State::maybe_written || copy.device.empty()) continue;
    CUDA_CHECK(cudaMemcpyAsync(copy.device.data(), host(copy).data(), copy.device.size(), cudaMemcpyHostToDevice, stream));
  }
}

void HostMirror::download_outputs(cudaStream_t stream) {
  Copy& outputs = copies_[static_cast<std::size_t>(Purpose::outputs)];
  if (outputs.device.empty()) return;
  CUDA_CHECK(cudaMemcpyAsync(host(outputs).data(), outputs.device.data(), outputs.device.size(), cudaMemcpyDeviceToHost, stream));
}

void HostMirror::step_ended() {
  for (Copy& copy : copies_) copy.state = State::stale;
  copies_[static_cast<std::size_t>(Purpose::outputs)].state = State::equal;
  copies_[static_cast<std::size_t>(Purpose::inputs)].state = State::maybe_written;
}

}  // namespace benchsuite::cuda
