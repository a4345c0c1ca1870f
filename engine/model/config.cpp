#include "engine/model/config.h"

#include <limits>

namespace benchsuite {

std::string_view name_of(ModelFamily family) {
  switch (family) {
    case ModelFamily::gpt:
      return "gpt";
    case ModelFamily::llama:
      return "llama";
  }
  return "?";
}

ModelConfig read_model(const Json& json, const std::string& file, const std::string& path,
                       std::vector<Violation>& problems) {
  ModelConfig model;
  ObjectReader reader(json, file, path, problems);
  reader.optional("name", model.name);
  reader.optional("source", model.source);
  reader.choice("family", model.family, {{"gpt", ModelFamily::gpt}, {"llama", ModelFamily::llama}}, true);
  const bool llama = model.family == ModelFamily::llama;
  reader.required("layers", model.layers);
  reader.required("hidden", model.hidden);
  if (llama) {
    reader.required("ffn_hidden", model.ffn_hidden);
    model.dropout = 0;
  } else {
    reader.optional("ffn_hidden", model.ffn_hidden);
  }
  reader.required("heads", model.heads);
  reader.optional("kv_heads", model.kv_heads);
  reader.required("seq", model.seq);
  reader.required("vocab", model.vocab);
  reader.optional("dropout", model.dropout);
  if (llama) reader.optional("rope_theta", model.rope_theta);
  reader.finish();

  // An absurd width is left to validate(); it must only not overflow here.
  const bool safe = model.hidden > 0 && model.hidden <= std::numeric_limits<std::int64_t>::max() / 4;
  if (!llama && !reader.has("ffn_hidden") && safe) model.ffn_hidden = 4 * model.hidden;
  if (!reader.has("kv_heads")) model.kv_heads = model.heads;
  return model;
}

Json to_json(const ModelConfig& model) {
  Json json;
  if (!model.name.empty()) json["name"] = model.name;
  if (!model.source.empty()) json["source"] = model.source;
  json["family"] = name_of(model.family);
  json["layers"] = model.layers;
  json["hidden"] = model.hidden;
  json["ffn_hidden"] = model.ffn_hidden;
  json["heads"] = model.heads;
  json["kv_heads"] = model.kv_heads;
  json["seq"] = model.seq;
  json["vocab"] = model.vocab;
  json["dropout"] = model.dropout;
  if (model.rotary_positions()) json["rope_theta"] = model.rope_theta;
  return json;
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp) { return round_up(vocab, 128 * tp); }

}  // namespace benchsuite
