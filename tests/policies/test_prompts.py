import pytest
from rooms import room

from bpo.errors import BadInput
from bpo.policies.prompts import STYLES, spelled, unspelled, windowed_prompt
from bpo.policies.trie import build, forced
from bpo.policy import Decision
from bpo.sandbox import Observation


def written(tokenizer, action: str, text: str) -> Decision:
    tokens = tuple(tokenizer.encode(text, add_special_tokens=False))
    return Decision(action, tokens, (0.0,) * len(tokens), (None,) * len(tokens), 0.0)


def test_windowed_prompt_shows_task_two_steps_observation_and_actions_without_help(tokenizer):
    style = STYLES["windowed"](tokenizer, "free")
    context = style.begin(Observation("You are at o0.", ("look", "help", "go to shelf 1"), "cool an egg.", 0))
    text = tokenizer.decode(context.ids, skip_special_tokens=True)
    assert "Your task is: cool an egg." in text
    assert "Prior to this step" not in text
    assert "current observation is: You are at o0." in text
    assert "['look', 'go to shelf 1']" in text
    assert "<think> </think>" in text
    for step in (1, 2, 3):
        after = Observation(f"You are at o{step}.", ("look",), "cool an egg.", step)
        context = style.extend(context, Decision(f"a{step}", (), (), (), 0.0), after)
    text = tokenizer.decode(context.ids, skip_special_tokens=True)
    assert "already taken 3 step(s)" in text
    assert "[Observation 2: 'You are at o1.', Action 2: 'a2']\n[Observation 3: 'You are at o2.', Action 3: 'a3']" in text
    assert "o0" not in text
    assert "You are now at step 4 and your current observation is: You are at o3." in text
    assert context.parent is None


def test_windowed_constrained_ends_with_the_action_cue_and_uses_the_chat_template(tokenizer):
    plain = STYLES["windowed"](tokenizer, "constrained").begin(room(0))
    assert tokenizer.decode(plain.ids).endswith("</action> tags.\n<action>")
    import copy

    chat = copy.deepcopy(tokenizer)
    chat.chat_template = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[me]{% endif %}"
    )
    ids = STYLES["windowed"](chat, "constrained").begin(room(0)).ids
    assert chat.decode(ids) == f"[user]{windowed_prompt(room(0), ())}[me]<action>"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<think>hot mug</think><action>go to cabinet 1</action>", "go to cabinet 1"),
        ("<action> Go to Cabinet 1 </action><action>look</action>", "go to cabinet 1"),
        ("<action>fly</action>", "fly"),
        ("go to cabinet 1", ""),
        ("<action>go to cabinet 1", ""),
        ("</action><action>", ""),
    ],
)
def test_windowed_parsing(tokenizer, text, action):
    style = STYLES["windowed"](tokenizer, "free")
    assert style.parse(tokenizer.encode(text, add_special_tokens=False), ("look", "go to cabinet 1")) == action


def test_windowed_writing_ends_at_the_closing_tag_or_end_of_text(tokenizer):
    style = STYLES["windowed"](tokenizer, "free")
    ids = tokenizer.encode("<think>" + "a b c " * 20 + "</think><action>look</action>", add_special_tokens=False)
    assert [n for n in range(1, len(ids) + 1) if style.ended(ids[:n])] == [len(ids)]
    assert style.ended([5, tokenizer.eos_token_id])


def test_transcript_writing_ends_with_its_line(tokenizer):
    style = STYLES["transcript"](tokenizer, "free")
    ids = tokenizer.encode(" look\n", add_special_tokens=False)
    assert [style.ended(ids[: n + 1]) for n in range(len(ids))] == [False] * (len(ids) - 1) + [True]
    assert style.parse(ids, None) == "look"
    assert style.parse(ids[-1:], None) == ""
    assert style.ended([tokenizer.eos_token_id])


def test_transcript_closes_a_line_that_was_cut_off(tokenizer):
    style = STYLES["transcript"](tokenizer, "free")
    context = style.begin(room(0))
    for text, shown in ((" look\n", "> look\nYou"), (" loo", "> loo\nYou"), (" look<eos>", "> look<eos>\nYou")):
        longer = style.extend(context, written(tokenizer, "look", text), room(0, 1))
        assert shown in tokenizer.decode(longer.ids)
        assert longer.ids[: len(context.ids)] == context.ids


def test_trie_runs_and_conflicts():
    root = build({"a": (1, 2, 9), "b": (1, 3, 4, 9)})
    assert forced(root)[0] == (1,)
    assert forced(forced(root)[1][3]) == ((4, 9), "b")
    with pytest.raises(BadInput, match="terminator"):
        build({"a": (1, 2), "ab": (1, 2, 3)})
    with pytest.raises(BadInput, match="terminator"):
        build({"ab": (1, 2, 3), "a": (1, 2)})


@pytest.mark.parametrize("action", ["click[brown]", "search[a [b] c]", "go to shelf 1", "click[buy now]"])
def test_words_in_brackets_are_the_tokens_that_they_are_elsewhere(tokenizer, action):
    """The transcript writes "click[ brown]", and reads back what the sandbox is given."""
    style = STYLES["transcript"](tokenizer, "free")
    assert unspelled(spelled(action)) == action
    assert style.parse(list(style.written(action)), None) == action
    assert style.parse(list(style.written(action)), ("look", action.upper())) == action.upper()
    word = tokenizer.encode(" brown", add_special_tokens=False)
    tokens = list(style.codec.encode("click[brown]"))
    assert any(tokens[i : i + len(word)] == word for i in range(len(tokens)))
