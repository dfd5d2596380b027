"""What a language model reads before it acts: an append-only transcript, or a window that is rendered anew at every step.

A style is an object with
    begin(observation) / extend(context, decision, observation)   -> Context
    appends                                                       does a context begin with the one it extends?
    codec                                                         how admissible actions become tokens
    ended(tokens) -> bool                                         has free writing said its action?
    written(action) -> ids                                        the shortest free writing that says this action
    parse(tokens, actions) -> str                                 the action in freely written tokens, "" if there is none
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bpo.policies.trie import ActionCodec
from bpo.policy import Decision
from bpo.sandbox import Observation


@dataclass(frozen=True, eq=False)
class Context:
    """What the model remembers of a path: immutable, shared between branches.

    ids          token ids before the next decision
    observation  the latest observation, with its admissible actions
    parent       the context whose ids begin these, None where the prompt was rendered anew
    history      (observation text, action) pairs the windowed style shows again, oldest first
    draft        tokens at the end of `ids` that belong to an action which is not finished
    """

    ids: tuple[int, ...]
    observation: Observation
    parent: Context | None = field(default=None, repr=False)
    history: tuple[tuple[str, str], ...] = ()
    draft: tuple[int, ...] = ()


def spelled(action: str) -> str:
    """An action as the transcript writes it: a word in brackets gets the space before it that it has everywhere else.

    Vocabularies hold " brown" and "brown" as two tokens, and copying one that was read is easier than translating it.
    """
    return action.replace("[", "[ ")


def unspelled(text: str) -> str:
    """The action behind `spelled` text; a space that an action really has after a bracket is lost."""
    return text.replace("[ ", "[")


class TranscriptStyle:
    """Task, first observation, then action and observation in turn; ids are kept, so every path is one growing sequence.

    The text is "Task: ...", the observation, then "> action" and the next observation, each on lines of their own.
    """

    appends = True

    def __init__(self, tokenizer, writing: str):
        self._tokenizer = tokenizer
        self._newline = self._encode("\n")[-1:]
        # The tokens of an action begin with a space, which most vocabularies fuse with the word after it.
        self.codec = ActionCodec(tokenizer, lead=" ", terminator=self._newline, spell=spelled)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def begin(self, observation: Observation) -> Context:
        bos = () if self._tokenizer.bos_token_id is None else (self._tokenizer.bos_token_id,)
        text = f"Task: {observation.task}\n{observation.text.strip()}\n>"
        return Context(ids=bos + self._encode(text), observation=observation)

    def extend(self, context: Context, decision: Decision, observation: Observation) -> Context:
        # Writing that was cut off, or stopped by the end-of-text token, has not ended its line.
        cut = () if self._has_newline(decision.tokens[-1:]) else self._newline
        added = decision.tokens + cut + self._encode(f"{observation.text.strip()}\n>")
        return Context(ids=context.ids + added, observation=observation, parent=context)

    def _has_newline(self, tokens: tuple[int, ...]) -> bool:
        return "\n" in self._tokenizer.decode(tokens)

    def ended(self, tokens: list[int]) -> bool:
        return tokens[-1] == self._tokenizer.eos_token_id or self._has_newline(tuple(tokens[-1:]))

    def written(self, action: str) -> tuple[int, ...]:
        return self.codec.encode(action)

    def parse(self, tokens: list[int], actions: tuple[str, ...] | None) -> str:
        """The first line; "" (to which a sandbox answers that nothing happens) if the line is empty."""
        text = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return as_admissible(unspelled(text.split("\n", 1)[0]), actions)


class WindowedStyle:
    """The prompt of the verl-agent line of work: task, last two steps, observation, admissible actions, think-and-act tags.

    It follows that protocol's content; the wording is this project's, since the environments differ. `help` is left out of
    the list as there. With constrained writing the prompt ends with "<action>", so that the model only chooses; free writing
    begins with its thoughts. The tokenizer's chat template is used if it has one.
    """

    WINDOW = 2
    appends = False

    def __init__(self, tokenizer, writing: str):
        self._tokenizer = tokenizer
        self._cue = "<action>" if writing == "constrained" else ""
        closing = tuple(tokenizer.encode("</action>", add_special_tokens=False))
        self.codec = ActionCodec(tokenizer, lead="", terminator=closing)
        self._tail = 2 * len("</action>")  # tokens are at least a byte long: enough to see a tag that has just been closed

    def begin(self, observation: Observation) -> Context:
        return self._context(observation, ())

    def extend(self, context: Context, decision: Decision, observation: Observation) -> Context:
        history = (*context.history, (context.observation.text, decision.action))
        return self._context(observation, history[-self.WINDOW :])

    def _context(self, observation: Observation, history: tuple[tuple[str, str], ...]) -> Context:
        text = windowed_prompt(observation, history)
        if self._tokenizer.chat_template:
            messages = [{"role": "user", "content": text}]
            text = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        else:
            text = f"{self._tokenizer.bos_token or ''}{text}\n"
        # Special tokens are written out in the text, by the template or above; the tokenizer must not add its own.
        ids = tuple(self._tokenizer.encode(text + self._cue, add_special_tokens=False))
        return Context(ids=ids, observation=observation, history=history)

    def ended(self, tokens: list[int]) -> bool:
        return tokens[-1] == self._tokenizer.eos_token_id or "</action>" in self._tokenizer.decode(tokens[-self._tail :])

    def written(self, action: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(f"<action>{action}</action>", add_special_tokens=False))

    def parse(self, tokens: list[int], actions: tuple[str, ...] | None) -> str:
        """The text between the first "<action>" and the "</action>" after it; "" if a tag is missing."""
        _, opened, rest = self._tokenizer.decode(tokens, skip_special_tokens=True).partition("<action>")
        inner, closed, _ = rest.partition("</action>")
        return as_admissible(inner, actions) if opened and closed else ""


STYLES = {"transcript": TranscriptStyle, "windowed": WindowedStyle}


def windowed_prompt(observation: Observation, history: tuple[tuple[str, str], ...]) -> str:
    """The user message for one decision; `history` holds the (observation, action) pairs before it, oldest first."""
    first = observation.step - len(history) + 1
    lines = [f"You are an expert agent operating in a text environment. Your task is: {observation.task}"]
    if history:
        lines.append(
            f"Prior to this step, you have already taken {observation.step} step(s). "
            f"Below are the most recent {len(history)} observations and the corresponding actions you took:"
        )
        for number, (text, action) in enumerate(history, start=first):
            lines.append(f"[Observation {number}: '{text.strip()}', Action {number}: '{action}']")
    lines.append(f"You are now at step {observation.step + 1} and your current observation is: {observation.text.strip()}")
    if observation.actions is not None:
        listed = ", ".join(f"'{action}'" for action in observation.actions if action != "help")
        lines.append(f"Your admissible actions in the current situation are: [{listed}].")
    lines.append(
        "Now it is your turn to take an action. First reason step by step about the current situation, "
        "within <think> </think> tags. Then choose one admissible action and present it within <action> </action> tags."
    )
    return "\n".join(lines)


def as_admissible(text: str, actions: tuple[str, ...] | None) -> str:
    """`text` without outer spaces, in the spelling of the admissible action it equals up to case, if there is one."""
    text = text.strip()
    return next((action for action in actions or () if action.lower() == text.lower()), text)
