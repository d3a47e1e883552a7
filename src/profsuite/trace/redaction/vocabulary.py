"""Words that names of ops and kernels are made of: no names of people or machines, even where somebody has one.

A user called adam does not make an optimizer of it less.  The words are those of torch 2.13's ops
(``torch._C._dispatch_get_all_op_names``) and of kernels of its libraries, from three to twelve letters.
"""

from __future__ import annotations

from typing import Final

_WORDS: Final = """
abs absolute acceptable access accumulate acl aclnnaddmm aclnncast aclnndivs aclnnmm aclnnmuls aclnnnllloss
aclnntopk acos acosh activation adagrad adam adamfunctor adammode adamw adaptive add addbmm addcdiv addcmul
addfunctor addmm addmv addr adjoint affine ailk airy aligned alignment alik all allclose allgather alloc allreduce
alltoall along alpha amax ambiguous amin aminmax amp ampere and angle annotate anonymous any apply arange arccos
arccosh arcsin arcsinh arctan arctanh argmax argmin args argsort argwhere arithmetic array arrayref asin asinh
assert async asynchronous atan atanh aten atleast atol attention attn auto autocast autograd available average avg
axis backward baddbmm bag barrier bartlett base batch batched bbs bernoulli bessel beta bias biasm biastype bilinear
bin binary bincount binomial bins bitmatrix bitwise bjlk blackman bljk block bmm bool bounds broadcast bsc bsr
bucket bucketize buffer bwd byte bytecode bytes cache cachemask calc can cartesian cask cast cat cauchy cbrt ccol
cdist ceil cell celu center cgemm chain chalf channel char chebyshev check choice cholesky choose chunk cijk
circular clamp clamplimits clear clip clmp clone cnn coalesce coalesced codegen col collapse collect column
combination combinations combined comms comp compare compatible compiled complete complex compress compressed
compute concat concatenate cond conditional conj consecutive const constant constrain contig contiguous conv convert
convolution convolve coo copy copysign corrcoef correction cos cosh cosine count counts cov cppnode cpu create cross
crow csc cslt csr cta ctc cts cub cublas cublaslt cuda cudafree cudafunctor cudamalloc cudamemcpy cudnn cudnnstatus
cufft cummax cummaxmin cummin cumprod cumsum cumulative cunn cutlass data dataloader ddp debug debugprims decimals
decltype default defaults delta dense dep deprecated depthwise dequantize destroy det detach detail dev device dgrad
diag diagflat diagonal dict diff digamma dilation dim dimi dims dimv direct dirichlet dispatch dist distance
distributed distribution div divfunctor divide divisor dot double draw dropout dsplit dstack dtensor dtod dtoh dtype
dtypes dual dummy dyn dynamic dynbatch edges ediv eensn eff efficient eig eigenvalues eigh eigvals eigvalsh einsum
element elementwise elemt elu embed embedding embs empty enable encoder engine engines enter entr entropy enum
enumerate epilogue equal equality equally erf erfc erfcx erfinv errors euclidean evaluate event example except
execute execution exists exit exp expand expit explicit exponential export eye factor fake fallback false fbgemm
feature features fft fftfreq fftn fftshift file fill filled fillfunctor filter finalize find finite first fix
fixeddivisor flash flashinfer flatten flip fliplr flipud float floating floatlist floor fmax fmin fmod fns fnso fold
foobar for foreach format forward fprop frac fractional fresh frexp frobenius from full fullcoverage func function
functional functor functorch fused fwd gamma gammainc gammaincc gammaln gather gcd gcgemm gelu gelutype gemm gemmsn
gemvnsp gemvx generator geometric geqrf ger get gkgs globalkernel glu gpu grad gradient gradients greater grid group
grouped groups gru gsuamb gsuambsk half hamming hann hardshrink hardsigmoid hardswish hardtanh has hash head
headeronly heaviside helper hermite hfft hfftn hinge hip hipinit hipmalloc hipmemset histc histogram histogramdd hot
householder hsplit hspmm hstack htod huber hypot iand idx ifft ifftn ifftshift igamma igammac igemm ihfft ihfftn
ilshift imag impl implicit index indexed indexing indice indices inductor infer inference infinitely info init
initialize inner inplace input inputvalue insf instance int interface interior interleave internal intlist into ints
inv invalid inverse invert invstd ior iota irecv irfft irfftn irshift isclose isend isfinite isin isinf isnan
isneginf isposinf isreal istft isw item ixor jagged job jvp kaiser kernel kernelparams kernels key kind kron
kthvalue label laguerre lambda large launch layer layout lazy lcm ldexp ldl leaf leaky learnable left legacy
legendre legit lengths lerp less lgamma lift like linalg linear linearize linspace list llm load loadwithcast local
log logaddexp logcumsumexp logdet logical logit logits logspace logsumexp long lookup loss low lshift lstm lstsq
ltop magma make manual margin mask masked materialize math matmul matrix matrixshape max maximum maybe mean meanops
median medium mem memcpy memory memrepoint memset meshgrid meta metadata min minimum miopen mish mixed mkl mkldnn
mode modified moe monitored moveaxis movedim moving mps mse msg msort mul mulfunctor mult multi multigammaln
multilabel multimem multinomial multiple multiplies multiply mvlgamma namespace nan nanmean nanmedian nanquantile
nansum narrow native nbytes nccl nccldevcomm ncclkernel ncclwork ncclworkelem nchw ndtr ndtri nearest neg negative
nested new next nextafter nhwc nhwckrsc nll nnpack nnt nnz nocast noise non nonfused nonzero norm normal not npu nse
nso nss ntonly nuclear nullary nullptr nulltype num numel numpy nvjet nvshmem obs off offset offsets ogs one onednn
ones only opaquetype operator ops optimized optimizer optional optype ord orgqr ormqr other out outer output outputs
outscalar outtensor overlap overrideable owned pack packed pad padded padding page pageable pairwise parallel param
params pdist per periodic permute permuted philox physical pin pinned pinv pinverse pixel plain plan plus poi point
points pointwise poisson polar polygamma polynomial pool pooled positive pow power powsum precision precompiled
pregraph prelu prep prepack prepacked prim primal prims print prod product profiler profilerstep projection prologue
promote propagate prune psi ptr put pytorch qadd qbatch qconv qkv qlinear qmul qparams qscheme quant quantile
quantization quantize quantized qweight ragged rand randint randn random randperm range rank ranking ravel rcond
readwrite real recat reciprocal record recv red reduce reduceadd reduced reduceop reducer reducesplitk reducesum
reduction ref reflection region reinterpret relu remainder remove rendezvous renorm reorder repeat replication repr
req reqbackward requires rescale reserve reshape resize resolve result retain retains rev rfft rfftfreq rfftn right
ring rms rng rngprims rnn rocm roll root rotary round routing row rows rowwise rrelu rshift rsqrt rsub rtol run
runfunction runtime safe same sample sampled sampler saturate sav scalar scalararray scalarint scalarlist scalaropt
scalarother scalarrayint scalarself scale scaled scales scaletype scatter scramble scudnn sdp search searchsorted
sections segment segments select selecting self selu semi send sendrecv seqlen sequence serialized set sgd sgemm
sgemmex sgn shallow shape shard shift shifted short shot shuffle sigmoid sign signal signbit signed silu similarity
simple simt sin sinc single singleread sinh sink size sizes slice slogdet slow small smm smooth sobol soft softmax
softplus softshrink solve sort source sparse spatial spdiags special spherical spin split splitk splitkreduce
spsolve sqrt square squeeze src sspaddmm stable stack stages standard start state static statistics stats std step
stft storage str stream stride strided stridedb strides string structured sub subclass subcmul submit subtract sum
supported svd svdvals swapaxes swapdims swiglu sym symm take tan tanh tbackward tbc templates tens tensor
tensorarray tensorassign tensorbase tensordot tensorinfo tensorinv tensorlist tensorop tensorrt tensors tensorsolve
test thnn thread threshold tile tma tmaopt tnn tnt token tokens tol topk torch torchdynamo trace train training
traits transform transformer transout transpose trapezoid trapz triangular tril trilinear triplet triton triu true
trunc tst two type typeconvert types unary unbind unflatten unfold unified uniform unique unity unpack unpacked
unquantized unroll unrolled unsafe unscale unshuffle unsigned unsqueeze unweighted update updateoutput upsample use
userargs using val validate value values vander var vdev vdot vec vecdot vector vectorized version view viewbackward
vllm void volatile volta vsplit vstack vulkan wait waitbackward warn warp weight weighted weights wgrad where window
winograd with wmma wrapped wrapper write wrw xla xlogy xmma xor xregs zero zeros zerotensor zeta
"""

VOCABULARY: Final = frozenset(_WORDS.split())
