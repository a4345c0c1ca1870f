#include "engine/model/terms.h"

#include <array>

#include "engine/core/error.h"

namespace benchsuite {

std::vector<std::string> term_names() {
  std::vector<std::string> names{
      "tokens", "labels", "sample indices", "step scalars", "loss", "gradient norm",
      "parameters", "main gradients", "master parameters", "first moment", "second moment",
      "parameter shards", "gathered parameters", "unreduced gradients", "reduced gradients",
      "attention input", "attention LayerNorm statistics", "attention LayerNorm output", "query, key, value",
      "softmax output", "softmax dropout mask", "softmax dropout output", "attention log-sum-exp",
      "attention context", "attention output dropout mask",
      "MLP input", "MLP LayerNorm statistics", "MLP LayerNorm output", "FC1 output", "GELU output",
      "MLP output dropout mask", "attention norm in fp32 and before gamma", "copy of the attention context", "MLP norm in fp32 and before gamma", "SiLU output", "rotated queries and keys", "attention context in 8 bit",
      "layer group input",
      "embedding dropout mask", "final LayerNorm input", "final LayerNorm statistics", "final LayerNorm output",
      "logits (fp32)",
      "linear output", "8-bit operand", "biased output", "attention scores", "logits (16 bit)", "cross-entropy row values",
      "layer output", "gradient of the output", "gradient of the input", "gradient inside a layer",
      "weight gradient of a micro-batch",
      "gathered sequence", "reduced sequence", "received activation", "received gradient", "packed gradients"};
  CHECK(names.size() == index_of(Term::count)) << names.size() << " names";
  return names;
}

}  // namespace benchsuite
