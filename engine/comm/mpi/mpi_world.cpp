#include "engine/comm/mpi/mpi_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <utility>

#include "engine/comm/mpi/mpi_exchange.h"
#include "engine/core/error.h"

namespace benchsuite {

namespace {

using namespace std::chrono_literals;

constexpr int kFailureTag = 1;
constexpr int kFirstGroupTag = 1 << 16;  // tags of group kind k: (k + 1) << 16 | sequence mod 2^16
constexpr auto kShortestNap = 20us, kLongestNap = 1000us;  // waiting costs no core, and little latency
constexpr auto kCheckEvery = 20ms;       // how often a waiting rank looks after its peers
constexpr auto kFailurePatience = 500ms; // how long a failing rank tries to tell the others

bool is_channel(GroupKind kind) {
  return kind == GroupKind::pipeline_forward || kind == GroupKind::pipeline_backward;
}

std::string in_words(const Group& group) {
  return fmt::format("{} group {{{}}}", name_of(group.kind), fmt::join(group.ranks, ", "));
}

/// What identifies the process behind a rank.
struct Process {
  std::array<char, 256> host{};
  pid_t id = 0;
};

}  // namespace

class MpiWorld::State {
 public:
  State();
  ~State();

  GroupId join(const Group& group);
  Ticket arrive(GroupId group, std::uint32_t sequence, const CollectiveCall& call);
  std::uint64_t progress();
  std::vector<Bytes> exchange(Bytes part);
  /// Throws when a peer has said that it failed or is gone. `doing` is what this rank waits for.
  void look_after_peers(const std::function<std::string()>& doing);
  void tell_failure(const std::string& message);
  /// Sleeps until `ready`, looking after the peers.
  template <class Ready>
  void sleep_until(Ready ready, const std::function<std::string()>& doing);

  int rank = 0, ranks = 0;
  bool ended_well = false, failed = false;

 private:
  void share_processes();

  MPI_Comm collectives_ = MPI_COMM_NULL, host_ = MPI_COMM_NULL, failures_ = MPI_COMM_NULL;
  std::vector<Process> processes_;  // by rank
  std::vector<Group> groups_;
  std::vector<std::shared_ptr<MpiExchange>> pool_, active_;
  std::uint64_t completed_ = 0;
  /// Of the exchange under way; here, because MPI still uses them when a failure is told.
  struct {
    Bytes own;
    int size = 0;
    std::vector<int> sizes, offsets;
    Bytes all;
  } exchange_;
};

MpiWorld::State::State() {
  int provided = 0;
  mpi_check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  for (MPI_Comm* comm : {&collectives_, &host_, &failures_}) {
    mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
  }
  share_processes();
}

void MpiWorld::State::share_processes() {
  Process self;
  ::gethostname(self.host.data(), self.host.size() - 1);
  self.id = ::getpid();
  processes_.resize(static_cast<std::size_t>(ranks));
  mpi_check(MPI_Allgather(&self, sizeof self, MPI_BYTE, processes_.data(), sizeof self, MPI_BYTE, host_),
            "MPI_Allgather");
}

MpiWorld::State::~State() {
  if (ended_well && !failed) MPI_Finalize();
}

Communicator::GroupId MpiWorld::State::join(const Group& group) {
  const auto found = std::find(groups_.begin(), groups_.end(), group);
  const auto id = static_cast<GroupId>(found - groups_.begin());
  if (found != groups_.end()) return id;
  CHECK(!group.ranks.empty()) << "an empty " << name_of(group.kind) << " group";
  for (const int member : group.ranks) {
    CHECK(member >= 0 && member < ranks) << in_words(group) << " in a world of " << ranks << " ranks";
    CHECK(std::count(group.ranks.begin(), group.ranks.end(), member) == 1) << in_words(group) << " holds a rank twice";
  }
  for (const Group& other : groups_) {
    if (other.kind != group.kind || is_channel(group.kind)) continue;
    const auto shared = std::count_if(group.ranks.begin(), group.ranks.end(), [&](int member) {
      return std::find(other.ranks.begin(), other.ranks.end(), member) != other.ranks.end();
    });
    CHECK(shared < 2) << in_words(group) << " and " << in_words(other) << " share two ranks";
  }
  groups_.push_back(group);
  return id;
}

Communicator::Ticket MpiWorld::State::arrive(GroupId id, std::uint32_t sequence, const CollectiveCall& call) {
  CHECK(id < groups_.size()) << "group " << id << " was not joined";
  const Group& group = groups_[id];
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank);
  CHECK(place != group.ranks.end()) << "rank " << rank << " is not in " << in_words(group);
  const auto free = std::find_if(pool_.begin(), pool_.end(), [](const auto& exchange) { return exchange.use_count() == 1; });
  const std::shared_ptr<MpiExchange> exchange =
      free != pool_.end() ? *free : pool_.emplace_back(std::make_shared<MpiExchange>());
  const int tag = (static_cast<int>(group.kind) + 1) * kFirstGroupTag | static_cast<int>(sequence & 0xFFFFu);
  exchange->begin(collectives_, group, static_cast<std::size_t>(place - group.ranks.begin()), sequence, tag, call);
  if (exchange->progress()) {
    ++completed_;
  } else {
    active_.push_back(exchange);
  }
  return exchange;
}

std::uint64_t MpiWorld::State::progress() {
  std::erase_if(active_, [&](const auto& exchange) {
    const bool ended = exchange->progress();
    completed_ += ended ? 1 : 0;
    return ended;
  });
  return completed_;
}

void MpiWorld::State::look_after_peers(const std::function<std::string()>& doing) {
  int there = 0;
  MPI_Status status;
  mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, kFailureTag, failures_, &there, &status), "MPI_Iprobe");
  if (there != 0) {
    int size = 0;
    MPI_Get_count(&status, MPI_CHAR, &size);
    std::string message(static_cast<std::size_t>(size), ' ');
    mpi_check(MPI_Recv(message.data(), size, MPI_CHAR, status.MPI_SOURCE, kFailureTag, failures_, MPI_STATUS_IGNORE),
              "MPI_Recv");
    throw Error(Error::Kind::run, fmt::format("rank {} stops because rank {} failed: {}", rank, status.MPI_SOURCE, message));
  }
  const Process& self = processes_[static_cast<std::size_t>(rank)];
  for (int peer = 0; peer < ranks; ++peer) {
    const Process& process = processes_[static_cast<std::size_t>(peer)];
    if (peer == rank || process.host != self.host) continue;
    if (::kill(process.id, 0) == 0 || errno != ESRCH) continue;
    const std::string all = doing();  // of all streams; the first says where in the step the rank is
    throw Error(Error::Kind::run, fmt::format("rank {} stops because rank {} is gone (process {} on {} ended), at {}", rank,
                                              peer, process.id, process.host.data(), all.substr(0, all.find(';'))));
  }
}

template <class Ready>
void MpiWorld::State::sleep_until(Ready ready, const std::function<std::string()>& doing) {
  auto nap = std::chrono::microseconds(kShortestNap);
  auto next_check = Clock::now() + kCheckEvery;
  while (!ready()) {
    if (Clock::now() >= next_check) {
      look_after_peers(doing);
      next_check = Clock::now() + kCheckEvery;
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap + nap / 2, std::chrono::microseconds(kLongestNap));
  }
}

std::vector<Communicator::Bytes> MpiWorld::State::exchange(Bytes part) {
  const std::function<std::string()> doing = [] { return std::string("waiting for the others between steps"); };
  const auto world = static_cast<std::size_t>(ranks);
  const auto finish = [&](MPI_Request& request) {
    sleep_until(
        [&] {
          int flag = 0;
          mpi_check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
          return flag != 0;
        },
        doing);
  };
  auto& [own, size, sizes, offsets, all] = exchange_;
  own = std::move(part);
  size = narrow<int>(own.size());
  sizes.resize(world);
  offsets.resize(world);
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(MPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, host_, &request), "MPI_Iallgather");
  finish(request);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < world; ++i) {
    offsets[i] = narrow<int>(total);
    total += sizes[i];
  }
  all.resize(static_cast<std::size_t>(narrow<int>(total)));
  mpi_check(MPI_Iallgatherv(own.data(), size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE, host_, &request),
            "MPI_Iallgatherv");
  finish(request);
  std::vector<Bytes> parts;
  for (std::size_t i = 0; i < world; ++i) {
    parts.emplace_back(all.begin() + offsets[i], all.begin() + offsets[i] + sizes[i]);
  }
  return parts;
}

void MpiWorld::State::tell_failure(const std::string& message) {
  std::vector<MPI_Request> requests;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    MPI_Request& request = requests.emplace_back(MPI_REQUEST_NULL);
    MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_CHAR, peer, kFailureTag, failures_, &request);
  }
  const auto until = Clock::now() + kFailurePatience;
  for (int flag = 0; flag == 0 && Clock::now() < until;) {
    if (MPI_Testall(static_cast<int>(requests.size()), requests.data(), &flag, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return;
    std::this_thread::sleep_for(1ms);
  }
}

bool MpiWorld::launched() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr; }

MpiWorld::MpiWorld() : state_(std::make_unique<State>()) {}
MpiWorld::~MpiWorld() = default;

int MpiWorld::rank() const { return state_->rank; }
int MpiWorld::ranks() const { return state_->ranks; }
Communicator::GroupId MpiWorld::join(const Group& group) { return state_->join(group); }

Communicator::Ticket MpiWorld::arrive(int rank, GroupId group, std::uint32_t sequence, const CollectiveCall& call) {
  CHECK(rank == state_->rank) << "rank " << rank << " in the process of rank " << state_->rank;
  return state_->arrive(group, sequence, call);
}

std::uint64_t MpiWorld::completions(int) { return state_->progress(); }

void MpiWorld::wait(int, std::uint64_t seen, std::function<std::string()> describe) {
  state_->sleep_until([&] { return state_->progress() != seen; }, describe);
}

std::string MpiWorld::missing(const Rendezvous& rendezvous) const {
  const auto& exchange = static_cast<const MpiExchange&>(rendezvous);
  return fmt::format("{} {} of {}, where messages of rank {} are missing", name_of(exchange.kind()), exchange.sequence(),
                     in_words(exchange.group()), fmt::join(exchange.absent(), ", "));
}

Communicator::Clock::time_point MpiWorld::begin_step(int) { return Clock::now(); }

std::vector<Communicator::Bytes> MpiWorld::exchange(int, Bytes part) { return state_->exchange(std::move(part)); }

void MpiWorld::run_as(int, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    // Only where it was thrown: further out, memory of messages under way may be gone, and MPI must not be called any more.
    if (!std::exchange(state_->failed, true)) state_->tell_failure(error.what());
    throw;
  }
  state_->ended_well = true;
}

}  // namespace benchsuite
