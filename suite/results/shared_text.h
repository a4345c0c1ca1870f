// A text in pieces, which texts share: what is long is made once, and stands in several files.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace benchsuite {

class SharedText {
 public:
  using Piece = std::shared_ptr<const std::string>;

  SharedText() = default;
  explicit SharedText(std::string text) { pieces_.push_back(std::make_shared<const std::string>(std::move(text))); }

  void append(std::string text) {
    if (!text.empty()) pieces_.push_back(std::make_shared<const std::string>(std::move(text)));
  }
  void append(const SharedText& other) { pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end()); }

  const std::vector<Piece>& pieces() const { return pieces_; }

  std::string joined() const {
    std::size_t size = 0;
    for (const Piece& piece : pieces_) size += piece->size();
    std::string text;
    text.reserve(size);
    for (const Piece& piece : pieces_) text += *piece;
    return text;
  }

 private:
  std::vector<Piece> pieces_;
};

}  // namespace benchsuite
