"""Models in plain torch with the parts of `torch.nn` and `torch.distributions` that programs use around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.programs.registry import Compile, program


@program()
def vae(compile: Compile) -> Any:
    from torch.distributions import Independent, Normal, kl_divergence

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(10, 8), nn.Linear(4, 10)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            mean, log_scale = self.encoder(x).chunk(2, dim=-1)
            posterior = Independent(Normal(mean, log_scale.exp()), 1)
            z = posterior.rsample()
            prior = Independent(Normal(torch.zeros_like(mean), torch.ones_like(mean)), 1)
            return F.mse_loss(self.decoder(z), x), kl_divergence(posterior, prior).mean()

    model = VAE()
    compiled = compile(model)
    reconstruction, divergence = compiled(torch.randn(6, 10))
    (reconstruction + 0.1 * divergence).backward()
    return reconstruction.detach(), divergence.detach(), [p.grad for p in model.parameters()]


@program()
def policy_gradient(compile: Compile) -> Any:
    from torch.distributions import Categorical

    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    @compile
    def act(state: torch.Tensor) -> tuple[int, torch.Tensor, torch.Tensor]:
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        return int(action.item()), choice.log_prob(action), choice.entropy()

    actions, losses = [], []
    for _ in range(2):
        state, terms, rewards = torch.zeros(4), [], []
        for _ in range(4):
            action, log_prob, entropy = act(state)
            actions.append(action)
            state = state * 0.9 + F.one_hot(torch.tensor(action), 4).float()
            terms.append(log_prob + 0.01 * entropy)
            rewards.append(1.0 if action == 1 else -0.5)
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        loss = -(torch.stack(terms) * returns).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return actions, losses


@program()
def mixture_density(compile: Compile) -> Any:
    from torch.distributions import Categorical, MixtureSameFamily, Normal

    net = nn.Linear(3, 12)

    @compile
    def nll(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits, mean, raw = net(x).chunk(3, dim=-1)
        mixture = MixtureSameFamily(Categorical(logits=logits), Normal(mean, F.softplus(raw) + 1e-3))
        return -mixture.log_prob(y).mean()

    loss = nll(torch.randn(7, 3), torch.randn(7))
    loss.backward()
    return loss.detach(), net.weight.grad


@program()
def coupling_flow(compile: Compile) -> Any:
    class Coupling(nn.Module):
        def __init__(self, flip: bool) -> None:
            super().__init__()
            self.net, self.flip = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4)), flip

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            a, b = x.chunk(2, -1)
            if self.flip:
                a, b = b, a
            scale, shift = self.net(a).chunk(2, -1)
            scale = torch.tanh(scale)
            b = b * scale.exp() + shift
            return torch.cat((b, a) if self.flip else (a, b), -1), scale.sum(-1)

    layers = nn.ModuleList(Coupling(i % 2 == 1) for i in range(3))
    prior = torch.distributions.MultivariateNormal(torch.zeros(4), torch.eye(4))

    @compile
    def log_prob(x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(len(x))
        for layer in layers:
            x, change = layer(x)
            total = total + change
        return prior.log_prob(x) + total

    value = log_prob(torch.randn(5, 4))
    (-value.mean()).backward()
    return value.detach(), [p.grad for p in layers.parameters()]


@program()
def packed_sequences(compile: Compile) -> Any:
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 8, padding_idx=0)
            self.lstm = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
            self.out = nn.Linear(12, 4)

        def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
            hidden, _ = self.lstm(packed)
            padded, _ = pad_packed_sequence(hidden, batch_first=True)
            return self.out(padded)

    model = Tagger()
    compiled = compile(model)
    out = []
    for sizes in ((5, 3, 4), (2, 6, 1)):
        rows = [torch.randint(1, 20, (n,)) for n in sizes]
        logits = compiled(pad_sequence(rows, batch_first=True), torch.tensor(sizes))
        logits.logsumexp(-1).mean().backward()
        out.append(logits.detach())
    return out, [p.grad for p in model.parameters()]


@program()
def seq2seq_greedy_decoding(compile: Compile) -> Any:
    embed, cell, out = nn.Embedding(12, 16), nn.GRUCell(16, 16), nn.Linear(16, 12)

    @compile
    def decode(state: torch.Tensor, limit: int = 8) -> list[int]:
        token, words = torch.tensor([1]), []
        while len(words) < limit:
            state = cell(embed(token), state)
            token = out(state).argmax(-1)
            word = token.item()
            words.append(word)
            if word == 0:
                break
        return words

    with torch.no_grad():
        return [decode(torch.randn(1, 16)) for _ in range(3)]


@program()
def beam_search(compile: Compile) -> Any:
    model = nn.Sequential(nn.Embedding(10, 16), nn.Flatten(), nn.Linear(16, 10))
    score = compile(lambda last: F.log_softmax(model(last), dim=-1))
    beams: list[tuple[list[int], float]] = [([1], 0.0)]
    with torch.no_grad():
        for _ in range(4):
            logs = score(torch.tensor([b[0][-1] for b in beams])[:, None])
            grown = [
                ([*words, int(token)], total + float(value))
                for (words, total), row in zip(beams, logs, strict=True)
                for value, token in zip(*row.topk(3), strict=True)
            ]
            beams = sorted(grown, key=lambda b: -b[1])[:3]
    return beams


@program()
def transformer_encoder_masks(compile: Compile) -> Any:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    compiled = compile(model)
    x = torch.randn(2, 5, 16)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    trained = compiled(x, mask=causal, is_causal=True)
    trained.mean().backward()
    model.eval()
    with torch.no_grad():
        masked = compiled(x, src_key_padding_mask=padding)[padding.logical_not()]
    return trained.detach(), masked, [p.grad for p in model.parameters()]


@program()
def parametrized_weights(compile: Compile) -> Any:
    from torch.nn.utils import parametrizations, parametrize

    class Symmetric(nn.Module):
        def forward(self, w: torch.Tensor) -> torch.Tensor:
            return w.triu() + w.triu(1).transpose(-1, -2)

    first = parametrizations.weight_norm(nn.Linear(6, 6))
    second = nn.Linear(6, 6)
    parametrize.register_parametrization(second, "weight", Symmetric())
    third = parametrizations.spectral_norm(nn.Linear(6, 6))
    fourth = parametrizations.orthogonal(nn.Linear(6, 6))
    model = nn.Sequential(first, second, nn.Tanh(), third, fourth)
    compiled = compile(model)
    with parametrize.cached():
        cached = compiled(torch.ones(2, 6)).detach()
    compiled(torch.randn(3, 6)).square().sum().backward()
    parametrize.remove_parametrizations(second, "weight")
    return cached, compiled(torch.ones(1, 6)).detach(), [p.grad for p in first.parameters()]


@program()
def pruned_and_finetuned(compile: Compile) -> Any:
    from torch.nn.utils import prune

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    compiled = compile(model)
    dense = compiled(torch.ones(1, 8)).detach()
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    prune.ln_structured(model[2], "weight", amount=0.25, n=2, dim=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        compiled(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    sparse = compiled(torch.ones(1, 8)).detach()
    prune.remove(model[0], "weight")
    return dense, sparse, compiled(torch.ones(1, 8)).detach(), int((model[0].weight == 0).sum())


@program()
def old_style_norm_hooks(compile: Compile) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.utils.weight_norm(nn.Linear(5, 5)), nn.ReLU(), nn.utils.spectral_norm(nn.Linear(5, 2)))
    compiled = compile(model)
    out = []
    for _ in range(3):
        y = compiled(torch.randn(3, 5))
        y.sum().backward()
        out.append(y.detach())
    return out, [p.grad for p in model.parameters()]


@dataclass
class Prediction:
    logits: torch.Tensor
    hidden: torch.Tensor | None = None
    loss: torch.Tensor | None = None


class Pair(NamedTuple):
    mean: torch.Tensor
    spread: torch.Tensor


@program()
def dataclass_and_namedtuple_outputs(compile: Compile) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Prediction:
            hidden = torch.relu(self.body(x))
            out = Prediction(self.head(hidden), hidden=hidden)
            if y is not None:
                out.loss = F.cross_entropy(out.logits, y)
            return out

    model = compile(Net())
    plain = model(torch.randn(2, 4))
    scored = model(torch.randn(2, 4), torch.tensor([0, 2]))
    scored.loss.backward()
    pair = compile(lambda x: Pair(x.mean(0), x.std(0)))(torch.randn(5, 3))
    return plain.logits, plain.loss, scored.hidden, scored.loss, pair, type(pair).__name__, pair.spread


@program()
def mixture_of_experts(compile: Compile) -> Any:
    class Experts(nn.Module):
        def __init__(self, count: int = 4) -> None:
            super().__init__()
            self.gate = nn.Linear(8, count)
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(count))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                row, slot = torch.where(chosen == i)
                if row.numel() > 0:
                    out.index_add_(0, row, expert(x[row]) * scores[row, slot, None])
            return out

    model = Experts()
    compiled = compile(model)
    y = compiled(torch.randn(10, 8))
    y.square().sum().backward()
    return y.detach(), [p.grad for p in model.parameters()]


@program()
def neural_ode(compile: Compile) -> Any:
    field = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    @compile
    def integrate(y: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        path = [y]
        for start, end in zip(times[:-1], times[1:], strict=True):  # noqa: RUF007
            h = end - start
            k1 = field(y)
            k2 = field(y + h / 2 * k1)
            k3 = field(y + h / 2 * k2)
            k4 = field(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            path.append(y)
        return torch.stack(path)

    path = integrate(torch.randn(3, 2), torch.linspace(0, 1, 5))
    path[-1].square().sum().backward()
    return path.detach(), [p.grad for p in field.parameters()]


@program()
def fourier_layer(compile: Compile) -> Any:
    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4, 5, dtype=torch.cfloat) * 0.2)
            self.skip = nn.Conv1d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            spectrum = torch.fft.rfft(x)
            kept = torch.zeros_like(spectrum)
            kept[..., :5] = torch.einsum("bix,iox->box", spectrum[..., :5], self.weight)
            return F.gelu(torch.fft.irfft(kept, n=x.size(-1)) + self.skip(x))

    model = Spectral()
    y = compile(model)(torch.randn(2, 4, 16))
    y.sum().backward()
    return y.detach(), torch.view_as_real(model.weight.grad)


@program()
def kv_cache_in_buffers(compile: Compile) -> Any:
    class Attention(nn.Module):
        keys: torch.Tensor
        values: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(8, 24)
            self.register_buffer("keys", torch.zeros(1, 6, 8), persistent=False)
            self.register_buffer("values", torch.zeros(1, 6, 8), persistent=False)
            self.length = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(x).chunk(3, -1)
            self.keys[:, self.length : self.length + x.size(1)] = k
            self.values[:, self.length : self.length + x.size(1)] = v
            self.length += x.size(1)
            return F.scaled_dot_product_attention(q, self.keys[:, : self.length], self.values[:, : self.length])

    model = Attention()
    compiled = compile(model)
    with torch.no_grad():
        out = [compiled(torch.randn(1, n, 8)) for n in (2, 1, 1, 1)]
    return out, model.length, model.keys


@program()
def contrastive_queue(compile: Compile) -> Any:
    class Queue(nn.Module):
        queue: torch.Tensor
        at: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(6, 4)
            self.register_buffer("queue", F.normalize(torch.randn(4, 12), dim=0))
            self.register_buffer("at", torch.zeros(1, dtype=torch.long))

        @torch.no_grad()
        def enqueue(self, keys: torch.Tensor) -> None:
            at = int(self.at)
            self.queue[:, at : at + keys.size(0)] = keys.T
            self.at[0] = (at + keys.size(0)) % self.queue.size(1)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            q, k = F.normalize(self.encoder(a), dim=1), F.normalize(self.encoder(b), dim=1).detach()
            positive = torch.einsum("nc,nc->n", q, k)[:, None]
            negative = q @ self.queue.clone()
            self.enqueue(k)
            logits = torch.cat([positive, negative], 1) / 0.1
            return F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long))

    model = Queue()
    compiled = compile(model)
    out = []
    for _ in range(4):
        loss = compiled(torch.randn(4, 6), torch.randn(4, 6))
        loss.backward()
        out.append(loss.detach())
    return out, model.queue, model.at, model.encoder.weight.grad


@program()
def sparse_graph_propagation(compile: Compile) -> Any:
    index = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    adjacency = torch.sparse_coo_tensor(index, torch.rand(5), (4, 4)).coalesce()
    layer = nn.Linear(3, 3)

    @compile
    def propagate(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = torch.relu(layer(torch.sparse.mm(adjacency, x)))
        return x

    y = propagate(torch.randn(4, 3))
    y.sum().backward()
    return y.detach(), layer.weight.grad


@program()
def multi_task_dict_batches(compile: Compile) -> Any:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(6, 8)
            self.heads = nn.ModuleDict({"age": nn.Linear(8, 1), "kind": nn.Linear(8, 3)})
            self.log_scale = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in self.heads})

        def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            h = torch.relu(self.body(batch["x"]))
            out = {name: head(h) for name, head in self.heads.items() if name in batch}
            losses = {}
            if "age" in out:
                losses["age"] = F.l1_loss(out["age"][:, 0], batch["age"])
            if "kind" in out:
                losses["kind"] = F.cross_entropy(out["kind"], batch["kind"])
            return {k: v * torch.exp(-self.log_scale[k]) + self.log_scale[k] for k, v in losses.items()}

    model = Heads()
    compiled = compile(model)
    totals = []
    for names in (("age", "kind"), ("kind",), ("age",)):
        batch = {"x": torch.randn(4, 6), "age": torch.rand(4), "kind": torch.randint(0, 3, (4,))}
        losses = compiled({k: v for k, v in batch.items() if k == "x" or k in names})
        sum(losses.values()).backward()
        totals.append({k: v.detach() for k, v in losses.items()})
    return totals, [p.grad for p in model.parameters()]
