#include "engine/device/cuda/cuda_rank.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>

#include "engine/core/error.h"

namespace benchsuite::cuda {

namespace {

constexpr std::size_t kAlignment = 512;  // bytes, of arenas and workspaces

bool outlives_a_step(Purpose purpose) {
  return purpose != Purpose::activations && purpose != Purpose::communication && purpose != Purpose::workspace;
}

/// An NVTX range of the host thread: named as the span in a trace, with the op's id.
class Range {
 public:
  Range(std::string_view name, std::uint64_t id) : text_(name) {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = id;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = text_.c_str();
    nvtxRangePushEx(&attributes);
  }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  std::string text_;
};

}  // namespace

CudaRank::CudaRank(const Program& program, GemmAlgorithms& algorithms, const Options& options)
    : program_(program), options_(options), compute_(algorithms, options.gemm_workspace, options.say) {
  lay_out_memory();
  std::array<bool, kStreams> used{};
  used[static_cast<std::size_t>(StreamKind::compute)] = true;
  for (const Op& op : program.ops) used[static_cast<std::size_t>(op.stream)] = true;
  for (std::size_t kind = 0; kind < streams_.size(); ++kind) {
    if (!used[kind]) continue;
    // What other ranks wait for goes first.
    streams_[kind] = make_stream(static_cast<StreamKind>(kind) != StreamKind::compute);
    ends_[kind] = make_event(Timing::off);
  }
  const Timing timing = options.spans ? Timing::on : Timing::off;
  fork_ = make_event(Timing::off);
  step_start_ = make_event(timing);
  step_end_ = make_event(timing);
  done_.resize(program.ops.size());
  for (const Op& op : program.ops) {
    for (const OpId wait : program.waits_of(op)) {
      if (program.ops[wait].stream != op.stream && !done_[wait]) done_[wait] = make_event(Timing::off);
    }
  }
  if (options.spans) {
    for (std::size_t id = 0; id < program.ops.size(); ++id) times_.push_back({make_event(timing), make_event(timing)});
  }
  prepare_products();
  for (int purpose = 0; purpose < kPurposes; ++purpose) {
    const std::span<std::byte> whole = arenas_[static_cast<std::size_t>(purpose)];
    if (whole.empty() || !outlives_a_step(static_cast<Purpose>(purpose))) continue;
    CUDA_CHECK(cudaMemsetAsync(whole.data(), 0, whole.size(), compute_stream()));
  }
  CUDA_CHECK(cudaStreamSynchronize(compute_stream()));
  host_.emplace(arenas_);
}

void CudaRank::lay_out_memory() {
  std::array<std::size_t, kStreams> workspace{};
  for (const Op& op : program_.ops) {
    std::size_t& most = workspace[static_cast<std::size_t>(op.stream)];
    most = std::max<std::size_t>(most, compute_.workspace(program_.shape_of(op)));
  }
  std::size_t total = 0;
  std::array<std::size_t, kPurposes> arena_at{};
  std::array<std::size_t, kStreams> workspace_at{};
  const auto place = [&](std::size_t bytes) { return std::exchange(total, total + round_up(bytes, kAlignment)); };
  for (std::size_t i = 0; i < arena_at.size(); ++i) arena_at[i] = place(program_.arena_bytes[i]);
  for (std::size_t i = 0; i < workspace_at.size(); ++i) workspace_at[i] = place(workspace[i]);
  pool_ = make_device_memory(std::max<std::size_t>(total, 1));
  auto* const base = static_cast<std::byte*>(pool_.get());
  whole_ = {base, total};
  for (std::size_t i = 0; i < arena_at.size(); ++i) arenas_[i] = {base + arena_at[i], program_.arena_bytes[i]};
  for (std::size_t i = 0; i < workspace_at.size(); ++i) workspaces_[i] = {base + workspace_at[i], workspace[i]};

  for (const Operand& operand : program_.operands) {
    CHECK(operand.buffer < program_.buffers.size()) << "rank " << rank() << " has no buffer " << operand.buffer;
    const Buffer& buffer = program_.buffers[operand.buffer];
    const std::span<std::byte> arena = arenas_[static_cast<std::size_t>(buffer.purpose)];
    CHECK(buffer.offset <= arena.size() && buffer.bytes <= arena.size() - buffer.offset)
        << "rank " << rank() << ": a buffer at " << buffer.offset << " of " << buffer.bytes << " bytes lies outside the "
        << name_of(buffer.purpose) << " arena of " << arena.size();
    CHECK(operand.offset <= buffer.bytes && operand.bytes <= buffer.bytes - operand.offset)
        << "rank " << rank() << ": bytes [" << operand.offset << ", " << operand.offset + operand.bytes << ") of buffer "
        << operand.buffer << " of " << buffer.bytes << " bytes";
    operands_.push_back(arena.subspan(buffer.offset + operand.offset, operand.bytes));
  }
}

KernelCall CudaRank::call_of(OpId id) const {
  const Op& op = program_.ops[id];
  return {program_.shape_of(op), {operands_.data() + op.first_operand, op.operand_count}, op.layer,
          workspaces_[static_cast<std::size_t>(op.stream)], stream(op.stream)};
}

void CudaRank::prepare_products() {
  // Ops of one shape may lie at other alignments: who has been seen is the products' own business.
  for (OpId id = 0; id < program_.ops.size(); ++id) {
    if (is_communication(program_.ops[id].kind)) continue;
    try {
      compute_.prepare(call_of(id));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("rank {}, {}: {}", rank(), describe(id), error.what()));
    }
  }
}

std::span<std::byte> CudaRank::bytes(const Operand& operand) {
  CHECK(operand.buffer < program_.buffers.size()) << "rank " << rank() << " has no buffer " << operand.buffer;
  const Buffer& buffer = program_.buffers[operand.buffer];
  CHECK(operand.offset <= buffer.bytes && operand.bytes <= buffer.bytes - operand.offset)
      << "rank " << rank() << ": bytes [" << operand.offset << ", " << operand.offset + operand.bytes << ") of buffer "
      << operand.buffer << " of " << buffer.bytes << " bytes";
  return host_->arena(buffer.purpose, compute_stream()).subspan(buffer.offset + operand.offset, operand.bytes);
}

void CudaRank::connect(NcclWorld& world) {
  const DeviceMemory scratch = make_device_memory(NcclWorld::scratch_bytes(program_.groups));
  world.connect(rank(), program_.groups, {static_cast<std::byte*>(scratch.get()), NcclWorld::scratch_bytes(program_.groups)},
                compute_stream());
}

void CudaRank::start_step(NcclWorld& world) {
  const cudaStream_t compute = compute_stream();
  host_->upload(compute);
  CUDA_CHECK(cudaEventRecord(step_start_.get(), compute));
  if (!options_.graph || steps_ == 0) {
    queue_step(world);
  } else {
    if (!graph_) {
      CUDA_CHECK(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
      capturing_ = true;
      queue_step(world);
      capturing_ = false;
      cudaGraph_t captured = nullptr;
      CUDA_CHECK(cudaStreamEndCapture(compute, &captured));
      const Graph graph(captured);
      cudaGraphExec_t exec = nullptr;
      CUDA_CHECK(cudaGraphInstantiate(&exec, graph.get(), 0));
      graph_ = GraphExec(exec);
    }
    CUDA_CHECK(cudaGraphLaunch(graph_.get(), compute));
  }
  host_->download_outputs(compute);
  CUDA_CHECK(cudaEventRecord(step_end_.get(), compute));
  ++steps_;
}

void CudaRank::queue_step(NcclWorld& world) {
  CUDA_CHECK(cudaEventRecord(fork_.get(), compute_stream()));
  for (std::size_t kind = 1; kind < streams_.size(); ++kind) {
    if (streams_[kind]) CUDA_CHECK(cudaStreamWaitEvent(streams_[kind].get(), fork_.get(), 0));
  }
  for (OpId id = 0; id < program_.ops.size(); ++id) {
    try {
      queue_op(id, world);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("rank {}, {}: {}", rank(), describe(id), error.what()));
    }
  }
  for (std::size_t kind = 1; kind < streams_.size(); ++kind) {
    if (!streams_[kind]) continue;
    CUDA_CHECK(cudaEventRecord(ends_[kind].get(), streams_[kind].get()));
    CUDA_CHECK(cudaStreamWaitEvent(compute_stream(), ends_[kind].get(), 0));
  }
}

void CudaRank::queue_op(OpId id, NcclWorld& world) {
  const Op& op = program_.ops[id];
  const Range range(name_of(op.kind), id);
  const cudaStream_t on = stream(op.stream);
  for (const OpId wait : program_.waits_of(op)) {
    if (program_.ops[wait].stream != op.stream) CUDA_CHECK(cudaStreamWaitEvent(on, done_[wait].get(), 0));
  }
  if (options_.spans) mark(times_[id].start, on);
  if (is_communication(op.kind)) {
    world.launch(rank(), op.group, collective_of(id), on);
  } else {
    compute_.run(call_of(id));
  }
  if (options_.spans) mark(times_[id].end, on);
  if (done_[id]) CUDA_CHECK(cudaEventRecord(done_[id].get(), on));
}

void CudaRank::mark(const Event& event, cudaStream_t stream) const {
  // Inside a capture an event only orders; one that is to be read afterwards is a node of its own.
  CUDA_CHECK(cudaEventRecordWithFlags(event.get(), stream, capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault));
}

CollectiveCall CudaRank::collective_of(OpId id) const {
  const Op& op = program_.ops[id];
  const OpShape& shape = program_.shape_of(op);
  CHECK(op.group < program_.groups.size()) << "a communication op without a group";
  const KernelCall call = call_of(id);
  const auto members = static_cast<std::int64_t>(program_.groups[op.group].ranks.size());
  const std::int64_t elements = shape.dims[0];
  const auto part = [&](std::size_t index, std::int64_t count) {
    CHECK(call.bytes(index) == static_cast<std::uint64_t>(count * size_of(shape.dtype)))
        << name_of(op.kind) << " operand " << index << " has " << call.bytes(index) << " bytes, not " << count << " x "
        << name_of(shape.dtype);
    return call.operands[index].data();
  };
  CollectiveCall out{.kind = op.kind, .dtype = shape.dtype, .reduction = shape.reduction, .elements = elements, .op = id};
  switch (op.kind) {
    case OpKind::all_gather:
      out.input = part(0, div_exact(elements, members));
      out.output = part(1, elements);
      break;
    case OpKind::reduce_scatter:
      out.input = part(0, elements);
      out.output = part(1, div_exact(elements, members));
      out.reduction = Reduction::sum;  // the op table's only one
      break;
    case OpKind::shift:
      out.input = part(0, elements);
      out.output = part(1, elements);
      out.distance = shape.dims[1];
      break;
    case OpKind::all_reduce: out.input = out.output = part(0, elements); break;
    case OpKind::send: out.input = part(0, elements); break;
    default: out.output = part(0, elements); break;
  }
  return out;
}

void CudaRank::finish_step(NcclWorld& world) {
  CUDA_CHECK(cudaEventSynchronize(step_end_.get()));
  world.check(rank());
  host_->step_ended();
  if (options_.spans) read_spans();
}

void CudaRank::read_spans() {
  const auto since_start = [&](const Event& event) {
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, step_start_.get(), event.get()));
    return static_cast<Picoseconds>(static_cast<double>(milliseconds) * 1e9);
  };
  timeline_.spans.assign(program_.ops.size(), Span{});
  for (OpId id = 0; id < program_.ops.size(); ++id) {
    Span& span = timeline_.spans[id];
    span.ready = span.start = since_start(times_[id].start);
    span.end = since_start(times_[id].end);
  }
  timeline_.end = since_start(step_end_);
}

std::string CudaRank::describe(OpId id) const {
  const Op& op = program_.ops[id];
  std::string text = fmt::format("op {} {} ({}, {}", id, name_of(op.kind), name_of(op.phase), name_of(op.site));
  if (op.layer >= 0) text += fmt::format(", layer {}", op.layer);
  if (op.micro_batch >= 0) text += fmt::format(", micro-batch {}", op.micro_batch);
  return text + ")";
}

}  // namespace benchsuite::cuda
