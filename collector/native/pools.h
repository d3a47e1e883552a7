// Texts and values numbered by first appearance: what the extractor's columns hold.
#pragma once

#include <unistd.h>

#include <cstdint>
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

// Strings numbered by first appearance.
struct Pool {
  std::deque<std::string> words;
  std::unordered_map<std::string_view, int32_t> numbers;

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

// Codes of a pool by the bytes of the value that a word is the text of.
struct ByValue {
  std::deque<std::string> keys;
  std::unordered_map<std::string_view, int32_t> codes;

  template <typename Text>
  int32_t code(const std::string& key, Pool& pool, const Text& text) {
    auto found = codes.find(key);
    if (found != codes.end()) {
      return found->second;
    }
    int32_t code = pool.code(text());
    keys.emplace_back(key);
    codes.emplace(keys.back(), code);
    return code;
  }
};

template <typename T>
void put(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline void put(std::string& key, const std::vector<int64_t>& values) {
  put(key, static_cast<uint32_t>(values.size()));
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
}

} // namespace profsuite
