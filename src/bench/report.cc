#include "bench/report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <span>

#include <nlohmann/json.hpp>

#include "bench/figures.h"
#include "bench/text.h"
#include "machine/files.h"
#include "machine/host.h"

namespace rhizome::bench {
namespace {

constexpr int kWhatWidth = 46;
constexpr int kValueWidth = 16;
constexpr uint64_t kCpuTextMax = 4u << 20;

std::string figure_text(double value) {
  const bool whole = std::abs(value) >= 1000 || value == std::floor(value);
  return whole && value >= 0 ? with_commas(static_cast<uint64_t>(std::llround(value))) : fixed(value, 4);
}

std::string bound_value(double value) {
  return fixed(value, value == std::floor(value) ? 0 : 2);
}

std::string bound_text(const Bound& bound) {
  std::string text;
  if (bound.at_least) text += ">= " + bound_value(*bound.at_least);
  if (bound.at_least && bound.at_most) text += ", ";
  if (bound.at_most) text += "<= " + bound_value(*bound.at_most);
  return text;
}

std::string first_cpu_name() {
  const std::string text = read_text_file("/proc/cpuinfo", kCpuTextMax).value_or(std::string());
  const size_t line = text.find("model name");
  const size_t colon = line == std::string::npos ? line : text.find(": ", line);
  if (colon == std::string::npos) return "unknown";
  return text.substr(colon + 2, text.find('\n', colon) - colon - 2);
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  facts.cpu = first_cpu_name();
  facts.cpus = cpu_count();
  facts.memory_bytes = total_memory_bytes();
  utsname name = {};
  if (uname(&name) == 0) facts.system = std::string(name.sysname) + " " + name.release + " " + name.machine;
  return facts;
}

void Report::section(std::string_view title, std::string_view how, std::string_view left, std::string_view right) {
  if (table_ == nullptr) return;
  *table_ << "\n"
          << std::left << std::setw(kWhatWidth) << title << std::right << std::setw(kValueWidth) << left
          << std::setw(kValueWidth) << right << "\n";
  if (!how.empty()) *table_ << "  (" << how << ")\n";
  *table_ << std::flush;
}

void Report::row(std::string_view what, std::string_view stock, std::string_view ours) {
  if (table_ == nullptr) return;
  *table_ << "  " << std::left << std::setw(kWhatWidth - 2) << what << std::right << std::setw(kValueWidth) << stock
          << std::setw(kValueWidth) << ours << "\n"
          << std::flush;
}

void Report::note(std::string_view line) {
  if (table_ != nullptr) *table_ << "  " << line << "\n" << std::flush;
}

void Report::figure(const std::string& name, double value) {
  if (!std::isfinite(value)) {
    failure(name + " could not be measured");
    return;
  }
  if (!figures_.contains(name)) order_.push_back(name);
  figures_[name] = value;
}

std::optional<double> Report::figure_value(const std::string& name) const {
  const auto found = figures_.find(name);
  return found == figures_.end() ? std::nullopt : std::optional<double>(found->second);
}

void Report::failure(std::string_view what) {
  MutexLock lock(mutex_);
  ++failures_;
  std::cerr << "rhizome bench: FAILED: " << what << "\n";
}

bool Report::failed() const {
  MutexLock lock(mutex_);
  return failures_ > 0;
}

void Report::answered(std::string_view text) {
  const Digest digest = sha256(std::as_bytes(std::span(text)));
  MutexLock lock(mutex_);
  answered_.insert(digest);
}

std::string Report::checksum() const {
  Sha256 all;
  MutexLock lock(mutex_);
  for (const Digest& digest : answered_)
    all.update(digest);
  return hex(all.finish());
}

void Report::print_figures() {
  if (table_ == nullptr || order_.empty()) return;
  *table_ << "\n"
          << std::left << std::setw(kWhatWidth) << "figure" << std::right << std::setw(kValueWidth) << "value"
          << std::setw(kValueWidth + 4) << "bound" << "\n";
  for (const std::string& name : order_) {
    const double value = figures_.at(name);
    const Bound* bound = find_bound(name);
    *table_ << "  " << std::left << std::setw(kWhatWidth - 2) << name << std::right << std::setw(kValueWidth)
            << figure_text(value);
    if (bound != nullptr) {
      const bool met = holds(*bound, value);
      const char* verdict = !judged_ ? "(for a full run)" : met ? "met" : "SHORT";
      const char* color = !colored_ || !judged_ ? "" : met ? "\x1b[32m" : "\x1b[31m";
      *table_ << std::setw(kValueWidth + 4) << bound_text(*bound) << "  " << color << verdict
              << (*color == 0 ? "" : "\x1b[0m");
    }
    *table_ << "\n";
  }
  *table_ << std::flush;
}

std::string Report::json(std::string_view bench, const MachineFacts& machine) const {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  for (const std::string& name : order_) {
    const double value = figures_.at(name);
    if (value == std::floor(value) && std::abs(value) < 1e15) {
      figures[name] = static_cast<int64_t>(value);
    } else {
      figures[name] = value;
    }
  }
  nlohmann::ordered_json line;
  line["bench"] = bench;
  line["figures"] = std::move(figures);
  line["checksum"] = checksum();
  line["machine"] = {
      {"cpu", machine.cpu}, {"cpus", machine.cpus}, {"memory_bytes", machine.memory_bytes}, {"system", machine.system}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rhizome::bench
