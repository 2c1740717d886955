"""Small configurations of every family whose sizes are counted in closed form; no two sizes in them are equal."""

from __future__ import annotations

from typing import Any

FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {}, "roberta": {"type_vocab_size": 1}, "xlm-roberta": {"type_vocab_size": 1}, "camembert": {},
    "electra": {"embedding_size": 16}, "electra-same": {"embedding_size": 32}, "albert": {"embedding_size": 16},
    "albert-groups": {"embedding_size": 16, "num_hidden_groups": 3, "inner_group_num": 2},
    "distilbert": {}, "modernbert": {}, "modernbert-biases": {"norm_bias": True, "attention_bias": True,
    "mlp_bias": True, "classifier_bias": True},
    "gpt2": {}, "llama": {"num_key_value_heads": 2}, "llama-biases": {"attention_bias": True, "mlp_bias": True},
    "mistral": {"num_key_value_heads": 2}, "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 16},
}  # fmt: skip
_NAMES = {
    "distilbert": {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                   "intermediate_size": "hidden_dim"},
    "gpt2": {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
             "intermediate_size": "n_inner", "max_position_embeddings": "n_positions"},
}  # fmt: skip
LABELS = 5


def config_of(family: str, **changed: Any) -> Any:
    """A transformers config of a family, tiny; names are BERT's for all."""
    from transformers import AutoConfig

    kind = "xlm-roberta" if family == "xlm-roberta" else family.partition("-")[0]
    sizes = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
             "intermediate_size": 48, "max_position_embeddings": 40} | changed  # fmt: skip
    named = {_NAMES.get(kind, {}).get(name, name): value for name, value in sizes.items()}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    return AutoConfig.for_model(kind, **named, **FAMILIES[family], **tokens, num_labels=LABELS)


def model_of(config: Any, attention: str = "eager") -> Any:
    """A classifier with random weights."""
    from transformers import AutoModelForSequenceClassification

    return AutoModelForSequenceClassification.from_config(config, attn_implementation=attention)
