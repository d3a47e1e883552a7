// Layouts of tensors as torch names them: torch.strided, torch.sparse_coo.
#pragma once

#include <c10/core/Layout.h>

namespace profsuite {

inline const char* layout_name(c10::Layout layout) {
  switch (layout) {
    case c10::Layout::Strided:
      return "\"strided\"";
    case c10::Layout::Sparse:
      return "\"sparse_coo\"";
    case c10::Layout::SparseCsr:
      return "\"sparse_csr\"";
    case c10::Layout::SparseCsc:
      return "\"sparse_csc\"";
    case c10::Layout::SparseBsr:
      return "\"sparse_bsr\"";
    case c10::Layout::SparseBsc:
      return "\"sparse_bsc\"";
    case c10::Layout::Mkldnn:
      return "\"_mkldnn\"";
    case c10::Layout::Jagged:
      return "\"jagged\"";
    default:
      return "null";
  }
}

} // namespace profsuite
