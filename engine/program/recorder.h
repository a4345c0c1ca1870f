// Records a Program: allocates buffers, appends ops, and derives every wait.
//
// The recorder knows the last writer and the readers of each buffer, and the last uses of each freed range. An op waits for
// the writers of what it reads and for all users of what it overwrites, unless its stream is already ordered after them.
// So a layer never names an event: to overlap is to put an op on another stream, to wait is to use its result.
//
// One more rule, the one of every CUDA training software: a communication op is issued after the compute recorded before it,
// so it waits for the compute stream's last op.
//
//   Recorder rec(rank, names_of_terms);
//   rec.at() = {.phase = Phase::forward, .site = Site::mlp, .micro_batch = 0, .layer = 3};
//   Tensor y = rec.allocate(Purpose::activations, term, DType::bf16, {1, s, b, f});
//   rec.record({.kind = OpKind::gemm, ...}, {reads(x), reads(w), writes(y)});
//   rec.release(x);
//
// launch_together() says which ops the host issues by one call: a captured graph, or a product whose library tiles it.
// wait_on_host() says where the host stops until the device has come so far. It orders nothing by itself: it stands before an
// op that everything recorded later is ordered after, as it is after any compute op by the rule above. So it cannot deadlock
// where the Program does not, and devices that launch without waits between ops (a captured graph) pass it over.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "engine/program/arena.h"
#include "engine/program/program.h"
#include "engine/program/tensor.h"

namespace benchsuite {

/// What the ops recorded from now on belong to.
struct OpContext {
  Phase phase = Phase::forward;
  Site site = Site::attention;
  std::int32_t micro_batch = -1;
  std::int16_t layer = -1;
  std::int16_t chunk = -1;
};

/// What a Program keeps of its ops. Everything else is the same in both.
enum class RecordedDetail : std::uint8_t {
  whole,
  without_operands,  ///< enough for timing and memory; half the size. Such a Program can be neither verified nor run
};

/// What a Program of some size needs.
struct ProgramSizes {
  std::size_t ops = 0, operands = 0, waits = 0, buffers = 0;

  static ProgramSizes of(const Program& program) {
    return {program.ops.size(), program.operands.size(), program.waits.size(), program.buffers.size()};
  }
};

class Recorder {
 public:
  /// `terms`: the names a buffer's term index stands for. `like`: sizes of about such a Program, which are reserved.
  Recorder(int rank, std::vector<std::string> terms, RecordedDetail detail = RecordedDetail::whole,
           const ProgramSizes& like = {});

  /// Index of `group` in the Program; the same group twice gives the same index.
  std::uint32_t add_group(const Group& group);

  /// A new buffer. Activations, communication and workspace must be released before the step ends; the rest is permanent.
  Tensor allocate(Purpose purpose, std::uint32_t term, DType dtype, std::array<std::int64_t, 4> shape) {
    return allocate_in_parts(purpose, term, dtype, shape, 1);
  }
  /// The same, where ops use equal parts of the buffer apart from each other: waits are derived for each part by itself.
  Tensor allocate_in_parts(Purpose purpose, std::uint32_t term, DType dtype, std::array<std::int64_t, 4> shape,
                           std::uint32_t parts);
  void release(const Tensor& tensor);
  /// From here on the tensor's whole buffer is kept only for the backward pass, and goes by the name `term`.
  void mark_saved(const Tensor& tensor, std::uint32_t term);

  OpContext& at() { return context_; }

  /// The ops recorded until the guard goes are issued by one call of the host (Op::joins_launch). Guards nest: the outer counts.
  class LaunchGuard {
   public:
    explicit LaunchGuard(Recorder* recorder) : recorder_(recorder) {}
    LaunchGuard(const LaunchGuard&) = delete;
    LaunchGuard& operator=(const LaunchGuard&) = delete;
    ~LaunchGuard() { end(); }
    void end() {
      if (recorder_ && --recorder_->launch_depth_ == 0) recorder_->launch_begun_ = false;
      recorder_ = nullptr;
    }

   private:
    Recorder* recorder_;
  };
  LaunchGuard launch_together(bool together = true) {
    if (together) ++launch_depth_;
    return LaunchGuard(together ? this : nullptr);
  }

  /// Appends an op on the compute stream.
  OpId record(const OpShape& shape, std::initializer_list<Operand> operands) {
    return append(StreamKind::compute, kNone, shape, {operands.begin(), operands.size()});
  }
  OpId record(const OpShape& shape, std::span<const Operand> operands) {
    return append(StreamKind::compute, kNone, shape, operands);
  }
  /// Appends a communication op of `group` on `stream`, after the compute recorded so far.
  OpId communicate(StreamKind stream, std::uint32_t group, const OpShape& shape, std::initializer_list<Operand> operands);

  /// The host issues the next op of `stream` only when what that op waits for has ended (Op::host_waits).
  void wait_on_host(StreamKind stream) { host_waits_[static_cast<std::size_t>(stream)] = true; }

  /// The next op on `after` waits for everything recorded so far on `before`.
  void order(StreamKind before, StreamKind after);

  /// Ends the recording. Throws when something that must be released was not.
  Program finish();

 private:
  /// What is known of a part of a live buffer. The slots of released buffers are used again: a long step keeps few.
  struct PartState {
    std::uint64_t part_bytes = 0;
    std::uint32_t parts = 1;      // of the buffer
    std::uint32_t writer = 0;     // one more than the op id, 0: none
    StreamKind writer_stream{};
    LastUses readers{};           // since the last write, or uses of the range before the buffer
  };
  struct BufferState {
    Arena::BlockId block = kNone;
    std::uint32_t first_part = 0;
  };
  OpId append(StreamKind stream, std::uint32_t group, const OpShape& shape, std::span<const Operand> operands);
  std::uint32_t intern(const OpShape& shape);
  /// The parts that an operand touches.
  std::span<PartState> parts_of(const Operand& operand);

  Program program_;
  OpContext context_;
  std::array<Arena, kPurposes> arenas_;
  std::vector<BufferState> states_;                                     // by buffer
  std::vector<PartState> parts_;
  std::vector<std::uint32_t> spare_parts_;                              // slots of released buffers of one part
  bool keeps_operands_;
  std::array<std::uint32_t, kStreams> tail_{};                          // last op of each stream, plus one
  std::array<std::array<std::uint32_t, kStreams>, kStreams> known_{};   // known_[s][t]: ops of t that s is ordered after
  std::array<LastUses, kStreams> pending_{};                            // waits the next op of s must take
  std::vector<std::uint32_t> group_sequences_;
  std::array<bool, kStreams> host_waits_{};                             // before the next op of s
  int launch_depth_ = 0;
  bool launch_begun_ = false;  // an op of the launch is recorded
  std::vector<std::uint32_t> shape_table_;                              // open addressing, index + 1
};

}  // namespace benchsuite
