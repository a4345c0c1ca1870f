#include "engine/model/parameters.h"

#include <fmt/format.h>

namespace benchsuite {

namespace {

class Builder {
 public:
  Builder(const ModelContext& context, ChunkParameters& out) : context_(context), out_(out) {}

  Part part;  // of what is added next

  /// [rows, columns] whole on every tensor-parallel rank.
  Parameter* replicated_matrix(std::string name, std::int64_t rows, std::int64_t columns) {
    Parameter* p = add(std::move(name), rows, columns, rows, columns);
    p->replicated = true;
    return p;
  }
  /// Rows split over t.
  Parameter* row_split(std::string name, std::int64_t rows, std::int64_t columns) {
    const std::int64_t local = div_exact(rows, context_.layout.tp);
    Parameter* p = add(std::move(name), local, columns, rows, columns);
    p->first_row = context_.at.tp * local;
    return p;
  }
  /// Columns split over t.
  Parameter* column_split(std::string name, std::int64_t rows, std::int64_t columns) {
    const std::int64_t local = div_exact(columns, context_.layout.tp);
    Parameter* p = add(std::move(name), rows, local, rows, columns);
    p->first_column = context_.at.tp * local;
    p->initial = Parameter::Initial::scaled_normal;
    return p;
  }
  /// A vector that every tensor-parallel rank holds and, under sequence parallelism, sees only s/t of.
  Parameter* replicated_vector(std::string name, Parameter::Initial initial) {
    Parameter* p = add(std::move(name), 1, context_.h, 1, context_.h);
    p->initial = initial;
    p->decays = false;
    p->replicated = true;
    p->partial_gradient = context_.sequence_parallel();
    return p;
  }
  /// The bias of a column-parallel linear.
  Parameter* split_vector(std::string name, std::int64_t width) {
    const std::int64_t local = div_exact(width, context_.layout.tp);
    Parameter* p = add(std::move(name), 1, local, 1, width);
    p->first_column = context_.at.tp * local;
    p->initial = Parameter::Initial::zeros;
    p->decays = false;
    return p;
  }

 private:
  Parameter* add(std::string name, std::int64_t rows, std::int64_t columns, std::int64_t global_rows,
                 std::int64_t global_columns) {
    Parameter parameter;
    parameter.name = std::move(name);
    parameter.rows = rows;
    parameter.columns = columns;
    parameter.global_rows = global_rows;
    parameter.global_columns = global_columns;
    out_.all.push_back(std::move(parameter));
    out_.part_of.push_back(part);
    return &out_.all.back();
  }

  const ModelContext& context_;
  ChunkParameters& out_;
};

}  // namespace

ChunkParameters make_chunk_parameters(const ModelContext& context, std::int64_t chunk) {
  using Initial = Parameter::Initial;
  const ModelConfig& model = context.model;
  const LayerRange range = layers_of(model.layers, context.layout, context.at.pp, chunk);
  const std::int64_t vocab = padded_vocab(model.vocab, context.layout.tp);
  ChunkParameters out;
  out.first_layer = range.first;
  Builder build(context, out);

  // Not by layers: with the ends counted as layers the first and the last chunk may hold none.
  if (context.first_stage() && chunk == 0) {
    build.part = {Part::Kind::embedding};
    out.ends.words = build.row_split("embedding.words", vocab, model.hidden);
    if (model.learned_positions()) {
      out.ends.positions = build.replicated_matrix("embedding.positions", model.seq, model.hidden);
    }
  }
  for (std::int64_t index = 0; index < range.count; ++index) {
    build.part = {Part::Kind::attention, index};
    const std::string prefix = fmt::format("layer.{}.", range.first + index);
    LayerParameters layer;
    const auto shift = [&](const std::string& name) {
      return model.rms_norm() ? nullptr : build.replicated_vector(name, Initial::zeros);
    };
    const auto row_bias = [&](const std::string& name) {
      return model.has_biases() ? build.replicated_vector(name, Initial::zeros) : nullptr;
    };
    const auto column_bias = [&](const std::string& name, std::int64_t width) {
      return model.has_biases() ? build.split_vector(name, width) : nullptr;
    };
    const std::int64_t qkv_rows = (model.heads + 2 * model.kv_heads) * model.head_dim();
    const std::int64_t fc1_rows = (model.gated_mlp() ? 2 : 1) * model.ffn_hidden;
    layer.attention.norm_gamma = build.replicated_vector(prefix + "attention.norm.gamma", Initial::ones);
    layer.attention.norm_beta = shift(prefix + "attention.norm.beta");
    layer.attention.qkv_weight = build.row_split(prefix + "attention.qkv.weight", qkv_rows, model.hidden);
    layer.attention.qkv_bias = column_bias(prefix + "attention.qkv.bias", qkv_rows);
    layer.attention.proj_weight = build.column_split(prefix + "attention.proj.weight", model.hidden, model.hidden);
    layer.attention.proj_bias = row_bias(prefix + "attention.proj.bias");
    build.part = {Part::Kind::mlp, index};
    layer.mlp.norm_gamma = build.replicated_vector(prefix + "mlp.norm.gamma", Initial::ones);
    layer.mlp.norm_beta = shift(prefix + "mlp.norm.beta");
    layer.mlp.fc1_weight = build.row_split(prefix + "mlp.fc1.weight", fc1_rows, model.hidden);
    layer.mlp.fc1_bias = column_bias(prefix + "mlp.fc1.bias", fc1_rows);
    layer.mlp.fc2_weight = build.column_split(prefix + "mlp.fc2.weight", model.hidden, model.ffn_hidden);
    layer.mlp.fc2_bias = row_bias(prefix + "mlp.fc2.bias");
    out.layers.push_back(layer);
  }
  if (context.last_stage() && chunk == context.layout.vpp - 1) {
    build.part = {Part::Kind::head};
    out.ends.final_gamma = build.replicated_vector("final.norm.gamma", Initial::ones);
    if (!model.rms_norm()) out.ends.final_beta = build.replicated_vector("final.norm.beta", Initial::zeros);
    out.ends.head_words =
        build.row_split(model.tied_embeddings() ? "embedding.words" : "head.words", vocab, model.hidden);
    out.ends.head_words->shared_copy = model.tied_embeddings();
  }
  return out;
}

}  // namespace benchsuite
