// What a part of the engine tells whoever runs it, in words, beside results and errors: that something runs otherwise
// than it could.
#pragma once

#include <functional>
#include <string>

namespace benchsuite {

/// May be called on any thread.
using Say = std::function<void(const std::string&)>;

/// Passes every text on once, whoever and however many say it.
Say once(Say say);

}  // namespace benchsuite
