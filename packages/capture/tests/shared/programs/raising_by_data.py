"""Programs that look at data to refuse it: one way of a branch raises, or torch does."""

from __future__ import annotations

import torch
import torch.distributions as D
import torch.nn.functional as F

from .registry import program


def checked(x, *, least):
    """Raises a text that only the run can tell."""
    if not (x >= least).all():
        raise ValueError(f"expected at least {least}, got {x.min().item()} of {type(x).__name__}:\n{x}")
    return x


@program
def refused_by_a_function_it_calls(x):
    return checked(x * 2, least=0).sqrt() + 1


@program
def refused_after_a_change(x):
    seen = []
    seen.append(x.sum())
    x.add_(1)
    if (x < 0).any():
        raise KeyError("negative", len(seen))
    seen.append(x * 2)
    return seen


@program
def refused_by_a_number(x):
    n = int(x.sum())
    if n < 0:
        raise IndexError(n)
    return x + n


@program
def refused_as_a_number(x):
    if x.clamp(max=0).sum():
        raise RuntimeError("not all are positive")
    return x + 1


@program
def refused_in_a_loop(x):
    for row in x:
        assert row.min() >= 0, f"row {row}"
    return x / 2


@program
def refused_within_a_finally(x):
    told = []
    try:
        if x.sum() < 0:
            raise ValueError(told)
        y = x * 2
    finally:
        told.append(x + 1)
    return y, told


@program
def places_of_quantiles(x):
    return torch.quantile(x, (x.max() + 1) / 24, dim=1), torch.nanquantile(x, 0.25, interpolation="lower")


@program
def refused_places_of_quantiles(x):
    return torch.quantile(x, x[0, :2].clamp(max=0.9), dim=1) + 1


@program
def there_and_back_by_windows(x):
    window = torch.hann_window(8)
    spectrum = torch.stft(x.flatten(), 8, hop_length=2, window=window, return_complex=True)
    return torch.istft(spectrum * 2, 8, hop_length=2, window=window) + 1


@program
def windows_that_do_not_overlap(x):
    spectrum = torch.stft(x.flatten(), 8, hop_length=2, window=torch.hann_window(8), return_complex=True)
    return torch.istft(spectrum, 8, hop_length=2, window=torch.hann_window(8) * (x.min() >= 0)) + 1


@program
def a_loss_of_variances(x):
    return F.gaussian_nll_loss(x, x + 1, x + 1e-3, full=True, reduction="sum") * 2


@program
def arguments_of_distributions(x):
    found = (
        D.Normal(x, x + 0.5, validate_args=True).log_prob(x),
        D.Beta(x + 1, x + 2).entropy(),
        D.Gamma(x + 1, x + 1).log_prob(x + 1),
    )
    found += D.kl_divergence(D.Normal(x, 1.0), D.Normal(1.0, x + 1)), D.Poisson(x + 1).log_prob(x.round())
    return *found, D.Independent(D.Laplace(x, x + 1), 1).log_prob(x), D.Uniform(x, x + 2).log_prob(x + 1)


@program
def distributions_with_lazy_properties(x):
    rows = D.Categorical(logits=x), D.OneHotCategorical(probs=x.abs() + 1), D.Bernoulli(logits=x)
    return rows[0].log_prob(x[:, 0] * 0), rows[0].entropy(), rows[1].entropy(), rows[2].log_prob((x > 0).float())


@program
def samples_of_distributions(x):
    drawn = D.Normal(x, x.abs() + 1).rsample(), D.Categorical(logits=x).sample((2,)), D.Exponential(x + 1).sample()
    return *drawn, D.TransformedDistribution(D.Normal(x, 1.0), [D.transforms.TanhTransform()]).rsample()


@program
def refused_unless_all_are_close(x):
    if not torch.allclose(x, x + 1e-9) or not x.allclose(x.abs(), atol=1e-3):
        raise ValueError("negative")
    assert x.equal(x * 1), "changed"
    return x + 1


@program
def matrices_of_distributions(x):
    definite = torch.eye(4).expand(2, 4, 4) * (2 + x[0, 1].abs())
    wide = D.MultivariateNormal(x[:2], definite)
    narrow = D.MultivariateNormal(x[0], precision_matrix=torch.eye(4))
    return wide.log_prob(x[:2]), wide.rsample(), D.kl_divergence(wide, narrow), narrow.entropy()


@program
def refused_matrices_of_distributions_break(x):
    told = []
    for matrix in (torch.ones(4, 4).triu(), -torch.eye(4), torch.ones(2, 4)):
        try:
            D.MultivariateNormal(torch.zeros(4), matrix * (1 + x[0, 0].abs()))
        except (ValueError, RuntimeError) as error:
            told.append(str(error))
    return told, D.constraints.positive_definite.check(torch.stack([torch.eye(2), -torch.eye(2)]))
