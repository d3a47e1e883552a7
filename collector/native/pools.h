// Texts and values numbered by first appearance: what the extractor's columns hold.
#pragma once

#include "names.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace profsuite {

constexpr int64_t kNull = std::numeric_limits<int64_t>::min();

// The process of a host event.  Python frames of a thread on which torch has recorded nothing have
// neither process nor thread; Kineto's JSON gives them to this process all the same.
inline int64_t process_of(int64_t process) {
  return process ? process : static_cast<int64_t>(getpid());
}

struct HashText {
  size_t operator()(std::string_view text) const {
    return hash_bytes(text.data(), text.size(), 0);
  }
};

// Strings numbered by first appearance.
struct Pool {
  std::deque<std::string> words;
  std::unordered_map<std::string_view, int32_t, HashText> numbers;

  int32_t code(std::string_view text) {
    auto found = numbers.find(text);
    if (found != numbers.end()) {
      return found->second;
    }
    words.emplace_back(text);
    auto number = static_cast<int32_t>(words.size() - 1);
    numbers.emplace(words.back(), number);
    return number;
  }
};

// A value packed into words.  ``room`` before ``put``.
class Words {
 public:
  void clear() {
    end_ = words_.data();
  }

  // Makes room for so many words more.
  void room(size_t count) {
    const size_t used = size();
    if (used + count > words_.size()) {
      words_.resize(2 * (used + count));
      end_ = words_.data() + used;
    }
  }

  void put(uint64_t word) {
    *end_++ = word;
  }

  void put_all(const std::vector<int64_t>& values) {
    std::memcpy(end_, values.data(), values.size() * sizeof(int64_t));
    end_ += values.size();
  }

  void put_text(uint64_t kind, std::string_view text) {
    room(2 + text.size() / sizeof(uint64_t));
    put(kind | static_cast<uint64_t>(text.size()) << 32);
    for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min(sizeof(word), text.size() - at));
      put(word);
    }
  }

  const uint64_t* data() const {
    return words_.data();
  }

  size_t size() const {
    return static_cast<size_t>(end_ - words_.data());
  }

  uint64_t hash() const {
    // Two chains: a multiplication waits for the one before it.
    const size_t count = size();
    uint64_t even = count, odd = 0;
    size_t at = 0;
    for (; at + 2 <= count; at += 2) {
      even = mix(even, words_[at]);
      odd = mix(odd, words_[at + 1]);
    }
    return mix(even, at < count ? mix(odd, words_[at]) : odd);
  }

 private:
  std::vector<uint64_t> words_ = std::vector<uint64_t>(64);
  uint64_t* end_ = words_.data();
};

// What was made of a packed value when it appeared first: a table with open addressing, the words one after another.
template <typename Value>
class ByWords {
 public:
  template <typename Make>
  Value value(const Words& words, const Make& make) {
    const uint64_t hash = words.hash();
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      Slot& slot = slots_[at];
      if (slot.number < 0) {
        slot = {hash, static_cast<int64_t>(first_.size())};
        first_.push_back(all_.size());
        all_.insert(all_.end(), words.data(), words.data() + words.size());
        values_.push_back(make());
        const Value made = values_.back();
        if (values_.size() * 2 > slots_.size()) {
          grow();
        }
        return made;
      }
      if (slot.hash == hash && is(slot.number, words)) {
        return values_[slot.number];
      }
    }
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    int64_t number = -1;
  };

  std::vector<Slot> slots_ = std::vector<Slot>(256);
  std::vector<uint64_t> all_;
  std::vector<size_t> first_;
  std::vector<Value> values_;

  size_t mask() const {
    return slots_.size() - 1;
  }

  bool is(int64_t number, const Words& words) const {
    const auto begin = first_[number];
    const auto end = static_cast<size_t>(number) + 1 < first_.size() ? first_[number + 1] : all_.size();
    return end - begin == words.size() && std::equal(words.data(), words.data() + words.size(), all_.data() + begin);
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number >= 0) {
        size_t at = slot.hash & mask();
        while (slots_[at].number >= 0) {
          at = (at + 1) & mask();
        }
        slots_[at] = slot;
      }
    }
  }
};

} // namespace profsuite
