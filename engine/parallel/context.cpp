#include "engine/parallel/context.h"

namespace benchsuite {

ParallelContext::ParallelContext(const Layout& layout_in, const Stack& stack_in, const RankGrid& grid_in,
                                 Recorder& recorder, int rank_in, const Faults& faults_in)
    : layout(layout_in),
      stack(stack_in),
      grid(grid_in),
      rec(recorder),
      faults(faults_in),
      rank(rank_in),
      at(grid_in.coordinates(rank_in)),
      dtype(layout_in.stored()),
      tensor_group(rec.add_group(grid.tensor(rank))),
      data_group(rec.add_group(grid.data(rank))),
      parameter_group(rec.add_group({GroupKind::parameters, grid.data(rank).ranks})),
      model_parallel_group(rec.add_group(grid.model_parallel(rank))),
      world_group(rec.add_group(grid.world_group())),
      embedding_group(rec.add_group(grid.embedding(rank))),
      to_next(kNone),
      from_previous(kNone),
      to_previous(kNone),
      from_next(kNone) {
  if (layout.pp > 1) {
    to_next = rec.add_group(grid.channel_to_next(rank));
    from_previous = rec.add_group(grid.channel_from_previous(rank));
    to_previous = rec.add_group(grid.channel_to_previous(rank));
    from_next = rec.add_group(grid.channel_from_next(rank));
  }
}

}  // namespace benchsuite
