#include "engine/comm/mpi/message_set.h"

#include <array>
#include <string>

#include "engine/core/error.h"

namespace benchsuite {

void mpi_check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(Error::Kind::run, std::string(call) + " failed: " + std::string(text.data(), static_cast<std::size_t>(length)));
}

void MessageSet::send(MPI_Comm comm, int to, int tag, const std::byte* bytes, std::int64_t count) {
  if (count == 0) return;
  peers_.push_back(to);
  mpi_check(MPI_Isend(bytes, narrow<int>(count), MPI_BYTE, to, tag, comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Isend");
}

void MessageSet::receive(MPI_Comm comm, int from, int tag, std::byte* bytes, std::int64_t count) {
  if (count == 0) return;
  peers_.push_back(from);
  mpi_check(MPI_Irecv(bytes, narrow<int>(count), MPI_BYTE, from, tag, comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Irecv");
}

bool MessageSet::finished() {
  if (requests_.empty()) return true;
  ended_.resize(requests_.size());
  int count = 0;
  mpi_check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, ended_.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome");
  for (const MPI_Request request : requests_) {
    if (request != MPI_REQUEST_NULL) return false;
  }
  requests_.clear();
  peers_.clear();
  return true;
}

std::vector<int> MessageSet::unfinished() const {
  std::vector<int> peers;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) peers.push_back(peers_[i]);
  }
  return peers;
}

}  // namespace benchsuite
