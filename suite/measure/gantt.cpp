#include "suite/measure/gantt.h"

#include <array>
#include <cstddef>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

bool same_kind(const GanttSpan& a, const GanttSpan& b) {
  return a.category == b.category && a.micro_batch == b.micro_batch && a.chunk == b.chunk;
}

bool belongs_to_backward(Category category) {
  return category == Category::backward || category == Category::recompute || category == Category::tensor_recompute;
}

/// The time of one pass by category.
class Pass {
 public:
  explicit Pass(std::vector<GanttSpan>& out) : out_(&out) {}

  /// Whether the span continues this pass. Short waits and communication that names no micro-batch do.
  bool takes(const GanttSpan& span) const {
    if (empty()) return true;
    if (span.micro_batch < 0 && micro_batch_ >= 0) return span.category >= Category::tensor;
    if (micro_batch_ < 0) return span.micro_batch < 0;
    if (span.micro_batch != micro_batch_ || span.chunk != chunk_) return false;
    return !(backward_ ? span.category == Category::forward : forward_ && belongs_to_backward(span.category));
  }

  void add(const GanttSpan& span) {
    if (empty()) {
      start_ = span.start;
      micro_batch_ = span.micro_batch;
      chunk_ = span.chunk;
    }
    time_[static_cast<std::size_t>(span.category)] += span.end - span.start;
    length_ += span.end - span.start;
    forward_ = forward_ || span.category == Category::forward;
    backward_ = backward_ || belongs_to_backward(span.category);
  }

  void flush() {
    Picoseconds at = start_;
    for (std::size_t category = 0; category < kCategories; ++category) {
      const auto kind = static_cast<Category>(category);
      const bool waits = kind == Category::bubble;
      append_span(*out_,
                  {kind, waits ? -1 : micro_batch_, waits ? std::int16_t{-1} : chunk_, at, at + time_[category]});
      at += time_[category];
    }
    *this = Pass(*out_);
  }

 private:
  bool empty() const { return length_ == 0; }

  std::vector<GanttSpan>* out_;
  Picoseconds start_ = 0, length_ = 0;
  std::array<Picoseconds, kCategories> time_{};
  std::int32_t micro_batch_ = -1;
  std::int16_t chunk_ = -1;
  bool forward_ = false, backward_ = false;
};

}  // namespace

void append_span(std::vector<GanttSpan>& spans, const GanttSpan& span) {
  if (span.start == span.end) return;
  if (!spans.empty()) {
    CHECK(spans.back().end == span.start) << "a gap from " << spans.back().end << " to " << span.start << " ps";
    if (same_kind(spans.back(), span)) {
      spans.back().end = span.end;
      return;
    }
  }
  spans.push_back(span);
}

std::vector<GanttSpan> simplify(const std::vector<GanttSpan>& spans, Picoseconds step) {
  if (spans.size() <= kGanttDetail) return spans;
  std::vector<GanttSpan> result;
  Pass pass(result);
  for (const GanttSpan& span : spans) {
    const bool stands_alone = span.category == Category::bubble && span.end - span.start > step / 1000;
    if (stands_alone || !pass.takes(span)) pass.flush();
    if (stands_alone) {
      append_span(result, span);
    } else {
      pass.add(span);
    }
  }
  pass.flush();
  return result;
}

}  // namespace benchsuite
