#include "tests/engine/device/cuda/kernels/kernel_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "engine/device/cuda/cuda_check.h"
#include "tests/cuda_emulator/emulator.h"

namespace benchsuite::testing_cuda {
namespace {

/// Device memory that ends where its last element ends; red zones are the emulator's.
class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    if (bytes > 0) CUDA_CHECK(cudaMalloc(&address_, bytes));
  }
  ~Memory() { cudaFree(address_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(address_) + offset; }

 private:
  void* address_ = nullptr;
};

double half_unit(DType type) { return type == DType::bf16 ? 0x1p-8 : 0x1p-24; }  // of 8 and 24 significant bits

std::string first_difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return "byte " + std::to_string(i) + " of " + std::to_string(a.size());
  }
  return "none";
}

}  // namespace

std::uint64_t fresh_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("BENCHSUITE_TEST_SEED");
    return given ? std::strtoull(given, nullptr, 10) : std::uint64_t{std::random_device{}()};
  }();
  return seed;
}

double rounded(double value, DType type) {
  const auto single = static_cast<float>(value);
  return type == DType::bf16 ? widen(round_to_bf16(single)) : single;
}

std::vector<double> Numbers::normal(std::int64_t count, DType type, double scale) {
  std::normal_distribution<double> distribution(0, scale);
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& value : out) value = rounded(distribution(random_), type);
  return out;
}
std::vector<double> Numbers::uniform(std::int64_t count, DType type, double low, double high) {
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& value : out) value = rounded(distribution(random_), type);
  return out;
}
std::vector<std::int32_t> Numbers::integers(std::int64_t count, std::int32_t low, std::int32_t high) {
  std::uniform_int_distribution<std::int32_t> distribution(low, high);
  std::vector<std::int32_t> out(static_cast<std::size_t>(count));
  for (std::int32_t& value : out) value = distribution(random_);
  return out;
}

std::vector<std::byte> bytes_of(const std::vector<double>& values, DType type) {
  std::vector<std::byte> out(values.size() * static_cast<std::size_t>(size_of(type)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto single = static_cast<float>(values[i]);
    const Bf16 half = round_to_bf16(single);
    const auto integer = type == DType::int32 ? static_cast<std::int32_t>(values[i]) : 0;
    const auto byte = type == DType::uint8 ? static_cast<std::uint8_t>(values[i]) : std::uint8_t{0};
    std::byte* to = out.data() + i * static_cast<std::size_t>(size_of(type));
    switch (type) {
      case DType::bf16:
        std::memcpy(to, &half, sizeof half);
        break;
      case DType::int32:
        std::memcpy(to, &integer, sizeof integer);
        break;
      case DType::uint8:
        std::memcpy(to, &byte, sizeof byte);
        break;
      default:
        std::memcpy(to, &single, sizeof single);
        break;
    }
  }
  return out;
}

std::vector<double> values_of(const std::vector<std::byte>& bytes, DType type) {
  const auto size = static_cast<std::size_t>(size_of(type));
  std::vector<double> out(bytes.size() / size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::byte* from = bytes.data() + i * size;
    float single = 0;
    Bf16 half = 0;
    std::int32_t integer = 0;
    switch (type) {
      case DType::bf16:
        std::memcpy(&half, from, size), out[i] = widen(half);
        break;
      case DType::int32:
        std::memcpy(&integer, from, size), out[i] = integer;
        break;
      case DType::uint8:
        out[i] = std::to_integer<int>(*from);
        break;
      default:
        std::memcpy(&single, from, size), out[i] = single;
        break;
    }
  }
  return out;
}

OpShape shape_of(OpKind kind, std::vector<std::int64_t> dims, DType type, std::vector<float> scalars) {
  OpShape shape{.kind = kind, .dtype = type, .out_dtype = type};
  std::copy(dims.begin(), dims.end(), shape.dims.begin());
  std::copy(scalars.begin(), scalars.end(), shape.scalars.begin());
  return shape;
}

Case& Case::reads(DType type, const std::vector<double>& values) {
  items_.push_back({.type = type, .access = Access::read, .before = bytes_of(values, type), .expected = {}});
  return *this;
}
Case& Case::reads(const std::vector<std::int32_t>& values) {
  return reads(DType::int32, std::vector<double>(values.begin(), values.end()));
}
Case& Case::writes(const Expected& expected) {
  items_.push_back({.type = expected.type,
                    .access = Access::write,
                    .before = std::vector<std::byte>(bytes_of(expected.values, expected.type).size(), std::byte{0xFF}),
                    .expected = expected});
  return *this;
}
Case& Case::updates(const std::vector<double>& before, const Expected& after) {
  items_.push_back(
      {.type = after.type, .access = Access::read_write, .before = bytes_of(before, after.type), .expected = after});
  return *this;
}
Case& Case::may_alias(std::size_t output, std::size_t input) {
  aliases_.emplace_back(output, input);
  return *this;
}

std::vector<std::vector<std::byte>> Case::run(bool off_boundaries, bool aliased) {
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<std::span<std::byte>> operands;
  for (const Item& item : items_) {
    const std::size_t shift = off_boundaries ? static_cast<std::size_t>(size_of(item.type)) : 0;
    memory.push_back(std::make_unique<Memory>(item.before.size() + shift));
    operands.emplace_back(memory.back()->at(shift), item.before.size());
    if (item.before.empty()) continue;
    // Outputs hold the emulator's fill; the first element before an operand off its boundary stays so, too.
    if (item.access != Access::write) {
      CUDA_CHECK(cudaMemcpy(operands.back().data(), item.before.data(), item.before.size(), cudaMemcpyHostToDevice));
    }
  }
  if (aliased) {
    for (const auto& [output, input] : aliases_) operands[output] = operands[input];
  }
  const std::size_t workspace_size = cuda::workspace_bytes(shape_);
  const Memory workspace(workspace_size);
  cuda::run_kernel({.shape = shape_,
                    .operands = operands,
                    .layer = layer_,
                    .workspace = {workspace.at(0), workspace_size},
                    .stream = nullptr});
  CUDA_CHECK(cudaDeviceSynchronize());
  EXPECT_EQ(cuda_emulator::failure(), "");
  std::vector<std::vector<std::byte>> out;
  for (const std::span<std::byte> operand : operands) {
    out.emplace_back(operand.size());
    if (!operand.empty())
      CUDA_CHECK(cudaMemcpy(out.back().data(), operand.data(), operand.size(), cudaMemcpyDeviceToHost));
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const bool overwritten =
        aliased && std::any_of(aliases_.begin(), aliases_.end(), [&](auto a) { return a.second == i; });
    if (items_[i].access == Access::read && !overwritten) {
      EXPECT_EQ(first_difference(items_[i].before, out[i]), "none") << "input " << i << " was written";
    }
    if (overwritten) out[i] = items_[i].before;
  }
  return out;
}

void Case::compare_with_reference() {
  for (std::size_t index = 0; index < items_.size(); ++index) {
    const Expected& expected = items_[index].expected;
    if (items_[index].access == Access::read) continue;
    const std::vector<double> got = values_of(first_[index], expected.type);
    ASSERT_EQ(got.size(), expected.values.size());
    int wrong = 0;
    for (std::size_t i = 0; i < got.size() && wrong < 3; ++i) {
      const double want = expected.values[i];
      bool good = false;
      double allowed = 0;
      if (std::isnan(want)) {
        good = std::isnan(got[i]);
      } else if (expected.ulps == 0) {
        good = got[i] ==
               (expected.type == DType::fp32 || expected.type == DType::bf16 ? rounded(want, expected.type) : want);
      } else {
        const double magnitude = expected.magnitudes.empty() ? std::abs(want) : expected.magnitudes[i];
        const double arithmetic = expected.ulps * 0x1p-24 * magnitude;
        // The smallest number of the type is for results that underflow.
        allowed = arithmetic + half_unit(expected.type) * (std::abs(want) + arithmetic) + 0x1p-126;
        good = std::abs(got[i] - want) <= allowed;
      }
      if (good) continue;
      ++wrong;
      ADD_FAILURE() << name_of(shape_.kind) << " operand " << index << " element " << i << " of " << got.size() << ": "
                    << got[i] << ", not " << want << " +- " << allowed;
    }
  }
}

void Case::check() {
  SCOPED_TRACE(std::string(name_of(shape_.kind)) + " " + std::string(name_of(shape_.dtype)) + " dims " +
               std::to_string(shape_.dims[0]) + " " + std::to_string(shape_.dims[1]) + " " +
               std::to_string(shape_.dims[2]) + ", BENCHSUITE_TEST_SEED=" + std::to_string(fresh_seed()));
  using cuda_emulator::Fill;
  using cuda_emulator::ThreadOrder;
  cuda_emulator::reset({.order = ThreadOrder::forward, .fill = Fill::not_a_number});
  first_ = run(false, false);
  compare_with_reference();
  if (::testing::Test::HasFailure()) return;

  struct Condition {
    const char* name;
    ThreadOrder order;
    Fill fill;
    bool off_boundaries, aliased;
  };
  for (const Condition& condition :
       {Condition{"threads backwards, other memory", ThreadOrder::reverse, Fill::small, false, false},
        Condition{"threads shuffled", ThreadOrder::shuffled, Fill::not_a_number, false, false},
        Condition{"off 16-byte boundaries", ThreadOrder::shuffled, Fill::small, true, false},
        Condition{"in place", ThreadOrder::shuffled, Fill::not_a_number, false, true}}) {
    if (condition.aliased && aliases_.empty()) continue;
    cuda_emulator::reset({.seed = fresh_seed(), .order = condition.order, .fill = condition.fill});
    const std::vector<std::vector<std::byte>> again = run(condition.off_boundaries, condition.aliased);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      EXPECT_EQ(first_difference(first_[i], again[i]), "none") << "operand " << i << ": " << condition.name;
    }
  }
}

std::vector<float> Case::floats(std::size_t operand) const {
  const std::vector<double> values = values_of(first_[operand], items_[operand].type);
  return {values.begin(), values.end()};
}

}  // namespace benchsuite::testing_cuda
