#include "engine/model/model_context.h"

namespace benchsuite {

ModelContext::ModelContext(const ModelConfig& model_in, const Layout& layout_in, const Stack& stack_in,
                           const RankGrid& grid_in, Recorder& recorder, int rank_in, const Faults& faults_in)
    : ParallelContext(layout_in, stack_in, grid_in, recorder, rank_in, faults_in),
      model(model_in),
      s(div_exact(model.seq, layout.cp)),
      s_local(local_sequence(s)),
      b(layout.micro_batch),
      h(model.hidden),
      a_local(div_exact(model.heads, layout.tp)),
      kv_local(div_exact(model.kv_heads, layout.tp)),
      d(model.head_dim()),
      f_local(div_exact(model.ffn_hidden, layout.tp)),
      v_local(div_exact(padded_vocab(model.vocab, layout.tp), layout.tp)),
      dropout(static_cast<float>(model.dropout)) {}

}  // namespace benchsuite
