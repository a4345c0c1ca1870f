// The words of the enums of suite/results/run.h, as they stand in result.json and on the screen.
#include "suite/results/run.h"

namespace benchsuite {

std::string_view name_of(Status status) {
  switch (status) {
    case Status::pass: return "PASS";
    case Status::xfail: return "XFAIL";
    case Status::skip: return "SKIP";
    case Status::noref: return "NOREF";
    case Status::warn: return "WARN";
    case Status::xpass: return "XPASS";
    case Status::fail: return "FAIL";
    case Status::aborted: return "ABORTED";
    case Status::timeout: return "TIMEOUT";
    case Status::error: return "ERROR";
  }
  return "?";
}

std::string_view name_of(Category category) {
  switch (category) {
    case Category::forward: return "forward";
    case Category::recompute: return "recompute";
    case Category::backward: return "backward";
    case Category::optimizer: return "optimizer";
    case Category::tensor: return "tensor";
    case Category::tensor_recompute: return "tensor_recompute";
    case Category::pipeline: return "pipeline";
    case Category::data: return "data";
    case Category::embedding: return "embedding";
    case Category::global: return "global";
    case Category::bubble: return "bubble";
  }
  return "?";
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "PASS";
    case Verdict::warn: return "WARN";
    case Verdict::fail: return "FAIL";
    case Verdict::improved: return "IMPROVED";
    case Verdict::noref: return "NOREF";
    case Verdict::missing: return "MISSING";
    case Verdict::shown: return "SHOWN";
  }
  return "?";
}

}  // namespace benchsuite
