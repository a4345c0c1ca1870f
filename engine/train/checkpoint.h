// Checkpoints on disk: complete or not there.
//
//   DIR/latest               the name of the newest complete checkpoint
//   DIR/step_0000000050/     manifest.json, and one file per rank: rank_0000.bin
//   DIR/*.tmp                what a save that was cut short left behind; removed by the next run
//   DIR/.lock                held by the run that uses the folder
//
// A save writes into step_N.tmp, syncs every file and the folder, renames it to step_N, and then replaces `latest`: at every
// instant `latest` names a checkpoint that is whole. Old checkpoints are renamed to *.tmp before they are removed, and only after
// `latest` has moved on. manifest.json carries the size and the checksum (FNV-1a, 64 bit: any one changed byte changes it) of
// every file and of itself.
//
// Errors: io names the file and what is wrong with it (can't be written, missing, truncated, corrupt); nothing on disk is
// changed by a failed load, and a failed save removes only what it wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/json_reader.h"

namespace benchsuite {

/// A file of a checkpoint, as its manifest lists it.
struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

struct CheckpointManifest {
  std::int64_t step = 0;  ///< steps done: the next step has this index
  Json identity;          ///< of the run, see identity_of()
  std::vector<std::uint64_t> plans;  ///< by rank: hash of what lies where in its file
  std::vector<CheckpointFile> files;  ///< by rank
};

/// The lock on a folder of checkpoints, held as long as this lives. Makes the folder. Throws Error: config when another run
/// has it, io when it can't be made.
class CheckpointLock {
 public:
  explicit CheckpointLock(const std::string& dir);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// A save under way, by the rank that leads it; removes what it wrote unless committed.
class CheckpointSave {
 public:
  /// Makes DIR/step_N.tmp, empty. Throws Error (io).
  CheckpointSave(const std::string& dir, std::int64_t step);
  ~CheckpointSave();
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;

  /// Once every file is written: manifest, renames, `latest`; then removes all but the newest `keep`. Throws Error (io).
  void commit(const CheckpointManifest& manifest, std::int64_t keep);

 private:
  std::string dir_, name_;
  bool committed_ = false;
};

/// Where rank `rank` of the save of step `step` writes, and the name of its file.
std::string checkpoint_part(const std::string& dir, std::int64_t step, int rank);
std::string part_name(int rank);

/// Writes and syncs a file of `parts` in order. Throws Error (io).
CheckpointFile write_checkpoint_part(const std::string& path, std::span<const std::span<const std::byte>> parts);

/// Reads a file back into `parts`, after its size and checksum proved right. Throws Error (io).
void read_checkpoint_part(const std::string& folder, const CheckpointFile& file, std::span<const std::span<std::byte>> parts);

/// The folder of the newest complete checkpoint in `dir` (or `dir` itself when it is one), "" when there is none. Throws
/// Error (io) when `latest` names one that is not there.
std::string latest_checkpoint(const std::string& dir);

/// Reads and checks a manifest. Throws Error (io) when it is missing, corrupt, or of another version.
CheckpointManifest read_manifest(const std::string& folder);

/// Removes what interrupted saves left. The lock must be held.
void remove_leftovers(const std::string& dir);

}  // namespace benchsuite
