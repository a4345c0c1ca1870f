#include "suite/environment/redaction.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace benchsuite {

namespace {

constexpr std::array<std::string_view, 15> kDenied = {
    "TOKEN",  "KEY",  "SECRET",        "PASS",   "PASSWD", "PASSWORD", "PASSPHRASE", "PWD",
    "CRED",   "CREDENTIAL", "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "SESSION"};

bool is_denied(std::string word) {
  for (char& letter : word) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  const auto denied = [](std::string_view text) {
    return std::find(kDenied.begin(), kDenied.end(), text) != kDenied.end();
  };
  return denied(word) || (word.ends_with('S') && denied(std::string_view(word).substr(0, word.size() - 1)));
}

bool is_name_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-' || letter == '.';
}

/// The name that ends right before `end` in `text`.
std::string_view name_before(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && is_name_letter(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

/// Passwords of URLs: scheme://user:password@host.
std::string without_url_passwords(std::string text) {
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
    const std::size_t begin = at + 3;
    const std::size_t end = std::min(text.find_first_of("/? \t\n", begin), text.size());
    const std::size_t host = text.rfind('@', end);
    if (host == std::string::npos || host < begin || host >= end) continue;
    text.replace(begin, host - begin, kRedacted);
  }
  return text;
}

std::string redact_word(const std::string& word) {
  std::string text = without_url_passwords(word);
  for (std::size_t at = text.find_first_of("=:"); at != std::string::npos; at = text.find_first_of("=:", at + 1)) {
    std::size_t name_end = at;
    while (name_end > 0 && (text[name_end - 1] == '"' || text[name_end - 1] == '\'' || text[name_end - 1] == ' '))
      --name_end;
    if (!names_a_secret(name_before(text, name_end))) continue;
    return text.substr(0, at + 1) + std::string(kRedacted);  // where a secret ends is not ours to guess
  }
  std::string lower = text;
  for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const char* scheme : {"bearer ", "basic "}) {
    const std::string_view prefix = scheme;
    if (const std::size_t at = lower.find(prefix); at != std::string::npos && at + prefix.size() < text.size()) {
      return text.substr(0, at + prefix.size()) + std::string(kRedacted);
    }
  }
  return text;
}

}  // namespace

bool names_a_secret(std::string_view name) {
  std::string segment;
  const auto ends = [&] {
    const bool denied = is_denied(segment);
    segment.clear();
    return denied;
  };
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto letter = static_cast<unsigned char>(name[i]);
    if (std::isalpha(letter) == 0) {
      if (ends()) return true;
      continue;
    }
    const bool hump = i > 0 && std::isupper(letter) != 0 && std::islower(static_cast<unsigned char>(name[i - 1])) != 0;
    if (hump && ends()) return true;
    segment += static_cast<char>(letter);
  }
  return ends();
}

std::string tame(std::string_view value) {
  constexpr std::size_t kLongest = 256;
  std::string text;
  for (const char letter : value) {
    const auto code = static_cast<unsigned char>(letter);
    text += code < 0x20 || code == 0x7F ? ' ' : letter;
  }
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;  // not inside a letter
  return text.substr(0, end) + "…";
}

std::vector<std::string> redact_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> clean;
  bool next_is_secret = false;
  for (const std::string& word : arguments) {
    if (next_is_secret) {
      clean.emplace_back(kRedacted);
      next_is_secret = false;
      continue;
    }
    clean.push_back(redact_word(word));
    next_is_secret = word.starts_with("-") && word.find('=') == std::string::npos && names_a_secret(word);
  }
  return clean;
}

}  // namespace benchsuite
