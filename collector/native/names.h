// Interned texts: names of ops and annotations, and the inputs of ops.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace profsuite {

inline uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 32);
}

inline uint64_t hash_bytes(const char* text, size_t size, uint64_t seed) {
  uint64_t hash = mix(seed, size);
  uint64_t word = 0;
  if (size >= 8) {
    for (size_t at = 0; at + 8 <= size; at += 8) {
      std::memcpy(&word, text + at, 8);
      hash = mix(hash, word);
    }
    std::memcpy(&word, text + size - 8, 8); // the rest, over what was read already
  } else {
    std::memcpy(&word, text, size);
  }
  return mix(hash, word);
}

inline uint64_t hash_words(const uint64_t* words, size_t count) {
  uint64_t hash = mix(0, count);
  for (size_t i = 0; i < count; ++i) {
    hash = mix(hash, words[i]);
  }
  return hash;
}

struct Name {
  std::string text;
  uint64_t hash = 0;
  uint32_t id = 0;
  uint8_t scope = 0;
  bool collective = false;

  bool is(uint64_t h, const char* other, size_t size, uint8_t its_scope) const {
    return h == hash && its_scope == scope && size == text.size() && std::memcmp(other, text.data(), size) == 0;
  }
};

// What is interned stays where it is as long as the table lives: caches of threads point to it.
class Names {
 public:
  static constexpr size_t LIMIT = 1 << 18; // names made anew at every step must not fill the memory

  Names() {
    add("(other names)", 0, 0);
  }

  const Name* intern(uint64_t hash, const char* text, size_t size, uint8_t scope) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto range = index_.equal_range(hash);
    for (auto it = range.first; it != range.second; ++it) {
      if (it->second->is(hash, text, size, scope)) {
        return it->second;
      }
    }
    if (names_.size() >= LIMIT) {
      return scope == names_.front().scope ? &names_.front() : other(scope);
    }
    return add(std::string(text, size), hash, scope);
  }

  template <class Visit>
  size_t visit(Visit&& visit) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Name& name : names_) {
      visit(name);
    }
    return names_.size();
  }

 private:
  const Name* add(std::string text, uint64_t hash, uint8_t scope) {
    names_.push_back(Name{std::move(text), hash, static_cast<uint32_t>(names_.size()), scope, false});
    Name& name = names_.back();
    name.collective = scope == 0 && name.text.compare(0, 6, "c10d::") == 0;
    index_.emplace(hash, &name);
    return &name;
  }

  const Name* other(uint8_t scope) { // at most one a scope beyond the limit
    for (auto it = names_.begin() + LIMIT; it != names_.end(); ++it) {
      if (it->scope == scope) {
        return &*it;
      }
    }
    return add("(other names)", 0, scope);
  }

  std::mutex mutex_;
  std::deque<Name> names_;
  std::unordered_multimap<uint64_t, const Name*> index_;
};

// A signature is the inputs of an op, packed into words (see inputs.h).
struct Signature {
  std::vector<uint64_t> words;
  uint64_t hash = 0;
  uint32_t id = 0;

  bool is(uint64_t h, const uint64_t* other, size_t count) const {
    return h == hash && count == words.size() && std::memcmp(other, words.data(), count * sizeof(uint64_t)) == 0;
  }
};

class Signatures {
 public:
  static constexpr size_t LIMIT = 1 << 20;

  // nullptr where the table is full: the op is recorded without its shapes, and counted.
  const Signature* intern(uint64_t hash, const uint64_t* words, size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto range = index_.equal_range(hash);
    for (auto it = range.first; it != range.second; ++it) {
      if (it->second->is(hash, words, count)) {
        return it->second;
      }
    }
    if (signatures_.size() >= LIMIT) {
      return nullptr;
    }
    signatures_.push_back(Signature{{words, words + count}, hash, static_cast<uint32_t>(signatures_.size() + 1)});
    index_.emplace(hash, &signatures_.back());
    return &signatures_.back();
  }

  std::deque<const Signature*> all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::deque<const Signature*> found;
    for (const Signature& signature : signatures_) {
      found.push_back(&signature);
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::deque<Signature> signatures_;
  std::unordered_multimap<uint64_t, const Signature*> index_;
};

} // namespace profsuite
