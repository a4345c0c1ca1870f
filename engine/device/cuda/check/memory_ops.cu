// Memory-bound ops: each kernel against a CPU reference on a small shape, then its time by size.
#include <algorithm>
#include <cmath>
#include <memory>

#include "check.h"
#include "kernels.cuh"

namespace gpu_check {

namespace {

constexpr float kKeep = 0.9f, kEpsilon = 1e-5f;
constexpr float kRate = 1e-3f, kBeta1 = 0.9f, kBeta2 = 0.95f, kDecay = 0.1f, kAdamEpsilon = 1e-8f;
constexpr std::uint32_t kSeed = 7;

/// Buffers of one shape; every op takes its operands from here.
struct Operands {
  Operands(int rows_, int cols_)
      : rows(rows_),
        cols(cols_),
        count(static_cast<std::size_t>(rows_) * cols_),
        a(count),
        b(count),
        y(count),
        bias(cols_),
        gamma(cols_),
        mask(count),
        stats(2 * static_cast<std::size_t>(rows_)),
        dgamma(cols_),
        dbeta(cols_) {
    fill_noise(a.get(), 2 * count, 1);
    fill_noise(b.get(), 2 * count, 2);
    fill_noise(bias.get(), 2 * static_cast<std::size_t>(cols), 3);
    fill_noise(gamma.get(), 2 * static_cast<std::size_t>(cols), 4);
    mask.fill_bytes(1);
    dgamma.zero();
    dbeta.zero();
    std::vector<float> moments;
    for (int r = 0; r < rows; ++r) moments.insert(moments.end(), {0.01f, 1.7f});
    stats.put(moments);
  }
  Bf16* A() const { return reinterpret_cast<Bf16*>(a.get()); }
  Bf16* B() const { return reinterpret_cast<Bf16*>(b.get()); }
  Bf16* Y() const { return reinterpret_cast<Bf16*>(y.get()); }

  int rows, cols, sms = sm_count();
  std::size_t count;
  Buffer<std::uint16_t> a, b, y, bias, gamma;
  Buffer<std::uint8_t> mask;
  Buffer<float> stats, dgamma, dbeta;
};

/// Threads of a row kernel: two vectors a thread where that many threads exist.
int threads_of(int cols) { return std::clamp((cols / 8 + 63) / 64 * 32, 32, 1024); }

template <Pointwise op>
void run_pointwise(const Operands& o, cudaStream_t stream) {
  PointwiseArgs args;
  args.a = o.A();
  args.b = o.B();
  args.bias = reinterpret_cast<Bf16*>(o.bias.get());
  args.mask = o.mask.get();
  args.y = o.Y();
  args.count = o.count;
  args.cols = o.cols;
  args.keep = kKeep;
  args.seed = kSeed;
  const std::size_t blocks = std::min<std::size_t>((o.count / 8 + 255) / 256, static_cast<std::size_t>(o.sms) * 16);
  launch(pointwise<op>, std::max<std::size_t>(1, blocks), 256, stream, args);
}

void run_softmax(const Operands& o, cudaStream_t stream) {
  launch(softmax_rows, o.rows, threads_of(o.cols), stream, o.A(), o.Y(), o.cols);
}
void run_softmax_backward(const Operands& o, cudaStream_t stream) {
  launch(softmax_backward_rows, o.rows, threads_of(o.cols), stream, o.A(), o.B(), o.Y(), o.cols);
}
void run_layernorm(const Operands& o, cudaStream_t stream) {
  launch(layernorm_rows, o.rows, threads_of(o.cols), stream, o.A(), reinterpret_cast<Bf16*>(o.gamma.get()),
         reinterpret_cast<Bf16*>(o.bias.get()), o.Y(), o.stats.get(), o.cols, kEpsilon);
}
void run_layernorm_backward(const Operands& o, cudaStream_t stream) {
  launch(layernorm_backward_rows, std::min(o.rows, 2 * o.sms), threads_of(o.cols), stream, o.A(), o.B(),
         reinterpret_cast<Bf16*>(o.gamma.get()), o.stats.get(), o.Y(), o.dgamma.get(), o.dbeta.get(), o.rows, o.cols);
}

using Run = void (*)(const Operands&, cudaStream_t);
/// Value of y at an element for the pointwise ops: (a, b, bias, element).
using Reference = float (*)(float, float, float, std::size_t);

float host_gelu(float x) { return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }
/// Central difference: shares nothing with the kernel's formula.
float host_gelu_slope(float x) {
  const double h = 1e-3;
  const auto f = [](double z) { return 0.5 * z * (1.0 + std::tanh(0.7978845608 * (z + 0.044715 * z * z * z))); };
  return static_cast<float>((f(x + h) - f(x - h)) / (2 * h));
}
bool kept(std::size_t at) { return static_cast<float>(random_bits(at, kSeed) >> 8) * (1.0f / 16777216.0f) < kKeep; }

struct Op {
  const char* name;
  Run run;
  Reference reference;  ///< null: checked on its own
};
const Op kOps[] = {
    {"add", run_pointwise<Pointwise::add>, [](float a, float b, float, std::size_t) { return a + b; }},
    {"gelu", run_pointwise<Pointwise::gelu>, [](float a, float, float, std::size_t) { return host_gelu(a); }},
    {"bias_gelu", run_pointwise<Pointwise::bias_gelu>,
     [](float a, float, float c, std::size_t) { return host_gelu(a + c); }},
    {"gelu_backward", run_pointwise<Pointwise::gelu_backward>,
     [](float a, float b, float, std::size_t) { return a * host_gelu_slope(b); }},
    {"bias_gelu_backward", run_pointwise<Pointwise::bias_gelu_backward>,
     [](float a, float b, float c, std::size_t) { return a * host_gelu_slope(b + c); }},
    {"dropout", run_pointwise<Pointwise::dropout>,
     [](float a, float, float, std::size_t i) { return kept(i) ? a / kKeep : 0.0f; }},
    {"dropout_backward", run_pointwise<Pointwise::dropout_backward>,
     [](float a, float, float, std::size_t) { return a / kKeep; }},  // the mask is all ones
    {"bias_dropout_add", run_pointwise<Pointwise::bias_dropout_add>,
     [](float a, float b, float c, std::size_t i) { return b + (kept(i) ? (a + c) / kKeep : 0.0f); }},
    {"softmax", run_softmax, nullptr},
    {"softmax_backward", run_softmax_backward, nullptr},
    {"layernorm", run_layernorm, nullptr},
    {"layernorm_backward", run_layernorm_backward, nullptr},
};

// A bf16 result carries 8 bits: half a unit is 2^-9 of the value; the inner fp32 sums add far less.
constexpr double kBf16Relative = 1.0 / 256, kBf16Absolute = 1e-3;

void check_pointwise(const Operands& o, cudaStream_t stream) {
  const auto a = float_of(o.a.host()), b = float_of(o.b.host()), bias = float_of(o.bias.host());
  for (const Op& op : kOps) {
    if (!op.reference) continue;
    if (std::string(op.name) == "dropout_backward") o.mask.fill_bytes(1);
    op.run(o, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    std::vector<float> want(o.count);
    for (std::size_t i = 0; i < o.count; ++i) want[i] = op.reference(a[i], b[i], bias[i % o.cols], i);
    expect_close(op.name, float_of(o.y.host()), want, kBf16Absolute, kBf16Relative);
  }
}

void check_rows(const Operands& o, cudaStream_t stream) {
  const auto a = float_of(o.a.host()), b = float_of(o.b.host()), gamma = float_of(o.gamma.host()),
             beta = float_of(o.bias.host());
  std::vector<float> soft(o.count), soft_back(o.count), norm(o.count), norm_back(o.count);
  std::vector<float> dgamma(o.cols, 0.0f), dbeta(o.cols, 0.0f);
  const auto stats = o.stats.host();
  for (int r = 0; r < o.rows; ++r) {
    const std::size_t row = static_cast<std::size_t>(r) * o.cols;
    double most = -1e30, sum = 0, dot = 0, mean = 0, square = 0, first = 0, second = 0;
    for (int c = 0; c < o.cols; ++c) most = std::max<double>(most, a[row + c]);
    for (int c = 0; c < o.cols; ++c) {
      sum += std::exp(a[row + c] - most);
      dot += static_cast<double>(a[row + c]) * b[row + c];
      mean += a[row + c] / o.cols;
    }
    for (int c = 0; c < o.cols; ++c) square += (a[row + c] - mean) * (a[row + c] - mean) / o.cols;
    const double scale = 1 / std::sqrt(square + kEpsilon), given_mean = stats[2 * r], given_scale = stats[2 * r + 1];
    for (int c = 0; c < o.cols; ++c) {
      const double hat = (b[row + c] - given_mean) * given_scale;
      first += a[row + c] * gamma[c] / o.cols;
      second += a[row + c] * gamma[c] * hat / o.cols;
      dgamma[c] += static_cast<float>(a[row + c] * hat);
      dbeta[c] += a[row + c];
    }
    for (int c = 0; c < o.cols; ++c) {
      const std::size_t i = row + c;
      soft[i] = static_cast<float>(std::exp(a[i] - most) / sum);
      soft_back[i] = static_cast<float>((a[i] - dot) * b[i]);
      norm[i] = static_cast<float>((a[i] - mean) * scale * gamma[c] + beta[c]);
      norm_back[i] =
          static_cast<float>((a[i] * gamma[c] - first - (b[i] - given_mean) * given_scale * second) * given_scale);
    }
  }
  const auto compare = [&](const char* name, Run run, const std::vector<float>& want, double absolute) {
    run(o, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    expect_close(name, float_of(o.y.host()), want, absolute, kBf16Relative);
  };
  compare("softmax", run_softmax, soft, 1e-5);
  compare("softmax_backward", run_softmax_backward, soft_back, 0.02);  // the dot product of the row reaches tens
  compare("layernorm_backward", run_layernorm_backward, norm_back, 2e-3);
  expect_close("layernorm_backward gamma", o.dgamma.host(), dgamma, 1e-3, 1e-3);
  expect_close("layernorm_backward beta", o.dbeta.host(), dbeta, 1e-3, 1e-3);
  compare("layernorm", run_layernorm, norm, 4e-3);  // last: it writes stats
}

/// fp32 state of the optimizer over n parameters.
struct AdamState {
  explicit AdamState(std::size_t n) : grad(n), master(n), m(n), v(n), parameter(n), out(1) {
    fill_noise(grad.get(), 4 * n, 11);  // any finite pattern: bf16 pairs read as fp32
    master.zero();
    m.zero();
    v.zero();
    out.zero();
  }
  void step(cudaStream_t stream, int sms) const {
    const std::size_t blocks = std::min<std::size_t>((grad.size() / 4 + 255) / 256, static_cast<std::size_t>(sms) * 8);
    launch(adamw, blocks, 256, stream, grad.get(), master.get(), m.get(), v.get(),
           reinterpret_cast<Bf16*>(parameter.get()), grad.size(), kRate, kBeta1, kBeta2, kAdamEpsilon, kDecay, 1 - kBeta1,
           1 - kBeta2);
  }
  void norm(cudaStream_t stream, int sms) const {
    const std::size_t blocks = std::min<std::size_t>((grad.size() / 4 + 255) / 256, static_cast<std::size_t>(sms) * 8);
    launch(sum_squares, blocks, 256, stream, grad.get(), grad.size(), out.get());
  }
  Buffer<float> grad, master, m, v;
  Buffer<std::uint16_t> parameter;
  Buffer<float> out;
};

void check_adam(cudaStream_t stream, int sms) {
  constexpr std::size_t kCount = 4096;
  AdamState state(kCount);
  const std::vector<float> grad = noise(kCount, 21), master = noise(kCount, 22);
  state.grad.put(grad);
  state.master.put(master);
  state.step(stream, sms);
  state.norm(stream, sms);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  std::vector<float> want(kCount);
  double squares = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    // First step: the corrected moments are the gradient and its square.
    const double update = grad[i] / (std::abs(static_cast<double>(grad[i])) + kAdamEpsilon) + kDecay * master[i];
    want[i] = static_cast<float>(master[i] - kRate * update);
    squares += static_cast<double>(grad[i]) * grad[i];
  }
  expect_close("adamw", state.master.host(), want, 1e-6, 1e-5);
  expect_close("adamw parameter", float_of(state.parameter.host()), want, 1e-6, kBf16Relative);
  expect_close("sum_squares", state.out.host(), {static_cast<float>(squares)}, 0, 1e-4);
}

void add_row(Session& session, const char* op, const char* type, std::int64_t rows, std::int64_t cols, double seconds,
             double bytes) {
  Row row = session.row();
  row.add("op", op).add("dtype", type).add("rows", rows).add("cols", cols).add("us", seconds * 1e6);
  if (std::string(op).find("dropout") != std::string::npos) row.add("stores_mask", true);
  row.add("GBps", bytes / seconds / 1e9).add("rate", "burst").add("source", "gpu_check");
  session.rows.push_back(row);
}

/// Least bytes by element of a rows x cols op: reads, writes, and a byte of mask where it is stored.
double bytes_an_element(const std::string& op) {
  if (op == "gelu" || op == "bias_gelu" || op == "softmax" || op == "layernorm") return 4;
  if (op == "dropout" || op == "dropout_backward") return 5;
  return op == "bias_dropout_add" ? 7 : 6;
}

}  // namespace

void check_memory_ops(Session& session) {
  const Operands small(6, 520);
  check_pointwise(small, session.stream);
  check_rows(small, session.stream);
  check_adam(session.stream, sm_count());
}

void measure_memory_ops(Session& session) {
  struct Shape {
    int rows, cols;
  };
  std::vector<Shape> shapes = {{2048, 4096}, {8192, 4096}, {32768, 4096}, {8192, 12288}};
  if (!session.quick)
    shapes.insert(shapes.end(),
                  {{512, 4096}, {2048, 1024}, {8192, 2048}, {32768, 2048}, {131072, 2048}, {32768, 8192}});
  for (const Shape& shape : shapes) {
    if (!session.time_left(210, "memory-bound ops")) break;
    const Operands operands(shape.rows, shape.cols);
    for (const Op& op : kOps) {
      const double seconds = burst_seconds(session.stream, [&](cudaStream_t s) { op.run(operands, s); });
      add_row(session, op.name, "bf16", shape.rows, shape.cols, seconds,
              bytes_an_element(op.name) * static_cast<double>(operands.count));
    }
  }
  const int sms = sm_count();
  std::vector<std::size_t> counts = {std::size_t{1} << 24, std::size_t{1} << 28};
  if (!session.quick) counts.insert(counts.end(), {std::size_t{1} << 20, std::size_t{1} << 26});
  for (const std::size_t n : counts) {
    if (!session.time_left(220, "optimizer")) break;
    const AdamState state(n);
    Row row = session.row();
    const double seconds = burst_seconds(session.stream, [&](cudaStream_t s) { state.step(s, sms); });
    row.add("op", "adamw")
        .add("dtype", "fp32")
        .add("out_dtype", "bf16")
        .add("rows", static_cast<std::int64_t>(n))
        .add("cols", 1);
    row.add("us", seconds * 1e6)
        .add("GBps", 30.0 * static_cast<double>(n) / seconds / 1e9)
        .add("rate", "burst")
        .add("source", "gpu_check");
    session.rows.push_back(row);
    const double norm = burst_seconds(session.stream, [&](cudaStream_t s) { state.norm(s, sms); });
    add_row(session, "sum_squares", "fp32", static_cast<std::int64_t>(n), 1, norm, 4.0 * static_cast<double>(n));
  }
}

}  // namespace gpu_check
