// What never leaves the process: secrets in environment variables and command lines.
//
// The allow-list decides what is kept at all; this deny-list stands on top of it, because a name that was safe when the
// list was written may be used for something else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace benchsuite {

inline constexpr std::string_view kRedacted = "[redacted]";

/// Whether a whole segment of `name` (split where letters, digits and case end: "api_key", "authToken", "--pass") says
/// that the value is a secret: TOKEN, KEY, SECRET, PASS, PASSWORD, CRED, CREDENTIALS, AUTH, AUTHORIZATION, BEARER,
/// COOKIE, SESSION and their plurals.
bool names_a_secret(std::string_view name);

/// One line of printable text of at most 256 bytes: control characters become spaces, "…" ends what was cut.
std::string tame(std::string_view value);

/// A command line without secrets: the value behind NAME=, NAME: or in the next word after --NAME is replaced where NAME
/// names a secret, and so are passwords in URLs (scheme://user:password@host) and whatever follows "Bearer ".
std::vector<std::string> redact_arguments(const std::vector<std::string>& arguments);

}  // namespace benchsuite
