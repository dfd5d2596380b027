"""A language model small enough to train on a laptop's CPU, and a tokenizer for its domain."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bpo.errors import choose
from bpo.policies.settings import SIZES

SPECIALS = ("<pad>", "<bos>", "<eos>")


def train_tokenizer(texts: Iterable[str], vocab_size: int = 1024) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on `texts`: deterministic, lossless, with <pad>, <bos> and <eos>.

    A word with the space before it is at most one token, and so is WebShop's mark [SEP] between two parts of a page; a digit is
    exactly one ("cabinet 12" is "cabinet", " 1", "2"), and a newline is one, so that it can close an action.
    """
    tokenizer = Tokenizer(models.BPE())
    words = Regex(r" ?\[SEP\]| ?\d| ?\p{L}+| ?[^\s\p{L}\d]+|\n|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    pad, bos, eos = SPECIALS
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, bos_token=bos, eos_token=eos, clean_up_tokenization_spaces=False
    )


def tiny_model(vocab_size: int, size: str = "tiny", seed: int = 0) -> LlamaForCausalLM:
    """A Llama-shaped model in float32 with tied embeddings; its weights depend on `seed` alone.

    "tiny" has 0.7 M parameters at a vocabulary of 1,024, "micro" 0.1 M. The global random state is left as it was.
    """
    hidden, layers, heads, kv_heads, feed_forward = SIZES[choose("model size", size, SIZES)]
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=feed_forward,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.05,
        attn_implementation="sdpa",
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).float()
