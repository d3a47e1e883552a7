"""Attention writes its scores to memory, because no fused kernel ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.kernel_share import FIRES_FROM, kernel_share
from profsuite.analyzers.findings.wording import count, grade, percent, share, somewhere, text, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.attention import AttentionRow


def unfused_attention(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when attention without a fused kernel takes 5 % of the window: the math backend, or separate products.

    Remedy: scaled_dot_product_attention in bf16 or fp16, is_causal or FlexAttention instead of a mask.
    """
    rows = [row for row in analysis.attention.rows if not row.fused and row.device_ns]
    ns = sum(row.device_ns or 0 for row in rows)
    fraction = kernel_share(analysis, ns)
    if fraction < FIRES_FROM:
        return ()
    first = max(rows, key=lambda row: row.device_ns or 0)
    evidence = [
        time("attention that is not fused", ns, [row.slice_id for row in rows[:5]]),
        share("share of the window", fraction),
        count("its calls", sum(row.count for row in rows)),
        text("backend", first.backend),
        text("shapes", "".join((first.input_dims or "not recorded").split()).replace(",[]", "")),
    ]
    for refusal in first.refused:
        why = "; ".join(refusal.reasons) or "nothing recorded speaks against it"
        evidence.append(text(f"{refusal.backend} did not run", why))
    return (
        Finding(
            id="unfused_attention",
            title=f"Attention takes {percent(fraction)} of the window without a fused kernel",
            severity=grade(fraction),
            evidence=tuple(evidence),
            where=somewhere(analysis, first.slice_id, op=first.op),
            remedy=_remedy(first),
            cost_ns=ns,
            counted_in=("far_from_roofline", "low_occupancy_tail", "no_tensor_cores"),
        ),
    )


def _remedy(row: AttentionRow) -> str:
    if row.backend == "unfused":
        return (
            "Replace the products and the softmax by torch.nn.functional.scaled_dot_product_attention (Transformers: "
            "attn_implementation='sdpa' or 'flash_attention_2'), or by FlexAttention for your own scores."
        )
    reasons = [reason for refusal in row.refused for reason in refusal.reasons]
    if any("mask" in reason for reason in reasons):
        return "Use is_causal=True instead of a mask, FlexAttention for other masks, or pack so that none is needed."
    if any("fp32" in reason or "fp64" in reason for reason in reasons):
        return "Run attention in bf16 or fp16 (autocast): the flash kernels take nothing else."
    if reasons:
        return f"Change what the fused kernels refuse: {'; '.join(dict.fromkeys(reasons))}."
    return (
        "Enable a fused backend (torch.backends.cuda.enable_flash_sdp, torch.nn.attention.sdpa_kernel), and see with "
        "torch.backends.cuda.can_use_flash_attention(params, debug=True) why it is refused."
    )
