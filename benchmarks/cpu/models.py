"""The models by name: real libraries' configurations with random weights, and a few written out in torch.

`VISION` and `OTHERS` (text, sound, recommenders, graphs) map a name to a `Model`, whose inputs are made for any batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from benchmarks.cpu.written import GraphAttention, GraphConvolutions, Recommender, Tagger, Translator, UNet
from tests_integration.zoo import Inputs, Model, images, timm_model, tokens

WORDS, LENGTH = 8000, 128
"""Vocabulary and tokens a row of the models of text."""
WIDTH = {"vocab_size": WORDS, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
LAYERS = {"num_hidden_layers": 6}

TIMM = (
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "mobilenetv2_100",
    "mobilenetv3_small_100",
    "efficientnet_b0",
    "regnety_008",
    "densenet121",
    "convnext_tiny",
    "swin_tiny_patch4_window7_224",
    "mixer_s16_224",
    "vit_tiny_patch16_224",
    "beit_base_patch16_224",
)


def _torchvision(path: str, **options: Any) -> Callable[[torch.dtype], nn.Module]:
    def build(dtype: torch.dtype) -> nn.Module:
        import torchvision

        where: Any = torchvision.models
        for part in path.split("."):
            where = getattr(where, part)
        return where(weights=None, **options).to(dtype)

    return build


def _transformers(model: str, config: str, part: str = "", **options: Any) -> Callable[[torch.dtype], nn.Module]:
    """The class `model` with a `config` of these options; `part` of it, as in "encoder"."""

    def build(dtype: torch.dtype) -> nn.Module:
        import transformers

        whole: nn.Module = getattr(transformers, model)(getattr(transformers, config)(**options))
        return whole.get_submodule(part).to(dtype)

    return build


def _written(module: Callable[[], nn.Module]) -> Callable[[torch.dtype], nn.Module]:
    return lambda dtype: module().to(dtype)


def _two_texts(batch: int, dtype: torch.dtype) -> Inputs:
    (_, source), (_, target) = (tokens(WORDS, length)(batch, dtype) for length in (LENGTH, 32))
    return (), {**source, "decoder_input_ids": target["input_ids"], "use_cache": False}


def _table(models: Iterable[Model]) -> dict[str, Model]:
    return {model.name: model for model in models}


VISION = _table(
    [
        *(Model(name, timm_model(name), images(224), 1, ("timm", "torchvision")) for name in TIMM),
        Model("shufflenet_v2_x1_0", _torchvision("shufflenet_v2_x1_0"), images(224), 1, ("torchvision",)),
        Model(
            "lraspp_mobilenet_v3_large",
            _torchvision("segmentation.lraspp_mobilenet_v3_large", weights_backbone=None),
            images(224),
            1,
            ("torchvision",),
        ),
        Model("unet", _written(UNet), images(128), 1),
    ]
)

_text = tokens(WORDS, LENGTH)
_uncached = tokens(WORDS, LENGTH, use_cache=False)
_library = ("transformers",)

OTHERS = _table(
    [
        Model("bert", _transformers("BertModel", "BertConfig", **WIDTH, **LAYERS), _text, 1, _library),
        Model(
            "distilbert",
            _transformers("DistilBertForMaskedLM", "DistilBertConfig", vocab_size=WORDS, n_layers=6),
            _text,
            1,
            _library,
        ),
        Model("albert", _transformers("AlbertModel", "AlbertConfig", **WIDTH, **LAYERS), _text, 1, _library),
        Model(
            "gpt2", _transformers("GPT2LMHeadModel", "GPT2Config", vocab_size=WORDS, n_layer=6), _uncached, 1, _library
        ),
        Model(
            "t5",
            _transformers("T5ForConditionalGeneration", "T5Config", vocab_size=WORDS, decoder_start_token_id=0),
            _two_texts,
            1,
            _library,
        ),
        Model(
            "llama",
            _transformers(
                "LlamaForCausalLM",
                "LlamaConfig",
                **{**WIDTH, "intermediate_size": 2048},
                **LAYERS,
                num_key_value_heads=4,
            ),
            _uncached,
            1,
            _library,
        ),
        Model(
            "qwen3",
            _transformers(
                "Qwen3ForCausalLM",
                "Qwen3Config",
                **{**WIDTH, "intermediate_size": 2048},
                **LAYERS,
                num_key_value_heads=4,
                head_dim=64,
            ),
            _uncached,
            1,
            _library,
        ),
        Model(
            "opt",
            _transformers(
                "OPTForCausalLM",
                "OPTConfig",
                vocab_size=WORDS,
                hidden_size=768,
                word_embed_proj_dim=768,
                ffn_dim=3072,
                **LAYERS,
            ),
            _uncached,
            1,
            _library,
        ),
        Model(
            "bart",
            _transformers(
                "BartForConditionalGeneration",
                "BartConfig",
                vocab_size=WORDS,
                d_model=768,
                encoder_layers=6,
                decoder_layers=6,
                encoder_ffn_dim=3072,
                decoder_ffn_dim=3072,
                encoder_attention_heads=12,
                decoder_attention_heads=12,
            ),
            _two_texts,
            1,
            _library,
        ),
        Model("electra", _transformers("ElectraModel", "ElectraConfig", **WIDTH, **LAYERS), _text, 1, _library),
        Model(
            "clip_vision",
            _transformers("CLIPVisionModel", "CLIPVisionConfig", num_hidden_layers=6),
            lambda batch, dtype: ((torch.randn(batch, 3, 224, 224, dtype=dtype),), {}),
            1,
            _library,
        ),
        Model(
            "wav2vec2",
            _transformers("Wav2Vec2Model", "Wav2Vec2Config", **LAYERS, layerdrop=0.0, mask_time_prob=0.0),
            lambda batch, dtype: ((torch.randn(batch, 16000, dtype=dtype),), {}),
            1,
            _library,
        ),
        Model(
            "whisper_encoder",
            _transformers("WhisperModel", "WhisperConfig", "encoder", vocab_size=51865, d_model=384),
            lambda batch, dtype: ((torch.randn(batch, 80, 3000, dtype=dtype),), {}),
            1,
            _library,
        ),
        Model("recommender", _written(Recommender), Recommender.inputs, 1),
        Model("graph_convolutions", _written(GraphConvolutions), GraphConvolutions.inputs, 1),
        Model("graph_attention", _written(GraphAttention), GraphConvolutions.inputs, 1),
        Model("lstm_tagger", _written(Tagger), Tagger.inputs, 1),
        Model("transformer", _written(Translator), Translator.inputs, 1),
    ]
)
MODELS = {**VISION, **OTHERS}
