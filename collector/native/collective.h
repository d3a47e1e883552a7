// The arguments of a c10d op: which group, how much, of what.  gloo records no param_comms of its own.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#ifdef PROFSUITE_C10D
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

namespace profsuite {

struct Collective {
  std::string group_name;
  std::string group_description;
  std::string dtype;
  int64_t group_size = -1;
  int64_t rank = -1;
  int64_t sequence = -1;
  int64_t in_nelems = -1;
  int64_t out_nelems = -1;
  int64_t peer = -1; // of send and recv: the first integer after the group
  int8_t is_async = -1;
};

inline int64_t count_elements(const c10::IValue& value, std::string& dtype) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) {
      return 0;
    }
    if (dtype.empty()) {
      dtype = c10::toString(tensor.scalar_type());
    }
    return tensor.numel();
  }
  int64_t count = 0;
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      count += count_elements(item, dtype);
    }
  }
  return count;
}

// False where there is no process group among the inputs.  The schemas of c10d put outputs, inputs,
// the group and the options in this order; one tensor argument before the group is both.
inline bool read_collective(c10::ArrayRef<const c10::IValue> inputs, Collective& found) {
#ifdef PROFSUITE_C10D
  int64_t elements[2] = {-1, -1};
  size_t tensors = 0;
  bool seen = false;
  for (const c10::IValue& value : inputs) {
    if (!seen && value.isObject()) {
      const auto group = value.toCustomClass<c10d::ProcessGroup>();
      seen = true;
      found.group_name = group->getGroupName();
      found.group_description = group->getGroupDesc();
      found.group_size = group->getSize();
      found.rank = group->getRank();
      try {
        // The backend counts it once it is under way: this one is the next.
        found.sequence = static_cast<int64_t>(group->getSequenceNumberForGroup()) + 1;
      } catch (...) {
        found.sequence = -1; // a backend that does not count
      }
    } else if (!seen && (value.isTensor() || value.isList())) {
      if (tensors < 2) {
        elements[tensors++] = count_elements(value, found.dtype);
      }
    } else if (seen && value.isBool() && found.is_async < 0) {
      found.is_async = value.toBool() ? 1 : 0;
    } else if (seen && value.isInt() && found.peer < 0) {
      found.peer = value.toInt();
    }
  }
  found.out_nelems = elements[0];
  found.in_nelems = tensors > 1 ? elements[1] : elements[0];
  return seen;
#else
  (void)inputs;
  (void)found;
  return false;
#endif
}

} // namespace profsuite
