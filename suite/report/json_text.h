// JSON as text that people can read and that has the same bytes for the same values: two spaces of indentation, but a
// list of numbers stays on one line.
//
// A document may have gaps, for what is too large to be a document first: their text is put in as it is.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "engine/core/json_reader.h"

namespace benchsuite {

/// What stands in a document for gap `index`. Only write_json understands it.
Json json_gap(std::size_t index);

/// Appends `value`, whose lines after the first are indented by `indent`. `fill` appends the text of a gap.
using FillGap = std::function<void(std::size_t index, std::string& out)>;
void write_json(const Json& value, std::size_t indent, std::string& out, const FillGap& fill);

/// Picoseconds as a count of microseconds: the shortest decimal that is the nearest double, with a point.
void write_microseconds(std::int64_t picoseconds, std::string& out);

}  // namespace benchsuite
