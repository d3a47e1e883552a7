/* CUPTI's headers include this file of the CUDA runtime and use nothing of it. */
#ifndef PROFSUITE_BUILTIN_TYPES_STUB_H
#define PROFSUITE_BUILTIN_TYPES_STUB_H

#include <cuda.h>

#endif
