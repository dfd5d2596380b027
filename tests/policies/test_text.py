"""Any text goes through tokenizer, prompt, decision and action, and comes back as it was."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from bpo.errors import BadInput
from bpo.policies.lm import LMPolicy
from bpo.policies.prompts import STYLES, windowed_prompt
from bpo.policies.text import TextCodec, shown, whole
from bpo.policies.tiny import tiny_model, train_tokenizer
from bpo.sandbox import Observation

TOKENIZER = train_tokenizer(["look at the mug", "> click[ brown]", "[ -e README ]"], 300)
SPECIAL = set(TOKENIZER.all_special_ids)
CHAT = copy.deepcopy(TOKENIZER)
CHAT.chat_template = "{% for m in messages %}<bos>{{ m.role }}: {{ m.content }}<eos>\n{% endfor %}<bos>me: "
# Texts that mean something to a tokenizer, a prompt or a line, in any order and between anything.
PARTS = (
    *(
        "<eos>",
        "<bos>",
        "<pad>",
        "<e",
        "os>",
        "<action>",
        "</action>",
        "<",
        "/action>",
        "[",
        "[ ",
        "]",
        "click[",
        "> ",
        ">",
        "Task: ",
    ),
    *(
        "\n",
        "\r\n",
        "\r",
        "\t",
        "\0",
        "\x1b[31m",
        "\u2028",
        "\x85",
        "\u241b",
        "\u2424",
        "\ufffd",
        "\ufeff",
        " ",
        "  ",
        "",
        "é",
        "e\u0301",
        "🙂",
    ),
)
texts = st.one_of(
    st.text(max_size=30), st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=3)), max_size=8).map("".join)
)


def policy(tokenizer=TOKENIZER, **options) -> LMPolicy:
    return LMPolicy(tiny_model(len(tokenizer), "micro"), tokenizer, **options)


POLICIES = {
    (prompt, writing, chat): policy(CHAT if chat else TOKENIZER, prompt=prompt, writing=writing)
    for prompt in STYLES
    for writing in ("constrained", "free")
    for chat in (False, True)
}


@given(texts)
def test_a_text_holds_no_special_token_and_comes_back(text):
    codec = TextCodec(TOKENIZER)
    ids = codec.encode(text)
    assert SPECIAL.isdisjoint(ids)
    assert codec.decode(ids) == text
    assert whole(codec.decode(ids))


@given(texts, texts, texts, st.sampled_from(sorted(POLICIES)))
@settings(max_examples=200)
def test_prompts_hold_the_special_tokens_that_the_style_writes_and_no_other(task, seen, listed, which):
    style = POLICIES[which]._style
    plain = style.begin(Observation("o", ("look",), "t", 0)).ids
    context = style.begin(Observation(seen, ("look", listed), task, 0))
    kept = lambda ids: [token for token in ids if token in SPECIAL]  # noqa: E731
    assert kept(context.ids) == kept(plain)
    after = style.extend(context, POLICIES[which].decide(context, listed), Observation(seen, None, task, 1))
    assert kept(after.ids) == kept(plain)
    said = TextCodec(TOKENIZER).decode(context.ids)
    assert seen.strip() in said
    assert task in said


@given(st.lists(texts, min_size=1, max_size=4, unique=True), st.data(), st.sampled_from(sorted(POLICIES)))
@settings(max_examples=300)
def test_every_action_is_written_and_read_as_it_was(actions, data, which):
    """Demonstrated, listed or free: the tokens of one lead to it alone, and what is read from them is the action."""
    action = data.draw(st.sampled_from(actions))
    chosen = POLICIES[which]
    context = chosen.begin(Observation("o", tuple(actions), "t", 0))
    decision = chosen.decide(context, action)
    assert SPECIAL.isdisjoint(decision.tokens)
    if which[1] == "constrained":
        node = chosen._style.codec.trie(tuple(actions))
        for token in decision.tokens:
            node = node[token]
        assert node == action
    else:
        tokens = list(decision.tokens)
        assert chosen._style.parse(tokens, None) == action
        assert chosen._style.parse(tokens, tuple(actions)) == action
        assert [n for n in range(1, len(tokens) + 1) if chosen._style.ended(tokens[:n])] == [len(tokens)]
        # Cut off anywhere, as the limit of tokens does, it is no action.
        assert all(chosen._style.parse(tokens[:n], tuple(actions)) == "" for n in range(len(tokens)))


@pytest.mark.parametrize("prompt", STYLES)
def test_special_tokens_inside_a_free_action_make_it_none(prompt):
    """Left out, they would leave another command than the one that was written."""
    style = POLICIES[prompt, "free", False]._style
    tokens = list(style.written("rm -rf /tmp/xy"))
    eos = TOKENIZER.eos_token_id
    middle = len(tokens) // 2
    assert style.parse([*tokens[:middle], TOKENIZER.pad_token_id, *tokens[middle:]], None) == ""
    assert style.parse([*tokens[:-1], eos], None) == ("" if prompt == "windowed" else "rm -rf /tmp/xy")
    assert style.parse(tokens, None) == "rm -rf /tmp/xy"


@pytest.mark.parametrize("prompt", STYLES)
def test_bytes_that_are_not_utf8_make_no_action(prompt):
    style = POLICIES[prompt, "free", False]._style
    tokens = list(style.written("caf\xe9 x"))
    first = next(i for i, token in enumerate(tokens) if TOKENIZER.convert_ids_to_tokens(token).endswith("Ã"))
    broken = [*tokens[: first + 1], *tokens[first + 2 :]]
    assert "\ufffd" in TOKENIZER.decode(broken)
    assert style.parse(broken, None) == ""


def test_undecodable_bytes_in_an_observation_are_shown_and_listed_ones_are_played():
    """Names of files can be any bytes, which Python holds as surrogates."""
    names = ("cat caf\udce9", "cat caf\udcea", "cat caf\ufffd")
    chosen = POLICIES["transcript", "constrained", False]
    context = chosen.begin(Observation("caf\udce9", names, "t", 0))
    assert shown("caf\udce9") == "caf\ufffd"
    assert "caf\ufffd" in TextCodec(TOKENIZER).decode(context.ids)
    assert [chosen.decide(context, name).action for name in names] == list(names)
    assert len({chosen.decide(context, name).tokens for name in names}) == 3


def test_a_chat_template_keeps_its_tokens_and_a_message_gets_none():
    style = POLICIES["windowed", "constrained", True]._style
    seen = Observation("all is <eos> well", ("say <bos>", "look"), "find <pad>", 0)
    ids = style.begin(seen).ids
    text = f"<bos>user: {windowed_prompt(seen, ())}<eos>\n<bos>me: <action>"
    assert [token for token in ids if token in SPECIAL] == [1, 2, 1]
    assert TextCodec(TOKENIZER).decode(ids).replace("\ud800", "|") == text.replace("<bos>user", "|user").replace(
        "<eos>\n<bos>me", "|\n|me"
    )
    # Where nothing is spelled, the ids are those of the rendered text as a whole.
    plain = Observation("all is well", ("look",), "find it", 0)
    rendered = CHAT.apply_chat_template(
        [{"role": "user", "content": windowed_prompt(plain, ())}], tokenize=False, add_generation_prompt=True
    )
    assert style.begin(plain).ids == tuple(CHAT.encode(rendered + "<action>", add_special_tokens=False))
    twice = copy.deepcopy(TOKENIZER)
    twice.chat_template = "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}"
    with pytest.raises(BadInput, match="shows a message 2 times"):
        STYLES["windowed"](twice, "free")


def words(*known: str, lower: bool = False, parted: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer that knows a few words and loses all others."""
    vocabulary = {word: i for i, word in enumerate(("<unk>", "<eos>", "\n", *known))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    if lower:
        tokenizer.normalizer = normalizers.Lowercase()
    if parted:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>")


def test_listed_actions_that_the_tokenizer_cannot_tell_apart_are_each_played():
    """They get numbers, unless it can tell apart nothing at all."""
    names = ("Look", "look", "LOOK")
    style = STYLES["transcript"](words("look", "(2)", "(3)", lower=True), "constrained")
    tokens = {name: style.codec.path(names, name)[0] for name in names}
    assert len(set(tokens.values())) == 3
    for name, path in tokens.items():
        node = style.codec.trie(names)
        for token in path:
            node = node[token]
        assert node == name
    with pytest.raises(BadInput, match="cannot tell the action 'c' from others"):
        STYLES["transcript"](words("a", parted=False), "constrained").codec.trie(("b", "c"))


def test_a_free_action_that_the_tokenizer_changes_is_refused():
    tokenizer = words("look", lower=True)
    lossy = LMPolicy(tiny_model(len(tokenizer), "micro"), tokenizer, writing="free")
    context = lossy.begin(Observation("o", None, "t", 0))
    with pytest.raises(BadInput, match="'Look' cannot be written freely"):
        lossy.decide(context, "Look")


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("cache", [0, 2**20])
def test_a_context_that_outgrows_the_model_is_told(positions, cache):
    """Learned positions end, and what a model says of rotary ones beyond its own is garbage."""
    size = len(TOKENIZER)
    if positions == "learned":
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=size, n_positions=64, n_embd=32, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
        )
    else:
        model = tiny_model(size, "micro")
        model.config.max_position_embeddings = 64
    chosen = LMPolicy(model, TOKENIZER, writing="constrained", cache_bytes=cache)
    fits = chosen.begin(Observation("a" * 30, ("look", "inventory"), "t", 0))
    assert len(fits.ids) < 50
    (decision,) = chosen.act([fits], [np.random.default_rng(0)])
    chosen.logprob([(fits, decision)])
    long = chosen.begin(Observation("a b " * 60, ("look", "inventory"), "t", 0))
    for call in (
        lambda: chosen.act([long], [np.random.default_rng(0)]),
        lambda: chosen.logprob([(long, chosen.decide(long, "look"))]),
    ):
        with pytest.raises(BadInput, match=r"a path has \d+ tokens, but the model reads at most 64"):
            call()
    # Free writing ends where the model does, and what was not finished is no action.
    free = LMPolicy(model, TOKENIZER, writing="free", cache_bytes=cache, max_action_tokens=1000)
    for seed in range(4):
        (decision,) = free.act([fits], [np.random.default_rng(seed)])
        assert len(fits.ids) + len(decision.tokens) <= 65
        if not free._style.ended(list(decision.tokens)):
            assert decision.action == ""


def test_stretched_rotary_positions_count():
    model = tiny_model(len(TOKENIZER), "micro")
    model.config.max_position_embeddings = 64
    model.config.rope_parameters = {**model.config.rope_parameters, "factor": 4.0, "original_max_position_embeddings": 64}
    assert LMPolicy(model, TOKENIZER)._net.positions == 256


@pytest.mark.parametrize("prompt", STYLES)
@pytest.mark.parametrize("writing", ["constrained", "free"])
def test_the_position_counts_the_tokens_along_the_path(prompt, writing):
    """In a transcript they are the prompt's own; a prompt that is rendered anew saturates, and the path does not."""
    chosen = POLICIES[prompt, writing, False]
    codec = TextCodec(TOKENIZER)
    context = chosen.begin(Observation("start", ("look", "go"), "t", 0))
    assert chosen.context_size(context) == len(context.ids)
    expected = len(context.ids)
    for step in range(1, 8):
        decision = chosen.decide(context, "look")
        seen = Observation("You see a mug.", ("look", "go"), "t", step)
        context = chosen.extend(context, decision, seen)
        cue = 1 + len(codec.encode("\n")) if prompt == "transcript" else 0
        expected += len(decision.tokens) + len(codec.encode("You see a mug.")) + cue
        assert chosen.context_size(context) == (len(context.ids) if prompt == "transcript" else expected)
        assert chosen.context_size(context) == expected
    if prompt == "windowed":
        again = chosen.extend(context, decision, seen)
        assert len(again.ids) == len(context.ids)
        assert chosen.context_size(again) > chosen.context_size(context)
