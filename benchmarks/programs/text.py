"""transformers, PEFT and accelerate: models from tiny configurations, trained, generated from, adapted."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.programs.registry import Compile, program


def tiny_llama(**changes: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64, num_key_value_heads=2, bos_token_id=1, eos_token_id=2, pad_token_id=0, **{**sizes, **changes}
        )
    )


def tiny_bert(**changes: Any) -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=64,
            num_labels=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            **{**sizes, **changes},
        )
    )


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


@program("transformers")
def bert_finetuning(compile: Compile) -> Any:
    from transformers import get_linear_schedule_with_warmup

    model = tiny_bert()
    compiled = compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, 4)
    losses = []
    for length in (7, 7, 5):
        mask = torch.ones(2, length, dtype=torch.long)
        mask[1, -2:] = 0
        out = compiled(input_ids=torch.randint(0, 64, (2, length)), attention_mask=mask, labels=torch.tensor([0, 2]))
        out.loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(out.loss.detach())
    return losses, out.logits.detach()


@program("transformers")
def bert_gradient_checkpointing(compile: Compile) -> Any:
    model = tiny_bert()
    model.gradient_checkpointing_enable()
    compiled = compile(model.train())
    out = compiled(torch.randint(0, 64, (2, 6)), labels=torch.tensor([1, 0]))
    out.loss.backward()
    return out.loss.detach(), gradients(model)


@program("transformers")
def llama_generate(compile: Compile) -> Any:
    model = tiny_llama().eval()
    model.forward = compile(model.forward)
    prompt = torch.randint(3, 64, (2, 5))
    greedy = model.generate(prompt, max_new_tokens=6, do_sample=False)
    torch.manual_seed(5)
    sampled = model.generate(prompt, max_new_tokens=4, do_sample=True, top_k=5, temperature=0.7)
    return greedy, sampled


@program("transformers")
def llama_whole_generate_compiled(compile: Compile) -> Any:
    model = tiny_llama().eval()
    generate = compile(model.generate)
    return generate(torch.randint(3, 64, (1, 4)), max_new_tokens=4, do_sample=False)


@program("transformers")
def llama_manual_cache(compile: Compile) -> Any:
    from transformers import DynamicCache

    model = tiny_llama().eval()
    compiled = compile(model)
    cache = DynamicCache(config=model.config)
    tokens, logits = torch.randint(3, 64, (1, 4)), []
    with torch.no_grad():
        for _ in range(4):
            out = compiled(tokens, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            tokens = out.logits[:, -1:].argmax(-1)
            logits.append(out.logits[:, -1])
    return logits, cache.get_seq_length()


@program("transformers")
def gpt2_language_modelling(compile: Compile) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=64,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=32,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )

    @compile
    def step(tokens: torch.Tensor) -> Any:
        out = model(tokens, labels=tokens, output_hidden_states=True)
        out.loss.backward()
        return out.loss.detach(), out.hidden_states[-1].detach()

    return [step(torch.randint(0, 64, (2, 8))) for _ in range(2)], gradients(model)


@program("transformers")
def t5_encoder_decoder(compile: Compile) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=64,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    )
    compiled = compile(model)
    out = compiled(input_ids=torch.randint(2, 64, (2, 6)), labels=torch.randint(2, 64, (2, 4)))
    out.loss.backward()
    words = compiled.generate(torch.randint(2, 64, (1, 5)), max_new_tokens=4, num_beams=2)
    return out.loss.detach(), words, gradients(model)


@program("transformers")
def vision_text_similarity(compile: Compile) -> Any:
    from transformers import CLIPConfig, CLIPModel

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = CLIPConfig(
        text_config={**sizes, "vocab_size": 64, "eos_token_id": 63},
        vision_config={**sizes, "image_size": 16, "patch_size": 8},
        projection_dim=16,
    )
    model = CLIPModel(config)
    compiled = compile(model)
    tokens = torch.randint(0, 60, (3, 5))
    tokens[:, -1] = 63
    out = compiled(input_ids=tokens, pixel_values=torch.randn(3, 3, 16, 16), return_loss=True)
    out.loss.backward()
    return out.loss.detach(), out.logits_per_image.detach(), gradients(model)


@program("transformers", "accelerate")
def hf_trainer(compile: Compile) -> Any:
    import tempfile

    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Losses(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.seen: list[float] = []

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if "loss" in logs:
                self.seen.append(logs["loss"])

    data = [{"input_ids": torch.randint(0, 64, (6,)), "labels": torch.tensor(i % 3)} for i in range(8)]
    model = tiny_bert()
    model.forward = compile(model.forward)
    losses = Losses()
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            max_steps=3,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        )
        Trainer(model, options, train_dataset=data, callbacks=[losses]).train()
    return losses.seen, [p.detach() for p in model.classifier.parameters()]


@program("transformers")
def custom_logits_and_stopping(compile: Compile) -> Any:
    from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

    class Ban(LogitsProcessor):  # type: ignore[misc]
        @compile
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            scores = scores.clone()
            scores[:, 10:40] = float("-inf")
            return scores

    class Long(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
            return torch.full((len(input_ids),), input_ids.size(1) >= 8)

    model = tiny_llama().eval()
    compiled = compile(model)
    return compiled.generate(
        torch.randint(3, 64, (2, 4)),
        max_new_tokens=10,
        do_sample=False,
        logits_processor=LogitsProcessorList([Ban()]),
        stopping_criteria=StoppingCriteriaList([Long()]),
    )


@program("transformers", "peft")
def lora_finetuning(compile: Compile) -> Any:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(
        tiny_llama(), LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    )
    compiled = compile(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    tokens, losses = torch.randint(3, 64, (2, 6)), []
    for _ in range(3):
        out = compiled(input_ids=tokens, labels=tokens)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.loss.detach())
    with torch.no_grad(), model.disable_adapter():
        plain = compiled(input_ids=tokens).logits
    merged = model.merge_and_unload().eval()
    with torch.no_grad():
        return losses, plain, compile(merged)(tokens).logits


@program("transformers", "peft")
def adapters_switched(compile: Compile) -> Any:
    from peft import IA3Config, LoraConfig, get_peft_model

    model = get_peft_model(
        tiny_bert(), LoraConfig(r=2, target_modules=["query"], init_lora_weights=False), adapter_name="a"
    )
    model.add_adapter("b", LoraConfig(r=3, target_modules=["query", "value"], init_lora_weights=False))
    compiled = compile(model.eval())
    tokens, out = torch.randint(0, 64, (2, 5)), []
    with torch.no_grad():
        for name in ("a", "b", "a"):
            model.set_adapter(name)
            out.append(compiled(tokens).logits)
    scaled = get_peft_model(
        tiny_bert(), IA3Config(target_modules=["key", "output.dense"], feedforward_modules=["output.dense"])
    )
    loss = compile(scaled)(tokens, labels=torch.tensor([0, 1])).loss
    loss.backward()
    return out, loss.detach(), gradients(scaled)


@program("transformers", "peft")
def prompt_tuning(compile: Compile) -> Any:
    from peft import PromptTuningConfig, TaskType, get_peft_model

    model = get_peft_model(tiny_llama(), PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=3))
    compiled = compile(model)
    tokens = torch.randint(3, 64, (2, 5))
    loss = compiled(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss
    loss.backward()
    return loss.detach(), gradients(model)


@program("accelerate")
def accelerate_loop(compile: Compile) -> Any:
    from accelerate import Accelerator
    from accelerate.utils import set_seed
    from torch.utils.data import DataLoader, TensorDataset

    set_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = compile(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(16, 6), torch.randint(0, 2, (16,))), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()))
    return losses, [p.detach() for p in accelerator.unwrap_model(model).parameters()]


@program("accelerate", "transformers")
def accelerate_offload_hooks(compile: Compile) -> Any:
    from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module

    class Scale(ModelHook):  # type: ignore[misc]
        def pre_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return (args[0] * 2, *args[1:]), kwargs

        def post_forward(self, module: nn.Module, output: torch.Tensor) -> torch.Tensor:
            return output - 1

    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    compiled = compile(model)
    x = torch.randn(3, 4)
    before = compiled(x).detach()
    add_hook_to_module(model[0], Scale())
    hooked = compiled(x).detach()
    remove_hook_from_module(model[0])
    return before, hooked, compiled(x).detach()
