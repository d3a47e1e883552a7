// The inputs of an op: packed into words in the callback, written as Kineto writes them afterwards.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "layouts.h"

namespace profsuite {

// A word a value: kind, element type, layout and number of dimensions (or of tensors, for a list), then the
// dimensions.  The kinds are those that Kineto tells apart.
enum class Input : uint64_t { OTHER, TENSOR, SCALAR, TENSOR_LIST, SCALAR_LIST };

class Packer {
 public:
  static constexpr size_t CAPACITY = 512;
  static constexpr size_t LONGEST_SCALAR_LIST = 30; // Kineto's limit: longer ones are no ScalarList to it

  // False where the inputs do not fit: no shapes then, rather than wrong ones.
  bool pack(c10::ArrayRef<const c10::IValue> values) {
    count_ = 0;
    for (const c10::IValue& value : values) {
      if (value.isTensor()) {
        add(value.toTensor());
      } else if (value.isScalar()) {
        put(Input::SCALAR, 0, 0);
      } else if (value.isList()) {
        add(value);
      } else {
        put(Input::OTHER, 0, 0);
      }
    }
    return count_ <= CAPACITY;
  }

  const uint64_t* words() const {
    return words_;
  }

  size_t count() const {
    return count_;
  }

 private:
  void put(uint64_t word) {
    if (count_ < CAPACITY) {
      words_[count_] = word;
    }
    ++count_;
  }

  void put(Input kind, uint64_t type, uint64_t num, uint64_t layout = 0) {
    put(static_cast<uint64_t>(kind) | type << 8 | layout << 16 | num << 32);
  }

  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_nested() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
      put(Input::OTHER, 0, 0);
      return;
    }
    const c10::IntArrayRef sizes = tensor.sizes();
    put(Input::TENSOR, static_cast<uint64_t>(tensor.scalar_type()), sizes.size(), static_cast<uint8_t>(tensor.layout()));
    for (const int64_t size : sizes) {
      put(static_cast<uint64_t>(size));
    }
  }

  void add(const c10::IValue& list) {
    const c10::ArrayRef<c10::IValue> items = list.toListRef();
    if (list.isTensorList()) {
      put(Input::TENSOR_LIST, 0, items.size());
      for (const c10::IValue& item : items) {
        add(item.toTensor());
      }
    } else if (items.empty() || (items[0].isScalar() && items.size() <= LONGEST_SCALAR_LIST)) {
      put(Input::SCALAR_LIST, 0, 0);
    } else {
      put(Input::OTHER, 0, 0);
    }
  }

  size_t count_ = 0;
  uint64_t words_[CAPACITY];
};

// Packed words back to Kineto's texts: [[8, 8], []] and ["float", "Scalar"]; the layouts likewise, "" where all tensors
// are strided.
class Unpacker {
 public:
  explicit Unpacker(const std::vector<uint64_t>& words) : words_(words) {
    while (at_ < words_.size()) {
      dims += dims.size() > 1 ? ", " : "";
      types += types.size() > 1 ? ", " : "";
      layouts += layouts.size() > 1 ? ", " : "";
      value();
    }
    dims += "]";
    types += "]";
    layouts = strided_ ? "" : layouts + "]";
  }

  std::string dims = "[";
  std::string types = "[";
  std::string layouts = "[";

 private:
  void value() {
    const uint64_t word = words_[at_];
    switch (static_cast<Input>(word & 0xFF)) {
      case Input::TENSOR: {
        tensor();
        const auto type = static_cast<c10::ScalarType>((word >> 8) & 0xFF);
        types += "\"" + std::string(c10::scalarTypeToTypeMeta(type).name()) + "\"";
        return;
      }
      case Input::TENSOR_LIST: {
        ++at_;
        dims += "[";
        layouts += "[";
        for (uint64_t i = 0; i < word >> 32; ++i) {
          dims += i > 0 ? ", " : "";
          layouts += i > 0 ? ", " : "";
          tensor();
        }
        dims += "]";
        layouts += "]";
        types += "\"TensorList\"";
        return;
      }
      case Input::SCALAR:
        types += "\"Scalar\"";
        break;
      case Input::SCALAR_LIST:
        types += "\"ScalarList\"";
        break;
      case Input::OTHER:
        types += "\"\"";
        break;
    }
    dims += "[]";
    layouts += "null";
    ++at_;
  }

  void tensor() { // one without sizes is a word of kind OTHER, whose number of dimensions is 0
    const uint64_t word = words_[at_++];
    const uint64_t rank = word >> 32;
    const auto layout = static_cast<c10::Layout>((word >> 16) & 0xFF);
    const bool known = static_cast<Input>(word & 0xFF) == Input::TENSOR;
    layouts += known ? layout_name(layout) : "null";
    strided_ &= !known || layout == c10::Layout::Strided;
    dims += "[";
    for (uint64_t i = 0; i < rank; ++i) {
      dims += (i > 0 ? ", " : "") + std::to_string(static_cast<int64_t>(words_[at_++]));
    }
    dims += "]";
  }

  const std::vector<uint64_t>& words_;
  size_t at_ = 0;
  bool strided_ = true;
};

} // namespace profsuite
