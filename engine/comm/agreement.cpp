#include "engine/comm/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "engine/core/error.h"
#include "engine/core/fnv1a.h"

namespace benchsuite {

namespace {

/// FNV-1a over 64-bit words, byte by byte.
void mix(std::uint64_t& hash, std::uint64_t word) {
  for (int byte = 0; byte < 8; ++byte, word >>= 8) hash = (hash ^ (word & 0xFF)) * kFnv1aPrime;
}

void put(Communicator::Bytes& out, std::uint64_t word) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&word);
  out.insert(out.end(), bytes, bytes + sizeof word);
}

/// Reads what `put` wrote; a part that ends early is another build's.
class Words {
 public:
  Words(const Communicator::Bytes& bytes, std::size_t rank) : bytes_(bytes), rank_(rank) {}
  std::uint64_t next() {
    std::uint64_t word = 0;
    if (bytes_.size() - at_ < sizeof word) {
      throw Error(Error::Kind::run, fmt::format("rank {} speaks another version: start the same build everywhere", rank_));
    }
    std::memcpy(&word, bytes_.data() + at_, sizeof word);
    at_ += sizeof word;
    return word;
  }

 private:
  const Communicator::Bytes& bytes_;
  std::size_t rank_, at_ = 0;
};

}  // namespace

std::vector<GroupDigest> digests_of(const Program& program) {
  std::vector<GroupDigest> digests;
  for (const Group& group : program.groups) digests.push_back({group, 0, kFnv1aStart});
  for (const Op& op : program.ops) {
    if (!is_communication(op.kind)) continue;
    CHECK(op.group < digests.size()) << "a communication op without a group";
    GroupDigest& digest = digests[op.group];
    CHECK(op.group_sequence == digest.collectives) << "collectives of a group are recorded out of order";
    const OpShape& shape = program.shape_of(op);
    ++digest.collectives;
    // Both ends of a channel hash alike.
    mix(digest.hash, static_cast<std::uint64_t>(op.kind == OpKind::receive ? OpKind::send : op.kind));
    mix(digest.hash, static_cast<std::uint64_t>(shape.dtype));
    mix(digest.hash, static_cast<std::uint64_t>(shape.reduction));
    mix(digest.hash, static_cast<std::uint64_t>(shape.dims[0]));
    mix(digest.hash, static_cast<std::uint64_t>(shape.dims[1]));  // a shift's distance
  }
  return digests;
}

void check_agreement(const std::vector<std::vector<GroupDigest>>& by_rank) {
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const GroupDigest& mine : by_rank[rank]) {
      // A middle stage lists its pipeline's embedding group, whose member it is not.
      if (mine.collectives == 0 && std::find(mine.group.ranks.begin(), mine.group.ranks.end(), static_cast<int>(rank)) ==
                                       mine.group.ranks.end()) {
        continue;
      }
      for (const int member : mine.group.ranks) {
        const auto other = static_cast<std::size_t>(member);
        GroupDigest theirs{mine.group, 0, 0};
        if (other < by_rank.size()) {
          const auto found = std::find_if(by_rank[other].begin(), by_rank[other].end(),
                                          [&](const GroupDigest& digest) { return digest.group == mine.group; });
          if (found != by_rank[other].end()) theirs = *found;
        }
        if (theirs == mine || (mine.collectives == 0 && theirs.collectives == 0)) continue;
        throw Error(Error::Kind::run,
                    fmt::format("ranks {} and {} disagree on the collectives of {} group {{{}}}: {} with hash {:016x} "
                                "against {} with hash {:016x}; start every rank with the same configuration and build",
                                rank, member, name_of(mine.group.kind), fmt::join(mine.group.ranks, ", "),
                                mine.collectives, mine.hash, theirs.collectives, theirs.hash));
      }
    }
  }
}

void agree_on_collectives(Communicator& world, const Program& program, std::uint64_t fingerprint) {
  const std::vector<GroupDigest> mine = digests_of(program);
  Communicator::Bytes part;
  put(part, fingerprint);
  put(part, mine.size());
  for (const GroupDigest& digest : mine) {
    put(part, static_cast<std::uint64_t>(digest.group.kind));
    put(part, digest.group.ranks.size());
    for (const int rank : digest.group.ranks) put(part, static_cast<std::uint64_t>(rank));
    put(part, digest.collectives);
    put(part, digest.hash);
  }
  const std::vector<Communicator::Bytes> parts = world.exchange(program.rank, std::move(part));
  std::vector<std::vector<GroupDigest>> by_rank;
  std::vector<std::uint64_t> fingerprints;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    Words words(parts[rank], rank);
    fingerprints.push_back(words.next());
    std::vector<GroupDigest> digests(words.next());
    for (GroupDigest& digest : digests) {
      digest.group.kind = static_cast<GroupKind>(words.next());
      digest.group.ranks.resize(words.next());
      for (int& member : digest.group.ranks) member = static_cast<int>(words.next());
      digest.collectives = words.next();
      digest.hash = words.next();
    }
    by_rank.push_back(std::move(digests));
  }
  check_agreement(by_rank);
  for (std::size_t rank = 1; rank < fingerprints.size(); ++rank) {
    if (fingerprints[rank] == fingerprints[0]) continue;
    throw Error(Error::Kind::run, fmt::format("ranks 0 and {} were started with different configurations (fingerprints "
                                              "{:016x} and {:016x}); start every rank with the same file",
                                              rank, fingerprints[0], fingerprints[rank]));
  }
}

}  // namespace benchsuite
