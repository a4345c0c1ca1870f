// libFuzzer over the reader of case files. See CMakeLists.txt beside this file for how to run it.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const benchsuite::DataRoot root(BENCHSUITE_SOURCE_DIR);
  benchsuite::fuzz::read_as_case({reinterpret_cast<const char*>(data), size}, root);
  return 0;
}
