// One rank of device cpu: the memory of its Program and a cooperative executor.
//
// The executor runs on the calling thread. It takes the head op of any stream whose waits are met, communication
// streams first so that peers never wait for a collective that could be posted; it sleeps only when no op can go on.
// The order in which ready ops run has no influence on results: a sound Program orders all that touch the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/device/cpu/kernel_call.h"
#include "engine/device/step_rank.h"
#include "engine/program/timeline.h"

namespace benchsuite {

/// A check of lifetimes: fills buffers of activations and communication with NaN (all bits set) when they come to life
/// and when they die, so that a read of bytes never written, or after their free, shows in the results.
enum class Poison : std::uint8_t { off, on };

class CpuRank final : public StepRank {
 public:
  /// Allocates the arenas, zeroed. The Program must outlive the rank. Throws on operands outside their buffers and on
  /// buffers outside their arenas.
  explicit CpuRank(const Program& program, Poison poison = Poison::off);

  const Program& program() const override { return program_; }

  std::span<std::byte> bytes(const Operand& operand) override;
  std::span<std::byte> bytes(BufferId buffer);
  float* data(const Tensor& tensor) { return view<float>(tensor).data(); }
  float* data(const Operand& operand) { return reinterpret_cast<float*>(bytes(operand).data()); }

  /// Also throws Error (run) on deadlock.
  void run_step(Communicator& world) override;

  /// Real time of the last step; the origin is when the first rank began it. A compute op's `ready` is its start.
  const Timeline& timeline() const { return timeline_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Stream {
    std::vector<OpId> ops;
    std::size_t next = 0;
    Communicator::Ticket ticket;  // of the head op, once posted
  };
  /// Which buffers an op brings to life or lets die, for Poison.
  struct Lifetime {
    std::uint32_t touches = 0;  // by ops recorded between alloc and free
    std::uint32_t begun = 0, ended = 0;
  };

  bool advance(StreamKind kind, Communicator& world);
  bool waits_met(const Op& op) const;
  void compute(OpId id);
  void post(OpId id, Stream& stream, Communicator& world);
  void finish(OpId id, Stream& stream);
  void begin_touch(OpId id);
  void end_touch(OpId id);
  template <class Body>
  void for_each_mortal_buffer(OpId id, Body body);
  void poison(BufferId buffer);
  std::string describe(OpId id) const;
  std::string what_it_waits_for(const Communicator& world) const;
  Picoseconds since_start(Communicator::Clock::time_point time) const;

  const Program& program_;
  const Poison poison_;
  std::vector<std::unique_ptr<std::byte, Free>> arenas_;  // by purpose
  std::vector<std::span<std::byte>> operands_;            // by operand of the Program
  std::vector<Stream> streams_;                           // by StreamKind
  std::vector<Communicator::GroupId> groups_;              // by group of the Program, in the world of this step
  std::vector<std::uint8_t> done_;                        // by op
  std::vector<Lifetime> lifetimes_;                       // by buffer
  cpu::Staging staging_;
  Communicator::Clock::time_point step_start_;
  Timeline timeline_;
};

/// Device cpu.
class CpuDevice final : public StepDevice {
 public:
  std::unique_ptr<StepRank> make_rank(const Program& program) override { return std::make_unique<CpuRank>(program); }
  void end(const std::string&) override {}  // peers meet in the world, which knows
};

}  // namespace benchsuite
