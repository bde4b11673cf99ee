"""torchvision, timm, kornia, einops, torchmetrics and diffusers: networks, augmentation, detection, sampling."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.programs.registry import Compile, program


@program("torchvision")
def resnet_training(compile: Compile) -> Any:
    from torchvision.models import resnet18

    model = resnet18(num_classes=4)
    compiled = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, nesterov=True)
    losses = []
    for _ in range(2):
        loss = F.cross_entropy(compiled(torch.randn(4, 3, 64, 64)), torch.tensor([0, 3, 1, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, model.bn1.running_mean, model.fc.weight.grad


@program("torchvision")
def segmentation_dict_output(compile: Compile) -> Any:
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3).eval()
    with torch.no_grad():
        return dict(compile(model)(torch.randn(1, 3, 64, 64)))


@program("torchvision")
def detection_post_processing(compile: Compile) -> Any:
    from torchvision.ops import batched_nms, box_convert, box_iou, roi_align

    @compile
    def detect(boxes: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor, features: torch.Tensor) -> Any:
        boxes = box_convert(boxes, "cxcywh", "xyxy")
        good = scores > 0.3
        boxes, scores, labels = boxes[good], scores[good], labels[good]
        kept = batched_nms(boxes, scores, labels, 0.5)[:10]
        pooled = roi_align(features, [boxes[kept]], output_size=2, spatial_scale=0.5)
        return boxes[kept], scores[kept], pooled, box_iou(boxes[kept], boxes[kept])

    boxes = torch.cat([torch.rand(30, 2) * 20, torch.rand(30, 2) * 6 + 2], 1)
    return detect(boxes, torch.rand(30), torch.randint(0, 3, (30,)), torch.randn(1, 4, 16, 16))


@program("torchvision")
def detector_with_list_inputs(compile: Compile) -> Any:
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    model = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)
    compiled = compile(model)
    images = [torch.rand(3, 90, 80), torch.rand(3, 60, 100)]
    targets = [{"boxes": torch.tensor([[10.0, 10.0, 40.0, 50.0]]), "labels": torch.tensor([1])} for _ in images]
    losses = compiled(images, targets)
    sum(losses.values()).backward()
    return {k: v.detach() for k, v in losses.items()}


@program("torchvision")
def transforms_in_a_compiled_function(compile: Compile) -> Any:
    from torchvision.transforms import v2

    augment = v2.Compose(
        [
            v2.RandomHorizontalFlip(1.0),
            v2.Resize((16, 16), antialias=True),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    batch = torch.randint(0, 256, (2, 3, 20, 24), dtype=torch.uint8)
    return compile(lambda images: augment(images).mean(dim=(2, 3)))(batch), compile(augment)(batch)


@program("torchvision")
def feature_extractor_by_fx(compile: Compile) -> Any:
    from torchvision.models import mobilenet_v3_small
    from torchvision.models.feature_extraction import create_feature_extractor

    model = create_feature_extractor(
        mobilenet_v3_small(num_classes=5), {"features.1": "low", "features.4": "mid", "classifier": "out"}
    )
    return compile(model.eval())(torch.ones(1, 3, 32, 32))


@program("timm")
def timm_training_with_ema(compile: Compile) -> Any:
    import timm
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler
    from timm.utils import ModelEmaV3

    model = compile(timm.create_model("resnet10t", num_classes=5, drop_rate=0.0))
    ema = ModelEmaV3(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=4, warmup_t=1, warmup_lr_init=1e-4)
    criterion, losses = LabelSmoothingCrossEntropy(0.1), []
    for i in range(2):
        loss = criterion(model(torch.randn(2, 3, 32, 32)), torch.tensor([1, 4]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model, step=i)
        schedule.step(i + 1)
        losses.append(loss.detach())
    with torch.no_grad():
        return losses, ema(torch.ones(1, 3, 32, 32)), [g["lr"] for g in optimizer.param_groups]


@program("timm")
def timm_features_and_mixup(compile: Compile) -> Any:
    import numpy as np
    import timm
    from timm.data.mixup import Mixup

    np.random.seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=4)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=0.0, num_classes=4)
    x, y = mixup(torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, 3]))
    compiled = compile(model)
    loss = torch.sum(-y * F.log_softmax(compiled(x), -1), -1).mean()
    loss.backward()
    pyramid = compile(timm.create_model("mobilenetv3_small_050", features_only=True, out_indices=(1, 2)).eval())
    with torch.no_grad():
        return loss.detach(), compiled.forward_features(x).detach(), pyramid(torch.ones(1, 3, 32, 32))


@program("einops")
def einops_attention(compile: Compile) -> Any:
    from einops import einsum, pack, rearrange, reduce, repeat, unpack
    from einops.layers.torch import Rearrange, Reduce

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Sequential(Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), nn.Linear(48, 16))
            self.qkv, self.token = nn.Linear(16, 48, bias=False), nn.Parameter(torch.randn(16))
            self.pool = Reduce("b n d -> b d", "mean")

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.patches(image)
            x, shapes = pack([repeat(self.token, "d -> b 1 d", b=len(x)), x], "b * d")
            q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=4) for t in self.qkv(x).chunk(3, -1))
            weights = (einsum(q, k, "b h i d, b h j d -> b h i j") * 0.5).softmax(-1)
            x = rearrange(einsum(weights, v, "b h i j, b h j d -> b h i d"), "b h n d -> b n (h d)")
            token, rest = unpack(x, shapes, "b * d")
            return self.pool(rest) + rearrange(token, "b 1 d -> b d"), reduce(weights, "b h i j -> b i", "max")

    model = Attention()
    out, weights = compile(model)(torch.randn(2, 3, 8, 8))
    out.sum().backward()
    return out.detach(), weights.detach(), [p.grad for p in model.parameters()]


@program("kornia")
def kornia_filters_and_warps(compile: Compile) -> Any:
    import kornia

    @compile
    def enhance(image: torch.Tensor, angle: torch.Tensor) -> Any:
        gray = kornia.color.rgb_to_grayscale(image)
        edges = kornia.filters.sobel(kornia.filters.gaussian_blur2d(gray, (3, 3), (1.0, 1.0)))
        turned = kornia.geometry.transform.rotate(image, angle)
        hsv = kornia.color.rgb_to_hsv(turned.clamp(0, 1))
        return edges, turned, hsv[:, 2:], kornia.losses.ssim_loss(image, turned, 5)

    return enhance(torch.rand(2, 3, 16, 16), torch.tensor([10.0, -30.0]))


@program("kornia")
def kornia_augmentation_module(compile: Compile) -> Any:
    import kornia.augmentation as K

    augment = K.AugmentationSequential(
        K.RandomHorizontalFlip(p=1.0),
        K.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
        K.RandomAffine(10.0, p=1.0),
        data_keys=["input", "mask"],
    )

    @compile
    def batch(image: torch.Tensor, mask: torch.Tensor) -> Any:
        image, mask = augment(image, mask)
        return image * 2 - 1, mask

    return batch(torch.rand(2, 3, 12, 12), torch.ones(2, 1, 12, 12))


@program("torchmetrics")
def metrics_in_the_loop(compile: Compile) -> Any:
    import torchmetrics

    model = nn.Linear(6, 3)
    metrics = torchmetrics.MetricCollection(
        {
            "accuracy": torchmetrics.classification.MulticlassAccuracy(3),
            "f1": torchmetrics.classification.MulticlassF1Score(3),
        }
    )
    average = torchmetrics.MeanMetric()

    @compile
    def evaluate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        metrics.update(logits.softmax(-1), y)
        average.update(loss)
        return loss

    with torch.no_grad():
        losses = [evaluate(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(3)]
    return losses, metrics.compute(), average.compute()


@program("torchmetrics")
def metric_forward_compiled(compile: Compile) -> Any:
    from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef

    error, correlation = compile(MeanSquaredError()), PearsonCorrCoef()
    out = [error(torch.randn(5), torch.randn(5)) for _ in range(2)]
    correlation.update(torch.arange(5.0), torch.arange(5.0) ** 2)
    total = error.compute()
    error.reset()
    return out, total, correlation.compute()


def tiny_unet(**changes: Any) -> Any:
    from diffusers import UNet2DModel

    return UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
        **changes,
    )


@program("diffusers")
def diffusion_training(compile: Compile) -> Any:
    from diffusers import DDPMScheduler
    from diffusers.training_utils import EMAModel

    unet = tiny_unet()
    compiled, noise_schedule = compile(unet), DDPMScheduler(num_train_timesteps=50)
    optimizer, ema = torch.optim.AdamW(unet.parameters(), lr=1e-3), EMAModel(unet.parameters(), decay=0.9)
    losses = []
    for _ in range(2):
        clean, noise, t = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8), torch.randint(0, 50, (2,))
        loss = F.mse_loss(compiled(noise_schedule.add_noise(clean, noise, t), t).sample, noise)
        loss.backward()
        nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ema.step(unet.parameters())
        losses.append(loss.detach())
    return losses, [p.detach() for p in list(unet.parameters())[:4]]


@program("diffusers")
def diffusion_sampling(compile: Compile) -> Any:
    from diffusers import DDIMScheduler

    unet = compile(tiny_unet().eval())
    schedule = DDIMScheduler(num_train_timesteps=20)
    schedule.set_timesteps(4)
    image = torch.randn(1, 1, 8, 8)
    with torch.no_grad():
        for t in schedule.timesteps:
            image = schedule.step(unet(image, t).sample, t, image).prev_sample
    return image


@program("diffusers")
def diffusion_pipeline(compile: Compile) -> Any:
    from diffusers import DDPMPipeline, DDPMScheduler

    pipeline = DDPMPipeline(tiny_unet().eval(), DDPMScheduler(num_train_timesteps=10))
    pipeline.unet = compile(pipeline.unet)
    pipeline.set_progress_bar_config(disable=True)
    return torch.from_numpy(
        pipeline(
            batch_size=1, num_inference_steps=3, generator=torch.Generator().manual_seed(0), output_type="np"
        ).images
    )


@program("diffusers")
def conditional_unet_and_autoencoder(compile: Compile) -> Any:
    from diffusers import AutoencoderKL, UNet2DConditionModel

    unet = UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    vae = AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(8,), norm_num_groups=4, sample_size=8
    )

    @compile
    def step(image: torch.Tensor, text: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        latent = vae.encode(image).latent_dist.mode() * 0.18
        noise = torch.randn_like(latent)
        return F.mse_loss(unet(latent + noise, t, encoder_hidden_states=text).sample, noise)

    loss = step(torch.randn(1, 3, 8, 8), torch.randn(1, 3, 16), torch.tensor([5]))
    loss.backward()
    return (
        loss.detach(),
        [p.grad for p in list(unet.parameters())[:3]],
        [p.grad for p in list(vae.encoder.parameters())[:3]],
    )
