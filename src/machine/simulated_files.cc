#include "machine/simulated_files.h"

#include <algorithm>
#include <set>

#include "contract/check.h"
#include "machine/thread.h"

namespace rhizome {

constexpr size_t kPage = kDirectAlignment;
constexpr size_t kLogMax = 1 << 20;

struct SimulatedFiles::Node {
  std::vector<std::byte> bytes;
  std::vector<std::byte> synced;
  std::set<uint64_t> dirty;  // pages

  void write(uint64_t offset, std::span<const std::byte> from) {
    if (bytes.size() < offset + from.size()) bytes.resize(offset + from.size());
    std::copy(from.begin(), from.end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
    for (uint64_t page = offset / kPage; from.size() > 0 && page <= (offset + from.size() - 1) / kPage; ++page)
      dirty.insert(page);
  }
  void sync() {
    synced.resize(bytes.size());
    for (const uint64_t page : dirty)
      copy_page(page);
    dirty.clear();
  }
  void copy_page(uint64_t page) {
    const size_t first = page * kPage;
    const size_t end = std::min(first + kPage, std::min(bytes.size(), synced.size()));
    if (first < end) std::copy(bytes.data() + first, bytes.data() + end, synced.data() + first);
  }
  // The length is the file system's own affair, and kept in order by it.
  void cut_power(std::mt19937_64& random) {
    synced.resize(bytes.size());
    for (const uint64_t page : dirty)
      if (random() % 2 == 0) copy_page(page);
    bytes = synced;
    dirty.clear();
  }
};

// One call at a time: what is done inside is short.
class SimulatedFiles::Guard {
 public:
  explicit Guard(const SimulatedFiles& files) : busy_(files.busy_) {
    while (busy_.test_and_set(std::memory_order_acquire))  // pairs with the release below
      yield_thread();
  }
  ~Guard() { busy_.clear(std::memory_order_release); }  // pairs with the acquire above
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  std::atomic_flag& busy_;
};

class SimulatedFile final : public File {
 public:
  using Guard = SimulatedFiles::Guard;
  using Node = SimulatedFiles::Node;

  SimulatedFile(SimulatedFiles& files, std::string path, Node& node, bool can_write)
      : files_(files), path_(std::move(path)), node_(node), can_write_(can_write), life_(files.life_) {}

  ~SimulatedFile() override {
    const Guard guard(files_);
    if (life_ == files_.life_) (void)files_.begin(FileCall::kClose, path_, 0, 0);
  }

  Result<size_t> read_at(uint64_t offset, std::span<std::byte> into) override {
    const Guard guard(files_);
    const FileFault fault = begin(FileCall::kRead, offset, into.size());
    if (fault != FileFault::kNone && fault != FileFault::kShort && fault != FileFault::kLostWrite)
      return fail(SimulatedFiles::error_of(fault, FileCall::kRead));
    size_t count = offset >= node_.bytes.size() ? 0 : std::min<size_t>(into.size(), node_.bytes.size() - offset);
    if (fault == FileFault::kShort) count = count / 2 / kPage * kPage;
    std::copy_n(node_.bytes.begin() + static_cast<ptrdiff_t>(count > 0 ? offset : 0), count, into.begin());
    return count;
  }

  Result<size_t> write_at(uint64_t offset, std::span<const std::byte> from) override {
    const Guard guard(files_);
    const FileFault fault = begin(FileCall::kWrite, offset, from.size());
    if (!can_write_ || files_.is_read_only_) return fail(Code::kPermissionDenied, "the file cannot be written");
    if (fault == FileFault::kLostWrite) return from.size();
    if (fault == FileFault::kNone) {
      node_.write(offset, from);
      return from.size();
    }
    if (fault == FileFault::kShort) {
      const size_t half = from.size() / 2 / kPage * kPage;
      node_.write(offset, from.first(half));
      return half;
    }
    if (life_ == files_.life_ && (!files_.is_dead_ || was_killed_now_)) tear(offset, from);
    return fail(SimulatedFiles::error_of(fault, FileCall::kWrite));
  }

  Status sync_data() override {
    const Guard guard(files_);
    const FileFault fault = begin(FileCall::kSyncData, 0, 0);
    if (fault == FileFault::kLostWrite) return {};
    if (fault != FileFault::kNone) return fail(SimulatedFiles::error_of(fault, FileCall::kSyncData));
    node_.sync();
    return {};
  }

  Status truncate(uint64_t bytes) override { return resize(FileCall::kTruncate, bytes); }

  Status allocate(uint64_t bytes) override { return resize(FileCall::kAllocate, bytes); }

  Result<uint64_t> size() override {
    const Guard guard(files_);
    const FileFault fault = begin(FileCall::kSize, 0, 0);
    if (fault != FileFault::kNone && fault != FileFault::kLostWrite)
      return fail(SimulatedFiles::error_of(fault, FileCall::kSize));
    return node_.bytes.size();
  }

  bool is_direct() const override { return true; }
  int descriptor() const override { return -1; }

 private:
  FileFault begin(FileCall call, uint64_t offset, uint64_t bytes) {
    if (life_ != files_.life_) return FileFault::kKill;
    const bool was_dead = files_.is_dead_;
    const FileFault fault = files_.begin(call, path_, offset, bytes);
    was_killed_now_ = !was_dead && files_.is_dead_;
    return fault;
  }

  // Some pages are there and some are not.
  void tear(uint64_t offset, std::span<const std::byte> from) {
    for (size_t at = 0; at < from.size(); at += kPage)
      if (files_.random_() % 2 == 0) node_.write(offset + at, from.subspan(at, std::min(kPage, from.size() - at)));
  }

  Status resize(FileCall call, uint64_t bytes) {
    const Guard guard(files_);
    const FileFault fault = begin(call, 0, bytes);
    if (!can_write_ || files_.is_read_only_) return fail(Code::kPermissionDenied, "the file cannot be written");
    if (fault != FileFault::kNone && fault != FileFault::kLostWrite) return fail(SimulatedFiles::error_of(fault, call));
    const uint64_t before = node_.bytes.size();
    if (call == FileCall::kAllocate && bytes <= before) return {};
    if (bytes > before && files_.allocated_bytes() + (bytes - before) > files_.room_bytes_)
      return fail(Code::kResourceExhausted, "no room for the file");
    node_.bytes.resize(bytes);
    node_.synced.resize(bytes);
    return {};
  }

  SimulatedFiles& files_;
  const std::string path_;
  Node& node_;
  const bool can_write_;
  const uint64_t life_;
  bool was_killed_now_ = false;
};

class SimulatedLock final : public DirectoryLock {
 public:
  SimulatedLock(SimulatedFiles& files, std::string path) : files_(files), path_(std::move(path)), life_(files.life_) {}
  ~SimulatedLock() override {
    const SimulatedFiles::Guard guard(files_);
    if (life_ == files_.life_) std::erase(files_.locks_, path_);
  }

 private:
  SimulatedFiles& files_;
  const std::string path_;
  const uint64_t life_;
};

std::string_view file_call_name(FileCall call) {
  constexpr std::string_view kNames[] = {"make_directory", "open",     "rename", "remove", "list",
                                         "sync_directory", "lock",     "read",   "write",  "sync_data",
                                         "truncate",       "allocate", "size",   "close"};
  return kNames[static_cast<size_t>(call)];
}

SimulatedFiles::SimulatedFiles(uint64_t seed) : random_(seed) {}
SimulatedFiles::~SimulatedFiles() = default;

FileFault SimulatedFiles::begin(FileCall call, const std::string& path, uint64_t offset, uint64_t bytes) {
  const uint64_t number = calls_++;
  if (log_.size() < kLogMax) log_.push_back({call, path, offset, bytes});
  if (is_dead_) return FileFault::kKill;
  FileFault fault = FileFault::kNone;
  if (number == fault_at_) {
    fault = fault_;
    has_fired_ = true;
  }
  if (chance_ > 0 && std::generate_canonical<double, 32>(random_) < chance_) fault = chance_fault_;
  if (fault == FileFault::kKill) is_dead_ = true;
  const bool is_write = call == FileCall::kWrite || call == FileCall::kSyncData || call == FileCall::kTruncate;
  if (fault == FileFault::kLostWrite && !is_write) fault = FileFault::kNone;
  return fault;
}

Error SimulatedFiles::error_of(FileFault fault, FileCall call) {
  const bool takes_room = call == FileCall::kWrite || call == FileCall::kAllocate || call == FileCall::kOpen ||
                          call == FileCall::kMakeDirectory || call == FileCall::kLock || call == FileCall::kSyncData;
  if (fault == FileFault::kNoSpace && takes_room) return {Code::kResourceExhausted, "an injected ENOSPC"};
  return {Code::kDataLoss, "an injected EIO"};
}

uint64_t SimulatedFiles::allocated_bytes() const {
  uint64_t sum = 0;
  for (const auto& [path, node] : names_)
    sum += node->bytes.size();
  return sum;
}

Status SimulatedFiles::make_directory(const std::string& path) {
  const Guard guard(*this);
  const FileFault fault = begin(FileCall::kMakeDirectory, path, 0, 0);
  if (fault != FileFault::kNone) return fail(error_of(fault, FileCall::kMakeDirectory));
  if (std::find(directories_.begin(), directories_.end(), path) != directories_.end()) return {};
  if (is_read_only_) return fail(Code::kPermissionDenied, "the file system cannot be written");
  directories_.push_back(path);
  return {};
}

Result<std::unique_ptr<File>> SimulatedFiles::open(const std::string& path, OpenMode mode) {
  const Guard guard(*this);
  const FileFault fault = begin(FileCall::kOpen, path, 0, 0);
  if (fault != FileFault::kNone) return fail(error_of(fault, FileCall::kOpen));
  const bool creates = mode == OpenMode::kCreate || mode == OpenMode::kCreateDirect;
  const bool reads_only = mode == OpenMode::kRead || mode == OpenMode::kReadDirect;
  const auto found = names_.find(path);
  if (found != names_.end() && creates) return fail(Code::kAlreadyExists, "there is such a file");
  if (found == names_.end() && !creates) return fail(Code::kNotFound, "there is no such file");
  if (!reads_only && is_read_only_) return fail(Code::kPermissionDenied, "the file system cannot be written");
  Node* node = nullptr;
  if (creates) {
    node = nodes_.emplace_back(std::make_unique<Node>()).get();
    names_[path] = node;
  } else {
    node = found->second;
  }
  return std::make_unique<SimulatedFile>(*this, path, *node, !reads_only);
}

Status SimulatedFiles::rename(const std::string& from, const std::string& to) {
  const Guard guard(*this);
  const FileFault fault = begin(FileCall::kRename, from, 0, 0);
  if (fault != FileFault::kNone) return fail(error_of(fault, FileCall::kRename));
  if (is_read_only_) return fail(Code::kPermissionDenied, "the file system cannot be written");
  const auto found = names_.find(from);
  if (found == names_.end()) return fail(Code::kNotFound, "there is no such file");
  names_[to] = found->second;
  names_.erase(from);
  return {};
}

Status SimulatedFiles::remove(const std::string& path) {
  const Guard guard(*this);
  const FileFault fault = begin(FileCall::kRemove, path, 0, 0);
  if (fault != FileFault::kNone) return fail(error_of(fault, FileCall::kRemove));
  if (is_read_only_) return fail(Code::kPermissionDenied, "the file system cannot be written");
  if (names_.erase(path) == 0) return fail(Code::kNotFound, "there is no such file");
  return {};
}

Result<std::vector<std::string>> SimulatedFiles::list(const std::string& path) {
  const Guard guard(*this);
  const FileFault fault = begin(FileCall::kList, path, 0, 0);
  if (fault != FileFault::kNone) return fail(error_of(fault, FileCall::kList));
  std::vector<std::string> found;
  for (const auto& [name, node] : names_)
    if (name.starts_with(path + "/")) found.push_back(name.substr(path.size() + 1));
  return found;
}

Status SimulatedFiles::sync_directory(const std::string& path) {
  const Guard guard(*this);
  const FileFault fault = begin(FileCall::kSyncDirectory, path, 0, 0);
  if (fault != FileFault::kNone) return fail(error_of(fault, FileCall::kSyncDirectory));
  synced_names_ = names_;
  return {};
}

Result<std::unique_ptr<DirectoryLock>> SimulatedFiles::lock_directory(const std::string& path) {
  const Guard guard(*this);
  const FileFault fault = begin(FileCall::kLock, path, 0, 0);
  if (fault != FileFault::kNone) return fail(error_of(fault, FileCall::kLock));
  if (is_read_only_) return fail(Code::kPermissionDenied, "the file system cannot be written");
  if (std::find(locks_.begin(), locks_.end(), path) != locks_.end())
    return fail(Code::kAlreadyExists, "a living process has the directory");
  locks_.push_back(path);
  return std::make_unique<SimulatedLock>(*this, path);
}

bool SimulatedFiles::is_locked(const std::string& path) {
  const Guard guard(*this);
  return std::find(locks_.begin(), locks_.end(), path) != locks_.end();
}

void SimulatedFiles::inject(uint64_t calls, FileFault fault) {
  const Guard guard(*this);
  fault_at_ = calls_ + calls;
  fault_ = fault;
  has_fired_ = false;
}

bool SimulatedFiles::has_fired() const {
  const Guard guard(*this);
  return has_fired_;
}

void SimulatedFiles::set_chance(double chance, FileFault fault) {
  const Guard guard(*this);
  chance_ = chance;
  chance_fault_ = fault;
}

uint64_t SimulatedFiles::calls_count() const {
  const Guard guard(*this);
  return calls_;
}

std::vector<FileCallLog> SimulatedFiles::take_log() {
  const Guard guard(*this);
  return std::exchange(log_, {});
}

void SimulatedFiles::restart() {
  locks_.clear();
  fault_at_ = UINT64_MAX;
  chance_ = 0;
  is_dead_ = false;
  ++life_;
}

void SimulatedFiles::cut_power() {
  const Guard guard(*this);
  for (const std::unique_ptr<Node>& node : nodes_)
    node->cut_power(random_);
  // Each name that was changed since the last sync is old or new.
  std::set<std::string> all;
  for (const auto& [path, node] : names_)
    all.insert(path);
  for (const auto& [path, node] : synced_names_)
    all.insert(path);
  for (const std::string& path : all) {
    const auto now = names_.find(path);
    const auto synced = synced_names_.find(path);
    Node* const node_now = now == names_.end() ? nullptr : now->second;
    Node* const node_synced = synced == synced_names_.end() ? nullptr : synced->second;
    Node* const kept = node_now == node_synced || random_() % 2 == 0 ? node_now : node_synced;
    if (kept == nullptr) {
      names_.erase(path);
    } else {
      names_[path] = kept;
    }
  }
  synced_names_ = names_;
  restart();
}

void SimulatedFiles::end_process() {
  const Guard guard(*this);
  restart();
}

void SimulatedFiles::set_read_only(bool is_read_only) {
  const Guard guard(*this);
  is_read_only_ = is_read_only;
}

void SimulatedFiles::set_room_bytes(uint64_t bytes) {
  const Guard guard(*this);
  room_bytes_ = bytes;
}

Result<uint64_t> SimulatedFiles::room_bytes(const std::string&) {
  const Guard guard(*this);
  return room_bytes_ - std::min(room_bytes_, allocated_bytes());
}

void SimulatedFiles::unlink(const std::string& path) {
  const Guard guard(*this);
  names_.erase(path);
  synced_names_.erase(path);
}

std::vector<std::byte> SimulatedFiles::contents(const std::string& path) const {
  const Guard guard(*this);
  const auto found = names_.find(path);
  return found == names_.end() ? std::vector<std::byte>() : found->second->bytes;
}

void SimulatedFiles::set_contents(const std::string& path, std::span<const std::byte> bytes) {
  const Guard guard(*this);
  const auto found = names_.find(path);
  RHIZOME_CHECK(found != names_.end());
  found->second->bytes.assign(bytes.begin(), bytes.end());
  found->second->synced = found->second->bytes;
  found->second->dirty.clear();
}

std::vector<std::string> SimulatedFiles::paths() const {
  const Guard guard(*this);
  std::vector<std::string> all;
  for (const auto& [path, node] : names_)
    all.push_back(path);
  return all;
}

}  // namespace rhizome
