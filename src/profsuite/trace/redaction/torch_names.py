"""Names that torch and its libraries give, which the level high keeps."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d
AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d
BatchNorm3d Bilinear CELU CTCLoss ChannelShuffle ConstantPad1d ConstantPad2d ConstantPad3d Conv1d Conv2d Conv3d
ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss DataParallel
DistributedDataParallel Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag FeatureAlphaDropout Flatten
Fold FullyShardedDataParallel GELU GLU GRU GRUCell GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid Hardswish
Hardtanh HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss
LPPool1d LPPool2d LSTM LSTMCell LayerNorm LazyLinear LeakyReLU Linear LocalResponseNorm LogSigmoid LogSoftmax
MSELoss MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d Mish Module ModuleDict ModuleList MultiLabelMarginLoss
MultiheadAttention NLLLoss OptimizedModule PReLU PairwiseDistance ParameterDict ParameterList PixelShuffle
PixelUnshuffle PoissonNLLLoss RMSNorm RNN RNNCell RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d
ReplicationPad1d ReplicationPad2d SELU Sequential SiLU Sigmoid SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin
Softplus Softshrink Softsign SyncBatchNorm Tanh Tanhshrink Threshold Transformer TransformerDecoder
TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss Unflatten Unfold Upsample
UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d Adadelta Adafactor Adagrad Adam AdamW Adamax
ASGD LBFGS Muon NAdam RAdam RMSprop Rprop SGD SparseAdam ZeroRedundancyOptimizer
"""

MODULES: Final = frozenset(_WORDS.split())
"""Classes of torch.nn and torch.optim, and what wraps modules."""

FUNCTIONS: Final = frozenset((
    "forward", "backward", "step", "zero_grad", "train", "eval", "main", "run", "apply", "setup_context",
    "extra_repr", "_call_impl", "_wrapped_call_impl", "state_dict", "load_state_dict", "parameters", "training_step",
    "validation_step",
))  # fmt: skip
"""Functions that nearly every program has by torch's own convention."""

ANNOTATIONS: Final = re.compile(
    r"ProfilerStep[#*]|Iteration[#*]|Optimizer\.|enumerate\(DataLoader\)|(?:nccl|gloo|mpi|ucc|xccl|hccl):"
    r"|## Call |Torch-Compiled Region|TorchDynamo |CompiledFunction|FSDP|FullyShardedDataParallel"
    r"|DistributedDataParallel"
    r"|torch\.distributed|autograd::|aten::|c10d|record_param_comms|PyTorch Profiler|Profiler"
    r"|PyTorch Autograd|Iteration"
    r"|Command Buffer|Context Sync|Pregraph|dynamo_timed|_compile\.|compile_|AOTAutograd|Inductor|\[memory\]|\d*$"
)
"""How annotations begin that torch makes."""
