"""Lightning and PyTorch Geometric: code that the framework calls, around parts that are compiled."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.programs.registry import Compile, program


def quiet_trainer(kind: Any, **options: Any) -> Any:
    for name in ("lightning.pytorch", "pytorch_lightning", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(pytorch_)?lightning.*")
    defaults = {"max_epochs": 2, "accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    return kind(**{**defaults, "enable_progress_bar": False, "enable_model_summary": False, **options})


def classification_data(size: int = 5) -> Any:
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(TensorDataset(torch.randn(12, size), torch.randint(0, 3, (12,))), batch_size=size)


@program("lightning")
def lightning_training_step(compile: Compile) -> Any:
    import lightning as L

    class Classifier(L.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
            self.losses: list[float] = []

        @compile
        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            x, y = batch
            loss = F.cross_entropy(self.net(x), y)
            self.log("train_loss", loss, prog_bar=True)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    model = Classifier()
    trainer = quiet_trainer(L.Trainer)
    trainer.fit(model, classification_data())
    return model.losses, trainer.callback_metrics["train_loss"], [p.detach() for p in model.parameters()]


@program("lightning")
def lightning_module_compiled(compile: Compile) -> Any:
    import lightning as L

    class Classifier(L.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = compile(nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, batch: Any, index: int) -> Any:
            return {"loss": F.cross_entropy(self(batch[0]), batch[1])}

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("accuracy", (self(batch[0]).argmax(-1) == batch[1]).float().mean(), on_epoch=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}

    model = Classifier()
    trainer = quiet_trainer(L.Trainer, num_sanity_val_steps=1)
    trainer.fit(model, classification_data(), classification_data())
    return trainer.callback_metrics["accuracy"], [p.detach() for p in model.parameters()]


@program("pytorch_lightning")
def pytorch_lightning_manual_optimization(compile: Compile) -> Any:
    import pytorch_lightning as pl

    class Pair(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.a, self.b = nn.Linear(5, 3), nn.Linear(3, 3)
            self.score = compile(self.score)  # type: ignore[method-assign]

        def score(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(self.b(torch.tanh(self.a(x))), y)

        def training_step(self, batch: Any, index: int) -> None:
            for optimizer in self.optimizers():
                loss = self.score(*batch)
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.a.parameters(), 0.1), torch.optim.SGD(self.b.parameters(), 0.1)

    model = Pair()
    quiet_trainer(pl.Trainer).fit(model, classification_data())
    return [p.detach() for p in model.parameters()]


@program("lightning")
def lightning_whole_module_compiled(compile: Compile) -> Any:
    import lightning as L

    class Auto(L.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(5, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.net(x))

        def predict_step(self, batch: Any, index: int) -> torch.Tensor:
            return self(batch[0])

    model = Auto()
    model.forward = compile(model.forward)  # type: ignore[method-assign]
    found = quiet_trainer(L.Trainer).predict(model, classification_data())
    return found, compile(model)(torch.ones(2, 5)).detach()


@program("lightning")
def fabric_loop(compile: Compile) -> Any:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    model, optimizer = fabric.setup(compile(net), optimizer)
    losses = []
    for x, y in fabric.setup_dataloaders(classification_data()):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        losses.append(loss.detach())
    return losses, [p.detach() for p in net.parameters()]


def ring(count: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.arange(count)
    return torch.randn(count, 5), torch.stack([torch.cat([at, (at + 1) % count]), torch.cat([(at + 1) % count, at])])


@program("torch_geometric")
def graph_convolution(compile: Compile) -> Any:
    from torch_geometric.nn import GCNConv

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(5, 8), GCNConv(8, 3)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            x = F.dropout(self.first(x, edges).relu(), p=0.0, training=self.training)
            return self.second(x, edges)

    model = GCN()
    compiled = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    x, edges = ring()
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(compiled(x, edges), torch.arange(6) % 3)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, compiled(x, edges).detach()


@program("torch_geometric")
def graph_attention_and_sage(compile: Compile) -> Any:
    from torch_geometric.nn import GATConv, SAGEConv, Sequential

    model = Sequential(
        "x, edges",
        [
            (GATConv(5, 4, heads=2), "x, edges -> x"),
            nn.ELU(inplace=True),
            (SAGEConv(8, 3, aggr="max"), "x, edges -> x"),
        ],
    )
    compiled = compile(model)
    out = compiled(*ring())
    out.square().sum().backward()
    return out.detach(), [p.grad for p in model.parameters()]


@program("torch_geometric")
def own_message_passing(compile: Compile) -> Any:
    from torch_geometric.nn import MessagePassing
    from torch_geometric.utils import add_self_loops, degree

    class Edge(MessagePassing):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(aggr="add")
            self.mlp = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 4))

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            edges, _ = add_self_loops(edges, num_nodes=x.size(0))
            scale = degree(edges[1], x.size(0), dtype=x.dtype).pow(-0.5)
            return self.propagate(edges, x=x, norm=scale[edges[0]] * scale[edges[1]])

        def message(self, x_i: torch.Tensor, x_j: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
            return norm[:, None] * self.mlp(torch.cat([x_i, x_j - x_i], dim=-1))

    model = Edge()
    compiled = compile(model)
    out = [compiled(*ring(n)) for n in (6, 4)]
    out[0].sum().backward()
    return [o.detach() for o in out], [p.grad for p in model.parameters()]


@program("torch_geometric")
def graph_classification_batches(compile: Compile) -> Any:
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GINConv, global_mean_pool

    class GIN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GINConv(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8)))
            self.out = nn.Linear(8, 2)

        def forward(self, data: Data) -> torch.Tensor:
            return self.out(global_mean_pool(self.conv(data.x, data.edge_index), data.batch))

    graphs = []
    for n in (3, 4, 5, 6):
        x, edges = ring(n)
        graphs.append(Data(x=x, edge_index=edges, y=torch.tensor([n % 2])))
    model = GIN()
    compiled = compile(model)
    losses = []
    for batch in DataLoader(graphs, batch_size=2):
        loss = F.cross_entropy(compiled(batch), batch.y)
        loss.backward()
        losses.append(loss.detach())
    return losses, [p.grad for p in model.parameters()]


@program("torch_geometric")
def heterogeneous_graph(compile: Compile) -> Any:
    from torch_geometric.nn import HeteroConv, SAGEConv

    conv = HeteroConv(
        {("user", "rates", "film"): SAGEConv((5, 4), 6), ("film", "rated_by", "user"): SAGEConv((4, 5), 6)}
    )

    @compile
    def embed(x: dict[str, torch.Tensor], edges: dict[Any, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {k: v.relu() for k, v in conv(x, edges).items()}

    rates = torch.tensor([[0, 1, 2, 2], [0, 0, 1, 2]])
    out = embed(
        {"user": torch.randn(3, 5), "film": torch.randn(3, 4)},
        {("user", "rates", "film"): rates, ("film", "rated_by", "user"): rates.flip(0)},
    )
    sum(v.sum() for v in out.values()).backward()
    return {k: v.detach() for k, v in out.items()}, [p.grad for p in conv.parameters()]
