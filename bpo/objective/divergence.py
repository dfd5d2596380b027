"""A trust region in probabilities instead of ratios: a token is left out once the policy has moved far at it."""

from __future__ import annotations

from typing import Any

from bpo.objective.clipped import with_kl
from bpo.objective.record import Tensor, Tokens, each_token

# Largest importance ratio.
LARGEST = 10.0


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """|p - q|: total variation between "this token" and "another one" under the new and the acting policy."""
    return (p - q).abs()


def binary_kl(p: Tensor, q: Tensor) -> Tensor:
    """KL of the acting policy's coin (this token, another one) to the new one's: q log(q/p) + (1-q) log((1-q)/(1-p))."""
    rest_p, rest_q = (1 - p).clamp(min=1e-12), (1 - q).clamp(min=1e-12)
    return q * (q / p).log() + rest_q * (rest_q / rest_p).log()


DIVERGENCES = {"tv": total_variation, "kl": binary_kl}
# Bounds of the released example.
BOUNDS = {"tv": 0.15, "kl": 0.05}


@each_token
def dppo(
    tokens: Tokens, *, beta: float = 0.0, divergence: str = "tv", bound: float | None = None
) -> tuple[Any, dict[str, Any]]:
    """REINFORCE with the ratio as a constant factor, on the tokens whose probability has not moved too far (arXiv 2602.04879).

    A token is left out where its divergence exceeds the bound and the advantage would push it further: up with A > 0, down with
    A < 0. The ratio is at most 10. Unlike a bound of the ratio this lets rare tokens grow and holds common ones. Biased where a
    token is left out. Facts: `clipped`, tokens that were left out.
    """
    values, old, owner = tokens.values, tokens.old, tokens.owner
    fixed, gain = values.detach(), tokens.advantage[owner]
    p, q = fixed.exp(), old.exp()
    far = DIVERGENCES[divergence](p, q) > (BOUNDS[divergence] if bound is None else bound)
    out = far & (((gain > 0) & (p > q)) | ((gain < 0) & (p < q)))
    ratio = (fixed - old).exp().clamp(max=LARGEST)
    loss = -(tokens.weight[owner] * gain * ratio * values).masked_fill(out, 0.0).sum()
    return with_kl(tokens, loss, {"tokens": len(values), "clipped": out.sum().item()}, beta)
