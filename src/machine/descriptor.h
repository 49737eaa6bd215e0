// Descriptor: a number that the kernel gave for something open, closed on destruction.
//
// Thread-safety: belongs to one thread at a time.
#pragma once

#include <utility>

#include <unistd.h>

namespace rhizome {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes it; a negative one is none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = other.release();
    }
    return *this;
  }

  bool is_open() const { return number_ >= 0; }
  // Negative for none; valid as long as the object is.
  int number() const { return number_; }
  // The caller closes it from now on.
  int release() { return std::exchange(number_, -1); }
  void reset() {
    // Linux closes even when close() is interrupted, so there is nothing to retry.
    if (const int number = release(); number >= 0) ::close(number);
  }

 private:
  int number_ = -1;
};

}  // namespace rhizome
