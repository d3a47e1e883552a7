"""GPU activity from CUPTI without Kineto: kernels, copies, fills, CUDA calls, waits, CUDA graphs.

``library`` finds CUPTI and compiles ``native/cupti_engine.cpp``, ``engine`` records with it, ``decode`` turns its
records into columns, ``clock`` their times into ns since the epoch.  Nothing here imports torch.
"""
