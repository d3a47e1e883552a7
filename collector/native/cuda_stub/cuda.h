/* The few names of the CUDA driver API that CUPTI's headers mention.
 *
 * The nvidia-cuda-cupti wheel ships CUPTI's headers without cuda.h.  This folder is searched last
 * (-idirafter), so a real cuda.h wins wherever there is one.  Nothing here is passed by value except
 * CUuuid and the integers, whose sizes are part of the ABI.
 */
#ifndef PROFSUITE_CUDA_STUB_H
#define PROFSUITE_CUDA_STUB_H

#include <stddef.h>
#include <stdint.h>

#define CUDAAPI

typedef int CUresult;
typedef int CUdevice;
typedef int CUdevice_attribute;
typedef int CUfunc_cache;
typedef int CUsharedconfig;
typedef int CUgraphNodeType;
typedef int CUclusterSchedulingPolicy;
typedef int CUstreamAttrID;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef union CUstreamAttrValue_union CUstreamAttrValue;
typedef struct CUaccessPolicyWindow_st CUaccessPolicyWindow;
typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;

#endif
