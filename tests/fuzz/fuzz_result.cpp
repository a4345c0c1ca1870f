// libFuzzer over the reader of result files. See CMakeLists.txt beside this file for how to run it.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  benchsuite::fuzz::read_as_result({reinterpret_cast<const char*>(data), size});
  return 0;
}
