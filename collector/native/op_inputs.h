// The inputs of ops as numbers of texts: shapes, strides, types, scalars, layouts.
//
// Equal inputs occur thousands of times.  They are packed into words, which are looked up; the texts are made once.
#pragma once

#include "layouts.h"
#include "pools.h"

#include <torch/csrc/profiler/collection.h>
#include <torch/csrc/profiler/util.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace profsuite {

using namespace torch::profiler::impl;

// Numbers of texts in the pools, -1 for none.
struct InputCodes {
  int32_t dims = -1, strides = -1, types = -1, concrete = -1, layouts = -1;
};

class OpInputs {
 public:
  Pool shapes, types, concretes;

  InputCodes take(const ExtraFields<EventType::TorchOp>& op) {
    if (op.inputs_.empty()) {
      return {};
    }
    const bool concrete = op.inputs_.size() == op.concrete_inputs_.size();
    tensors_.clear();
    scalars_.clear();
    for (size_t i = 0; i < op.inputs_.size(); i++) {
      const auto& input = op.inputs_[i];
      const c10::IValue* value = std::get_if<c10::IValue>(&input);
      uint64_t flags = value ? SCALAR : OTHER;
      if (concrete) {
        // A list of scalars is no input to torch but a concrete one; what is an input is not looked up there.
        if (std::holds_alternative<std::nullopt_t>(input)) {
          value = std::get_if<c10::IValue>(&op.concrete_inputs_[i]);
          flags = value ? LISTED : OTHER;
        }
        pack(value);
      }
      if (const auto* tensor = std::get_if<TensorMetadata>(&input)) {
        pack(*tensor, flags | TENSOR);
      } else if (const auto* list = std::get_if<std::vector<TensorMetadata>>(&input)) {
        tensors_.room(1);
        tensors_.put(flags | TENSOR_LIST | static_cast<uint64_t>(list->size()) << 32);
        for (const auto& tensor : *list) {
          pack(tensor, TENSOR);
        }
      } else {
        tensors_.room(1);
        tensors_.put(flags);
      }
    }
    InputCodes codes = by_tensors_.value(tensors_, [&] { return texts(op); });
    if (concrete) {
      codes.concrete = by_scalars_.value(scalars_, [&] { return concrete_text(op); });
    }
    return codes;
  }

 private:
  enum Kind : uint64_t { OTHER = 0, SCALAR = 1, TENSOR = 2, TENSOR_LIST = 4, LISTED = 8 };

  Words tensors_, scalars_;
  ByWords<InputCodes> by_tensors_;
  ByWords<int32_t> by_scalars_;

  void pack(const TensorMetadata& tensor, uint64_t kind) {
    const auto rank = tensor.sizes_.size();
    const auto num_strides = tensor.strides_.size(); // none for sparse tensors
    tensors_.room(2 + rank + num_strides);
    tensors_.put(kind | static_cast<uint64_t>(tensor.dtype_) << 8 | static_cast<uint64_t>(tensor.layout_) << 16 | rank << 32);
    tensors_.put(num_strides);
    tensors_.put_all(tensor.sizes_);
    tensors_.put_all(tensor.strides_);
  }

  // The scalar or list of scalars that an input is; null for none.
  void pack(const c10::IValue* value) {
    scalars_.room(2);
    if (!value || value->isNone()) {
      scalars_.put('-');
    } else if (value->isInt()) {
      scalars_.put('i');
      scalars_.put(static_cast<uint64_t>(value->toInt()));
    } else if (value->isDouble()) {
      const double number = value->toDouble();
      uint64_t bits = 0;
      std::memcpy(&bits, &number, sizeof(bits));
      scalars_.put('d');
      scalars_.put(bits);
    } else if (value->isBool()) {
      scalars_.put(value->toBool() ? 'T' : 'F');
    } else if (!value->isList() || !pack(value->toListRef())) {
      scalars_.put_text('x', ivalueToStr(*value, false));
    }
  }

  // False, and nothing is packed, unless all are integers.
  bool pack(c10::ArrayRef<c10::IValue> values) {
    for (const auto& value : values) {
      if (!value.isInt()) {
        return false;
      }
    }
    scalars_.room(1 + values.size());
    scalars_.put('I' | static_cast<uint64_t>(values.size()) << 32);
    for (const auto& value : values) {
      scalars_.put(static_cast<uint64_t>(value.toInt()));
    }
    return true;
  }

  InputCodes texts(const ExtraFields<EventType::TorchOp>& op) {
    InputCodes codes;
    codes.dims = shapes.code(shape_text(op.inputs_, true));
    codes.strides = shapes.code(shape_text(op.inputs_, false));
    codes.types = types.code(type_text(op));
    codes.layouts = strided(op.inputs_) ? -1 : types.code(layout_text(op.inputs_));
    return codes;
  }

  static bool strided(const std::vector<op_input_t>& inputs) {
    bool all = true;
    for (const auto& input : inputs) {
      if (const auto* tensor = std::get_if<TensorMetadata>(&input)) {
        all &= tensor->layout_ == c10::Layout::Strided;
      } else if (const auto* list = std::get_if<std::vector<TensorMetadata>>(&input)) {
        for (const auto& tensor : *list) {
          all &= tensor.layout_ == c10::Layout::Strided;
        }
      }
    }
    return all;
  }

  static std::string layout_text(const std::vector<op_input_t>& inputs) {
    std::string text = "[";
    for (const auto& input : inputs) {
      text += text.size() > 1 ? ", " : "";
      if (const auto* tensor = std::get_if<TensorMetadata>(&input)) {
        text += layout_name(tensor->layout_);
      } else if (const auto* list = std::get_if<std::vector<TensorMetadata>>(&input)) {
        text += '[';
        for (size_t i = 0; i < list->size(); i++) {
          text += i ? ", " : "";
          text += layout_name((*list)[i].layout_);
        }
        text += ']';
      } else {
        text += "null";
      }
    }
    return text + "]";
  }

  static std::string shape_text(const std::vector<op_input_t>& inputs, bool sizes) {
    std::vector<shape> texts(inputs.size());
    for (size_t i = 0; i < inputs.size(); i++) {
      if (const auto* tensor = std::get_if<TensorMetadata>(&inputs[i])) {
        texts[i] = sizes ? tensor->sizes_ : tensor->strides_;
      } else if (const auto* list = std::get_if<std::vector<TensorMetadata>>(&inputs[i])) {
        std::vector<std::vector<int64_t>> each;
        for (const auto& tensor : *list) {
          each.push_back(sizes ? tensor.sizes_ : tensor.strides_);
        }
        texts[i] = std::move(each);
      }
    }
    return variantShapesToStr(texts);
  }

  static std::string type_text(const ExtraFields<EventType::TorchOp>& op) {
    std::vector<std::string> texts(op.inputs_.size());
    bool concrete = op.inputs_.size() == op.concrete_inputs_.size();
    for (size_t i = 0; i < op.inputs_.size(); i++) {
      if (const auto* tensor = std::get_if<TensorMetadata>(&op.inputs_[i])) {
        texts[i] = std::string(c10::scalarTypeToTypeMeta(tensor->dtype_).name());
      } else if (std::holds_alternative<std::vector<TensorMetadata>>(op.inputs_[i])) {
        texts[i] = "TensorList";
      } else if (std::holds_alternative<c10::IValue>(op.inputs_[i])) {
        texts[i] = "Scalar";
      }
      if (concrete && std::holds_alternative<c10::IValue>(op.concrete_inputs_[i])) {
        texts[i] = "ScalarList";
      }
    }
    return strListToStr(texts);
  }

  int32_t concrete_text(const ExtraFields<EventType::TorchOp>& op) {
    std::vector<c10::IValue> values(op.inputs_.size());
    for (size_t i = 0; i < values.size(); i++) {
      if (const auto* list = std::get_if<c10::IValue>(&op.concrete_inputs_[i])) {
        values[i] = *list;
      } else if (const auto* value = std::get_if<c10::IValue>(&op.inputs_[i])) {
        values[i] = *value;
      }
    }
    return concretes.code(ivalueListToStr(values));
  }
};

// The inputs of a session's ops, taken out of each op before torch makes its own texts of them.
//
// Those texts are more than half of what a window takes, in memory and in time, and nothing here reads them.  The op
// keeps the number of its codes in place of its debug handle, which only mobile builds of torch use.
class EarlyInputs {
 public:
  OpInputs inputs;

  // For torch's event post-processing, which hands over a member of the op, and the value of another.
  void take(int64_t debug_handle, std::vector<std::string>& jit_stack) {
    constexpr size_t offset = offsetof(ExtraFields<EventType::TorchOp>, jit_stack_);
    auto& op = *reinterpret_cast<ExtraFields<EventType::TorchOp>*>(reinterpret_cast<char*>(&jit_stack) - offset);
    if (op.debug_handle_ != debug_handle) {
      return; // no op, but an event that a backend has reported
    }
    op.debug_handle_ = -1;
    if (!op.inputs_.empty()) {
      op.debug_handle_ = static_cast<int64_t>(codes_.size());
      codes_.push_back(inputs.take(op));
      std::vector<op_input_t>().swap(op.inputs_);
      std::vector<op_input_t>().swap(op.concrete_inputs_);
    }
  }

  InputCodes of(const ExtraFields<EventType::TorchOp>& op) const {
    return op.debug_handle_ < 0 ? InputCodes{} : codes_.at(static_cast<size_t>(op.debug_handle_));
  }

 private:
  std::vector<InputCodes> codes_;
};

} // namespace profsuite
