// Fused attention forward and backward through cuDNN's C graph API (one operation each). Without cuDNN, or where its
// version or this GPU does not take the operation, the section says why it has no rows.
#include <algorithm>
#include <cmath>
#include <memory>

#include "check.h"

#if __has_include(<cudnn.h>) && !defined(GPU_CHECK_NO_CUDNN)
#include <cudnn.h>
#if CUDNN_VERSION >= 91900
#define GPU_CHECK_HAS_SDPA 1
#endif
#endif

namespace gpu_check {

#ifdef GPU_CHECK_HAS_SDPA

namespace {

/// One descriptor of the graph API.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { STATUS_CHECK(cudnnBackendCreateDescriptor(type, &handle_)); }
  ~Descriptor() { cudnnBackendDestroyDescriptor(handle_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* value) {
    const cudnnStatus_t status = cudnnBackendSetAttribute(handle_, name, type, count, value);
    if (status != CUDNN_STATUS_SUCCESS)
      throw Failure("attribute " + std::to_string(static_cast<int>(name)) + ": " + cudnnGetErrorString(status));
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_);
  }
  void finalize(const char* what) {
    const cudnnStatus_t status = cudnnBackendFinalize(handle_);
    if (status == CUDNN_STATUS_SUCCESS) return;
    char detail[512] = {};
    cudnnGetLastErrorString(detail, sizeof detail);
    throw Failure(std::string(what) + ": " + cudnnGetErrorString(status) + " " + detail);
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_{};
};

struct Shape {
  std::int64_t batch, heads, seq, head_dim;
  std::size_t elements() const { return static_cast<std::size_t>(batch * heads * seq * head_dim); }
  double forward_flops() const {
    return 4.0 * static_cast<double>(batch * heads) * static_cast<double>(seq) * static_cast<double>(seq * head_dim);
  }
};

/// Tensors are [batch, heads, seq, d], densely in that order.
enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kStats, kScale, kDo, kDq, kDk, kDv };

std::unique_ptr<Descriptor> tensor(Uid uid, cudnnDataType_t type, const std::vector<std::int64_t>& dims,
                                   bool by_value = false) {
  auto out = std::make_unique<Descriptor>(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  const std::int64_t id = uid, alignment = 16;
  out->set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  out->set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  out->set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(dims.size()), dims.data());
  out->set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, static_cast<std::int64_t>(strides.size()), strides.data());
  out->set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  if (by_value) out->set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  out->finalize("tensor");
  return out;
}

/// One pass as an executable plan.
class Pass {
 public:
  Pass(cudnnHandle_t handle, const Shape& shape, bool backward) : handle_(handle) {
    const std::vector<std::int64_t> full = {shape.batch, shape.heads, shape.seq, shape.head_dim};
    const std::vector<std::int64_t> row = {shape.batch, shape.heads, shape.seq, 1};
    Descriptor operation(backward ? CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR
                                  : CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    std::vector<std::unique_ptr<Descriptor>> tensors;
    const auto add = [&](cudnnBackendAttributeName_t forward_name, cudnnBackendAttributeName_t backward_name, Uid uid,
                         cudnnDataType_t type, const std::vector<std::int64_t>& dims, bool by_value = false) {
      tensors.push_back(tensor(uid, type, dims, by_value));
      operation.set(backward ? backward_name : forward_name, *tensors.back());
    };
    add(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, kQ, CUDNN_DATA_BFLOAT16, full);
    add(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, kK, CUDNN_DATA_BFLOAT16, full);
    add(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, kV, CUDNN_DATA_BFLOAT16, full);
    add(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, kO, CUDNN_DATA_BFLOAT16, full);
    add(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, kStats, CUDNN_DATA_FLOAT,
        row);
    add(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC, kScale, CUDNN_DATA_FLOAT,
        {1, 1, 1, 1}, true);
    if (backward) {
      const auto gradient = [&](cudnnBackendAttributeName_t name, Uid uid) {
        add(name, name, uid, CUDNN_DATA_BFLOAT16, full);
      };
      gradient(CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, kDo);
      gradient(CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, kDq);
      gradient(CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, kDk);
      gradient(CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, kDv);
    }
    operation.finalize("attention operation");
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    graph.finalize("attention graph");
    choose_plan(graph);
  }

  void run(const std::vector<std::pair<Uid, void*>>& pointers, cudaStream_t stream) const {
    STATUS_CHECK(cudnnSetStream(handle_, stream));
    std::vector<std::int64_t> uids;
    std::vector<void*> data;
    for (const auto& [uid, pointer] : pointers) {
      uids.push_back(uid);
      data.push_back(pointer);
    }
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    void* workspace = workspace_->get();
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(uids.size()), uids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(data.size()),
             data.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    pack.finalize("variant pack");
    STATUS_CHECK(cudnnBackendExecute(handle_, plan_->get(), pack.get()));
  }

 private:
  /// The first configuration of the heuristic that this GPU can run.
  void choose_plan(const Descriptor& graph) {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    heuristic.finalize("heuristic");
    std::string why = "cuDNN has no engine for this attention";
    constexpr int kConfigs = 8;
    std::vector<std::unique_ptr<Descriptor>> configs;
    std::vector<cudnnBackendDescriptor_t> handles;
    for (int i = 0; i < kConfigs; ++i) {
      configs.push_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      handles.push_back(configs.back()->get());
    }
    std::int64_t found = 0;
    STATUS_CHECK(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          kConfigs, &found, handles.data()));
    for (std::int64_t i = 0; i < found; ++i) {
      try {
        auto plan = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
        plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configs[static_cast<std::size_t>(i)]);
        plan->finalize("execution plan");
        std::int64_t bytes = 0, count = 0;
        STATUS_CHECK(cudnnBackendGetAttribute(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                              1, &count, &bytes));
        workspace_ = std::make_unique<Buffer<char>>(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16)));
        plan_ = std::move(plan);
        return;
      } catch (const Failure& failure) {
        why = failure.what();
      }
    }
    throw Failure(why);
  }

  cudnnHandle_t handle_;
  std::unique_ptr<Descriptor> plan_;
  std::unique_ptr<Buffer<char>> workspace_;
};

struct Operands {
  explicit Operands(const Shape& shape)
      : q(shape.elements()),
        k(shape.elements()),
        v(shape.elements()),
        o(shape.elements()),
        d_o(shape.elements()),
        dq(shape.elements()),
        dk(shape.elements()),
        dv(shape.elements()),
        stats(shape.elements() / static_cast<std::size_t>(shape.head_dim)),
        scale(1.0f / std::sqrt(static_cast<float>(shape.head_dim))) {
    fill_noise(q.get(), 2 * q.size(), 41);
    fill_noise(k.get(), 2 * k.size(), 42);
    fill_noise(v.get(), 2 * v.size(), 43);
    fill_noise(d_o.get(), 2 * d_o.size(), 44);
    o.zero();
    stats.zero();
  }
  std::vector<std::pair<Uid, void*>> forward() {
    return {{kQ, q.get()}, {kK, k.get()}, {kV, v.get()}, {kO, o.get()}, {kStats, stats.get()}, {kScale, &scale}};
  }
  std::vector<std::pair<Uid, void*>> backward() {
    auto out = forward();
    out.insert(out.end(), {{kDo, d_o.get()}, {kDq, dq.get()}, {kDk, dk.get()}, {kDv, dv.get()}});
    return out;
  }
  Buffer<std::uint16_t> q, k, v, o, d_o, dq, dk, dv;
  Buffer<float> stats;
  float scale;
};

void check_against_cpu(cudnnHandle_t handle, cudaStream_t stream) {
  const Shape shape{1, 2, 128, 64};
  Operands x(shape);
  Pass(handle, shape, false).run(x.forward(), stream);
  Pass(handle, shape, true).run(x.backward(), stream);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  const auto q = float_of(x.q.host()), k = float_of(x.k.host()), v = float_of(x.v.host()), g = float_of(x.d_o.host());
  std::vector<float> o(q.size()), dq(q.size()), dk(q.size()), dv(q.size());
  const auto s = static_cast<std::size_t>(shape.seq), d = static_cast<std::size_t>(shape.head_dim);
  for (std::size_t head = 0; head < static_cast<std::size_t>(shape.batch * shape.heads); ++head) {
    const std::size_t base = head * s * d;
    for (std::size_t i = 0; i < s; ++i) {
      std::vector<double> p(s), dp(s);
      double sum = 0, dot = 0;
      for (std::size_t j = 0; j < s; ++j) {
        double score = 0;
        for (std::size_t c = 0; c < d; ++c) {
          score += static_cast<double>(q[base + i * d + c]) * k[base + j * d + c];
          dp[j] += static_cast<double>(g[base + i * d + c]) * v[base + j * d + c];
        }
        sum += p[j] = std::exp(score * x.scale);
      }
      for (std::size_t j = 0; j < s; ++j) dot += (p[j] /= sum) * dp[j];
      for (std::size_t j = 0; j < s; ++j) {
        const double ds = p[j] * (dp[j] - dot) * x.scale;
        for (std::size_t c = 0; c < d; ++c) {
          o[base + i * d + c] += static_cast<float>(p[j] * v[base + j * d + c]);
          dv[base + j * d + c] += static_cast<float>(p[j] * g[base + i * d + c]);
          dq[base + i * d + c] += static_cast<float>(ds * k[base + j * d + c]);
          dk[base + j * d + c] += static_cast<float>(ds * q[base + i * d + c]);
        }
      }
    }
  }
  // Probabilities pass through bf16 inside: 2^-8 of values of order one, in sums of 128.
  expect_close("attention forward", float_of(x.o.host()), o, 2e-2, 2e-2);
  expect_close("attention backward v", float_of(x.dv.host()), dv, 3e-2, 3e-2);
  expect_close("attention backward q", float_of(x.dq.host()), dq, 3e-2, 3e-2);
  expect_close("attention backward k", float_of(x.dk.host()), dk, 3e-2, 3e-2);
}

void measure(Session& session, cudnnHandle_t handle, const Shape& shape) {
  Operands x(shape);
  const std::string impl = "cuDNN " + std::to_string(CUDNN_MAJOR) + "." + std::to_string(CUDNN_MINOR) + " graph API";
  Pass forward(handle, shape, false);
  forward.run(x.forward(), session.stream);
  for (const bool backward : {false, true}) {
    std::unique_ptr<Pass> second;
    if (backward) second = std::make_unique<Pass>(handle, shape, true);
    const double seconds = burst_seconds(session.stream, [&](cudaStream_t stream) {
      backward ? second->run(x.backward(), stream) : forward.run(x.forward(), stream);
    });
    const double flops = shape.forward_flops() * (backward ? 2.5 : 1);
    Row row = session.row();
    row.add("dtype", "bf16").add("impl", impl).add("mode", backward ? "bwd" : "fwd").add("causal", false);
    row.add("head_dim", shape.head_dim).add("seqlen", shape.seq).add("batch", shape.batch).add("heads", shape.heads);
    row.add("kv_heads", shape.heads).add("tflops", flops / seconds / 1e12).add("ms", seconds * 1e3);
    session.rows.push_back(row.add("rate", "burst").add("source", "gpu_check"));
  }
}

}  // namespace

void check_and_measure_attention(Session& session) {
  session.skipped.push_back("causal attention: cuDNN's C graph API has no causal attribute for its one-op attention");
  cudnnHandle_t handle{};
  try {
    STATUS_CHECK(cudnnCreate(&handle));
    check_against_cpu(handle, session.stream);
    std::vector<Shape> shapes;
    const std::int64_t longest = session.check_only ? 0 : session.quick ? 4096 : 16384;
    for (std::int64_t d : {std::int64_t{64}, std::int64_t{128}})
      for (std::int64_t seq = session.quick ? 2048 : 512; seq <= longest; seq *= 2)
        shapes.push_back({16384 / seq, 2048 / d, seq, d});
    for (const Shape& shape : shapes) {
      if (!session.time_left(280, "attention")) break;
      measure(session, handle, shape);
    }
  } catch (const Mismatch&) {
    cudnnDestroy(handle);
    throw;
  } catch (const Failure& failure) {
    session.skipped.push_back(std::string("attention: ") + failure.what());
  }
  if (handle) cudnnDestroy(handle);
}

#else

void check_and_measure_attention(Session& session) {
  session.skipped.push_back("attention: built without cuDNN 9.19 or later");
}

#endif

}  // namespace gpu_check
