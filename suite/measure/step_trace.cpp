#include "suite/measure/step_trace.h"

#include <fstream>
#include <map>
#include <tuple>

#include "engine/core/error.h"
#include "suite/report/trace.h"

namespace benchsuite {

void write_step_trace(const std::vector<const Program*>& programs, const std::vector<Timeline>& timelines,
                      const std::string& path) {
  CHECK(programs.size() == timelines.size()) << programs.size() << " programs, " << timelines.size() << " timelines";
  // All members of a group post in the same order: group and place in that order name the collective.
  std::map<std::tuple<GroupKind, std::vector<int>, std::uint32_t>, std::int64_t> flows;
  std::vector<TraceSpan> spans;
  for (std::size_t role = 0; role < programs.size(); ++role) {
    const Program& program = *programs[role];
    for (OpId id = 0; id < program.ops.size(); ++id) {
      const Op& op = program.ops[id];
      const Span& span = timelines[role].spans[id];
      const OpShape& shape = program.shape_of(op);
      TraceSpan& shown = spans.emplace_back(TraceSpan{.rank = program.rank,
                                                      .stream = name_of(op.stream),
                                                      .name = name_of(op.kind),
                                                      .category = name_of(op.phase),
                                                      .start = span.start,
                                                      .end = span.end,
                                                      .micro_batch = op.micro_batch,
                                                      .layer = op.layer,
                                                      .chunk = op.chunk});
      if (!is_communication(op.kind)) continue;
      shown.bytes = shape.dims[0] * static_cast<std::int64_t>(size_of(shape.dtype));
      const Group& group = program.groups[op.group];
      shown.flow = flows.try_emplace({group.kind, group.ranks, op.group_sequence}, std::ssize(flows)).first->second;
      shown.flow_source = op.kind == OpKind::send;
    }
  }
  std::ofstream out(path, std::ios::binary);
  write_trace(out, spans);
  out.close();
  if (!out) throw Error(Error::Kind::io, path + ": can't write the trace; check free space and permissions");
}

}  // namespace benchsuite
