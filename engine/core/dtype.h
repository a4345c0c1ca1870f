// Element types of tensors and their sizes.
#pragma once

#include <cstdint>
#include <string_view>

namespace benchsuite {

enum class DType : std::uint8_t { fp32, bf16, fp16, fp8, int32, uint8 };

/// Bytes of one element.
constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8:
    case DType::uint8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::fp32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::fp16: return "fp16";
    case DType::fp8: return "fp8";
    case DType::int32: return "int32";
    case DType::uint8: return "uint8";
  }
  return "?";
}

}  // namespace benchsuite
