#include "engine/device/cuda/cudnn/attention_graph.h"

#include "engine/core/error.h"

namespace benchsuite::cuda {

namespace {

using Tensor = OperationGraph::Tensor;

constexpr cudnnDataType_t kStored = CUDNN_DATA_BFLOAT16, kComputed = CUDNN_DATA_FLOAT;

class Attention {
 public:
  Attention(OperationGraph& graph, const AttentionKey& key) : graph_(graph), key_(key), groups_(key.b * key.u) {}

  void forward() {
    const Tensor& scores = masked(scaled(graph_.matmul(q(), keys_across(), kComputed)));
    const Tensor& largest = graph_.reduce_rows(CUDNN_REDUCE_TENSOR_MAX, scores);
    const Tensor& exponentials = pointwise(CUDNN_POINTWISE_EXP, pointwise(CUDNN_POINTWISE_SUB, scores, &largest));
    const Tensor& sums = graph_.reduce_rows(CUDNN_REDUCE_TENSOR_ADD, exponentials);
    const Tensor& logarithms = pointwise(CUDNN_POINTWISE_LOG, sums);
    graph_.pointwise(CUDNN_POINTWISE_ADD, largest, &logarithms, kComputed, &rows(AttentionTensor::lse));
    const Tensor& probabilities = graph_.pointwise(CUDNN_POINTWISE_DIV, exponentials, &sums, kStored);
    graph_.matmul(probabilities, memory(AttentionTensor::v, keys()), kStored, &memory(AttentionTensor::out, context()));
  }

  void backward() {
    const Tensor& dout = memory(AttentionTensor::dout, context());
    const Tensor& product = pointwise(CUDNN_POINTWISE_MUL, dout, &memory(AttentionTensor::out, context()));
    const Tensor& sums = graph_.reduce_rows(CUDNN_REDUCE_TENSOR_ADD, product);
    const Tensor& one = number(AttentionTensor::one);
    const Tensor& row_sums =
        graph_.pointwise(CUDNN_POINTWISE_MUL, sums, &one, kComputed, &rows(AttentionTensor::row_sums));

    const Tensor& queries = q();
    const Tensor& across = keys_across();
    const Tensor& scores = scaled(graph_.matmul(queries, across, kComputed));
    const Tensor& shifted = pointwise(CUDNN_POINTWISE_SUB, scores, &rows(AttentionTensor::lse));
    const Tensor& probabilities = pointwise(CUDNN_POINTWISE_EXP, masked(shifted));
    add_over_heads(turned(probabilities), dout, memory(AttentionTensor::dv, keys()));

    const Tensor& dprobabilities = graph_.matmul(dout, memory(AttentionTensor::v, transposed(keys())), kComputed);
    const Tensor& centred = pointwise(CUDNN_POINTWISE_SUB, dprobabilities, &row_sums);
    const Tensor& dscores = scaled(pointwise(CUDNN_POINTWISE_MUL, centred, &probabilities));
    add_over_heads(turned(dscores), queries, memory(AttentionTensor::dk, keys()));
    const Tensor& down = graph_.reshape(across, keys(), kStored);
    graph_.matmul(dscores, down, kStored, &memory(AttentionTensor::dq, queries_layout()));
  }

 private:
  // Layouts in qkv, the context and the statistics.
  std::int64_t group() const { return (key_.served() + 2) * key_.d; }
  TensorLayout queries_layout() const {
    return {{groups_, key_.served(), key_.s, key_.d}, {group(), key_.d, groups_ * group(), 1}};
  }
  TensorLayout keys() const { return {{groups_, 1, key_.s, key_.d}, {group(), group(), groups_ * group(), 1}}; }
  TensorLayout context() const {
    return {{groups_, key_.served(), key_.s, key_.d}, {key_.served() * key_.d, key_.d, key_.b * key_.a * key_.d, 1}};
  }
  TensorLayout statistics() const { return dense(groups_, key_.served(), key_.s, 1); }

  const Tensor& memory(AttentionTensor which, const TensorLayout& layout, cudnnDataType_t type = kStored) {
    return graph_.memory(static_cast<std::int64_t>(which), layout, type);
  }
  const Tensor& rows(AttentionTensor which) { return memory(which, statistics(), kComputed); }
  const Tensor& number(AttentionTensor which) { return graph_.number(static_cast<std::int64_t>(which)); }
  const Tensor& q() { return memory(AttentionTensor::q, queries_layout()); }
  const Tensor& keys_across() { return memory(AttentionTensor::k, transposed(keys())); }

  const Tensor& pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor* b = nullptr) {
    return graph_.pointwise(mode, x, b, kComputed);
  }
  const Tensor& scaled(const Tensor& x) {
    if (!scale_) scale_ = &number(AttentionTensor::scale);
    return pointwise(CUDNN_POINTWISE_MUL, x, scale_);
  }
  /// Where causal, minus infinity beyond the diagonal.
  const Tensor& masked(const Tensor& x) {
    if (!key_.causal) return x;
    const Tensor& row = graph_.index(x, 2);
    const Tensor& column = graph_.index(x, 3);
    const Tensor& seen = graph_.pointwise(CUDNN_POINTWISE_CMP_GE, row, &column, CUDNN_DATA_BOOLEAN);
    return graph_.select(seen, x, number(AttentionTensor::minus_infinity));
  }
  /// [., ., s, s] with rows and columns exchanged, as a factor in bf16.
  const Tensor& turned(const Tensor& x) {
    return graph_.reshape(x, transposed(dense(groups_, key_.served(), key_.s, key_.s)), kStored);
  }
  /// a b, summed over the query heads that share a key-value head.
  void add_over_heads(const Tensor& a, const Tensor& b, const Tensor& to) {
    if (key_.served() == 1) {
      graph_.matmul(a, b, kStored, &to);
    } else {
      graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, graph_.matmul(a, b, kStored), to);
    }
  }

  OperationGraph& graph_;
  const AttentionKey& key_;
  const std::int64_t groups_;
  const Tensor* scale_ = nullptr;
};

}  // namespace

AttentionKey attention_key(const OpShape& shape) {
  const std::int64_t a = shape.dims[2], u = shape.dims[4] == 0 ? a : shape.dims[4];
  CHECK(u > 0 && a % u == 0) << a << " query heads in " << u << " groups";
  return {.backward = shape.kind == OpKind::flash_attention_backward,
          .causal = shape.causal,
          .s = shape.dims[0],
          .b = shape.dims[1],
          .a = a,
          .d = shape.dims[3],
          .u = u};
}

void write_attention(OperationGraph& graph, const AttentionKey& key) {
  Attention attention(graph, key);
  if (key.backward) {
    attention.backward();
  } else {
    attention.forward();
  }
}

}  // namespace benchsuite::cuda
