"""Sizes of a model from its config.json alone: parameters, and the arithmetic of a token and of a row.

Counted by hand from the published architectures (Vaswani et al. 2017 and the papers of each family), as transformers
builds them with a head for sequence classification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# A backward pass has two products for each of the forward's: one for the gradient of the input, one for the weight's.
TRAINING = 3
LIKE_BERT = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "albert")
_NEXT_TOKEN = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class Shape:
    """The sizes of a model. Sizes are numbers of values, unless said otherwise.

    Attributes:
        kind: ``model_type``.
        layers: Layers that a token goes through.
        hidden: Size of a token's vector.
        heads: Heads of the queries; keys and values may have fewer, ``kv_heads``.
        head_size: Size of a head's vector.
        inner: Size of the feed-forward part.
        labels: Classes of the head.
        embeddings: Parameters of the embeddings.
        layer: Parameters of one layer.
        distinct_layers: Layers with parameters of their own; 1 in ALBERT, where all share.
        above: Parameters behind the layers: last norm, pooler and head.
        products: Multiplications of a token in the matrices of one layer.
        entry_products: Multiplications of a token before the first layer (ALBERT's and ELECTRA's projection).
        head_products: Multiplications of the head, for each row or token; see ``head_on``.
        head_on: ``row`` or ``token``: what the head is computed for.
        largest: Parameters of the largest matrix, which is that of the vocabulary.
        activation: Function of the feed-forward part.
        dropout: Probability behind each sub-layer.
        attention_dropout: Probability on the weights of attention.
    """

    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    labels: int
    embeddings: int
    layer: int
    distinct_layers: int
    above: int
    products: int
    entry_products: int
    head_products: int
    head_on: str
    largest: int
    activation: str
    dropout: float
    attention_dropout: float

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.embeddings + self.layer * self.distinct_layers + self.above

    def forward_flops(self, lengths: Iterable[tuple[int, int]]) -> float:
        """Floating-point operations of a forward pass, two for each multiplication and addition.

        Args:
            lengths: (tokens of a row, number of such rows). Attention is counted in full, within a window too.
        """
        total = 0.0
        for tokens, rows in lengths:
            matrices = self.layers * self.products + self.entry_products
            attention = self.layers * 2 * tokens * self.heads * self.head_size  # q k' and its product with v
            head = self.head_products * (tokens if self.head_on == "token" else 1)
            total += 2.0 * rows * (tokens * (matrices + attention) + head)
        return total

    def training_flops(self, lengths: Iterable[tuple[int, int]], recompute: bool = False) -> float:
        """Operations of forward and backward; with recomputation the layers' forward counts once more."""
        return (TRAINING + (1 if recompute else 0)) * self.forward_flops(lengths)


def shape_of(config: Mapping[str, Any], labels: int) -> Shape | None:
    """The sizes of a sequence classifier.

    Args:
        config: What its config.json says, as plain values.
        labels: Classes.

    Returns:
        None for a family that is not counted here.
    """
    kind = config.get("model_type", "")
    count = _FAMILIES.get(kind)
    return count(kind, config, labels) if count else None


# -- families ---------------------------------------------------------------------------------------------------------


def _bert(kind: str, config: Mapping[str, Any], labels: int) -> Shape:
    """BERT and those built like it: post-norm layers, learned positions, a dense layer in front of the classes."""
    hidden = _first(config, "hidden_size", "dim")
    inner = _first(config, "intermediate_size", "hidden_dim")
    heads = _first(config, "num_attention_heads", "n_heads")
    layers = _first(config, "num_hidden_layers", "n_layers")
    width = config.get("embedding_size", hidden) if kind in ("electra", "albert") else hidden
    vocabulary, positions = config["vocab_size"], config.get("max_position_embeddings", 512)
    types = 0 if kind == "distilbert" else config.get("type_vocab_size", 2)
    projects = kind == "albert" or width != hidden
    in_group = config.get("inner_group_num", 1) if kind == "albert" else 1
    distinct = config.get("num_hidden_groups", 1) * in_group if kind == "albert" else layers
    attention, forward = 4 * hidden**2, 2 * hidden * inner
    return Shape(
        kind=kind, layers=layers * in_group, hidden=hidden, heads=heads, kv_heads=heads, head_size=hidden // heads,
        inner=inner, labels=labels,
        embeddings=(vocabulary + positions + types + 2) * width + (width * hidden + hidden) * projects,
        layer=attention + 4 * hidden + forward + inner + hidden + 4 * hidden,
        distinct_layers=distinct,
        above=hidden**2 + hidden + hidden * labels + labels,
        products=attention + forward,
        entry_products=width * hidden * projects,
        head_products=hidden**2 + hidden * labels, head_on="row",
        largest=vocabulary * width,
        activation=_first(config, "hidden_act", "activation", default="gelu_new" if kind == "albert" else "gelu"),
        dropout=float(_first(config, "hidden_dropout_prob", "dropout", default=_own_dropout(kind))),
        attention_dropout=float(
            _first(config, "attention_probs_dropout_prob", "attention_dropout", default=_own_dropout(kind))
        ),
    )  # fmt: skip


def _own_dropout(kind: str) -> float:
    return 0.0 if kind == "albert" else 0.1


def _modernbert(kind: str, config: Mapping[str, Any], labels: int) -> Shape:
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    norm = hidden * (2 if config.get("norm_bias") else 1)
    attention, forward = 4 * hidden**2, 3 * hidden * inner
    biases = 4 * hidden * bool(config.get("attention_bias")) + (2 * inner + hidden) * bool(config.get("mlp_bias"))
    above = norm + hidden**2 + hidden * bool(config.get("classifier_bias")) + norm + hidden * labels + labels
    return Shape(
        kind=kind, layers=config["num_hidden_layers"], hidden=hidden, heads=heads, kv_heads=heads,
        head_size=hidden // heads, inner=inner, labels=labels,
        embeddings=config["vocab_size"] * hidden,  # their norm stands for the one that the first layer lacks
        layer=attention + forward + biases + 2 * norm,
        distinct_layers=config["num_hidden_layers"],
        above=above,
        products=attention + forward, entry_products=0,
        head_products=hidden**2 + hidden * labels, head_on="row",
        largest=config["vocab_size"] * hidden,
        activation=config.get("hidden_activation", "gelu"),
        dropout=float(config.get("mlp_dropout", 0.0)), attention_dropout=float(config.get("attention_dropout", 0.0)),
    )  # fmt: skip


def _gpt2(kind: str, config: Mapping[str, Any], labels: int) -> Shape:
    hidden, heads, layers = config["n_embd"], config["n_head"], config["n_layer"]
    inner = config.get("n_inner") or 4 * hidden
    positions = _first(config, "n_positions", "max_position_embeddings", default=1024)
    attention, forward = 4 * hidden**2, 2 * hidden * inner
    return Shape(
        kind=kind, layers=layers, hidden=hidden, heads=heads, kv_heads=heads, head_size=hidden // heads, inner=inner,
        labels=labels,
        embeddings=(config["vocab_size"] + positions) * hidden,
        layer=attention + 4 * hidden + forward + inner + hidden + 4 * hidden,
        distinct_layers=layers,
        above=2 * hidden + hidden * labels,
        products=attention + forward, entry_products=0,
        head_products=hidden * labels, head_on="token",
        largest=config["vocab_size"] * hidden,
        activation=config.get("activation_function", "gelu_new"),
        dropout=float(config.get("resid_pdrop", 0.1)), attention_dropout=float(config.get("attn_pdrop", 0.1)),
    )  # fmt: skip


def _llama(kind: str, config: Mapping[str, Any], labels: int) -> Shape:
    """Llama, Mistral and Qwen: root-mean-square norms, gated feed-forward, fewer key heads than query heads."""
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    size = config.get("head_dim") or (128 if kind == "qwen3" else hidden // heads)
    queries, keys = heads * size, kv_heads * size
    attention, forward = 2 * hidden * queries + 2 * hidden * keys, 3 * hidden * inner
    biased = kind != "mistral" and bool(config.get("attention_bias"))
    biases = queries + 2 * keys + (hidden if biased else 0) if biased or kind == "qwen2" else 0
    biases += (2 * inner + hidden) * (kind == "llama" and bool(config.get("mlp_bias")))
    return Shape(
        kind=kind, layers=config["num_hidden_layers"], hidden=hidden, heads=heads, kv_heads=kv_heads, head_size=size,
        inner=inner, labels=labels,
        embeddings=config["vocab_size"] * hidden,
        layer=attention + forward + biases + 2 * hidden + (2 * size if kind == "qwen3" else 0),
        distinct_layers=config["num_hidden_layers"],
        above=hidden + hidden * labels,
        products=attention + forward, entry_products=0,
        head_products=hidden * labels, head_on="token",
        largest=config["vocab_size"] * hidden,
        activation=config.get("hidden_act", "silu"),
        dropout=0.0, attention_dropout=float(config.get("attention_dropout", 0.0)),
    )  # fmt: skip


def _first(config: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    """The value under the first of several names that a family may use."""
    for name in names:
        if config.get(name) is not None:
            return config[name]
    if default is None:
        raise KeyError(names[0])
    return default


_FAMILIES: dict[str, Callable[[str, Mapping[str, Any], int], Shape]] = {
    **dict.fromkeys(LIKE_BERT, _bert),
    "modernbert": _modernbert,
    "gpt2": _gpt2,
    **dict.fromkeys(_NEXT_TOKEN, _llama),
}
