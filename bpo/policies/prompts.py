"""What a language model reads before it acts: an append-only transcript, or a window that is rendered anew at every step.

A style is an object with
    begin(observation) / extend(context, decision, observation)   -> Context
    appends                                                       does a context begin with the one it extends?
    codec                                                         how admissible actions become tokens
    ended(tokens) -> bool                                         has free writing said its action?
    written(action) -> ids                                        the shortest free writing that says this action
    parse(tokens, actions) -> str                                 the action in freely written tokens, "" if there is none

What is written and then parsed is the action as it was, whatever text that is. Writing that was not finished, and an action
that holds a special token or bytes that are not UTF-8, are no action.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bpo.errors import BadInput
from bpo.policies.spelling import CALL, LINE, TAGGED
from bpo.policies.text import TextCodec, whole
from bpo.policies.trie import ActionCodec
from bpo.policy import Decision
from bpo.sandbox import Observation

# Stands in a chat template for the message, to find out what the template puts around it.
MESSAGE = "BPOMESSAGE"


@dataclass(frozen=True, eq=False)
class Context:
    """What the model remembers of a path: immutable, shared between branches.

    ids          token ids before the next decision
    observation  the latest observation, with its admissible actions
    parent       the context whose ids begin these, None where the prompt was rendered anew
    history      (observation text, action) pairs the windowed style shows again, oldest first
    draft        tokens at the end of `ids` that belong to an action which is not finished
    forgotten    tokens along the path (of its first prompt, of actions and observations after it) beyond those in `ids`;
                 negative where a prompt that was rendered anew says more than the path
    """

    ids: tuple[int, ...]
    observation: Observation
    parent: Context | None = field(default=None, repr=False)
    history: tuple[tuple[str, str], ...] = ()
    draft: tuple[int, ...] = ()
    forgotten: int = 0

    @property
    def travelled(self) -> int:
        """Tokens along the path."""
        return len(self.ids) + self.forgotten


class TranscriptStyle:
    """Task, first observation, then action and observation in turn; ids are kept, so every path is one growing sequence.

    The text is "Task: ...", the observation, then "> action" and the next observation, each on lines of their own.
    """

    appends = True

    def __init__(self, tokenizer, writing: str):
        self._tokenizer = tokenizer
        self._text = TextCodec(tokenizer)
        self._newline = self._text.encode("\n")[-1:]
        # The tokens of an action begin with a space, which most vocabularies fuse with the word after it.
        self.codec = ActionCodec(self._text.encode, lead=" ", terminator=self._newline, spell=spelled)

    def begin(self, observation: Observation) -> Context:
        bos = () if self._tokenizer.bos_token_id is None else (self._tokenizer.bos_token_id,)
        text = f"Task: {observation.task}\n{observation.text.strip()}\n>"
        return Context(ids=bos + self._text.encode(text), observation=observation)

    def extend(self, context: Context, decision: Decision, observation: Observation) -> Context:
        # Writing that was cut off, or stopped by the end-of-text token, has not ended its line.
        cut = () if self._has_newline(decision.tokens[-1:]) else self._newline
        added = decision.tokens + cut + self._text.encode(f"{observation.text.strip()}\n>")
        return Context(ids=context.ids + added, observation=observation, parent=context)

    def _has_newline(self, tokens: tuple[int, ...]) -> bool:
        return "\n" in self._text.decode(tokens)

    def ended(self, tokens: list[int]) -> bool:
        return tokens[-1] == self._tokenizer.eos_token_id or self._has_newline(tuple(tokens[-1:]))

    def written(self, action: str) -> tuple[int, ...]:
        return self.codec.encode(action)

    def parse(self, tokens: list[int], actions: tuple[str, ...] | None) -> str:
        """The first line, if it has ended; "" (to which a sandbox answers that nothing happens) if the line is empty."""
        ended = bool(tokens) and tokens[-1] == self._tokenizer.eos_token_id
        line, newline, _ = self._text.decode(tokens[:-1] if ended else tokens).partition("\n")
        if not (ended or newline) or not whole(line):
            return ""
        return as_admissible(unspelled(line.removeprefix(" ")), actions)


class WindowedStyle:
    """The prompt of the verl-agent line of work: task, last two steps, observation, admissible actions, think-and-act tags.

    It follows that protocol's content; the wording is this project's, since the environments differ. `help` is left out of
    the list as there. With constrained writing the prompt ends with "<action>", so that the model only chooses; free writing
    begins with its thoughts. The tokenizer's chat template is used if it has one; BadInput where it shows a message otherwise
    than once and as it is.
    """

    WINDOW = 2
    appends = False

    def __init__(self, tokenizer, writing: str):
        self._tokenizer = tokenizer
        self._text = TextCodec(tokenizer)
        self._around = self._frame("<action>" if writing == "constrained" else "")
        closing = tuple(tokenizer.encode("</action>", add_special_tokens=False))
        self.codec = ActionCodec(self._text.encode, lead="", terminator=closing, spell=TAGGED.spell)
        self._tail = 2 * len("</action>")  # tokens are at least a byte long: enough to see a tag that has just been closed

    def _frame(self, cue: str) -> tuple[str, str]:
        """What stands before a message and after it, special tokens written out: the tokenizer must not add its own."""
        if not self._tokenizer.chat_template:
            return self._tokenizer.bos_token or "", f"\n{cue}"
        messages = [{"role": "user", "content": MESSAGE}]
        frame = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        if frame.count(MESSAGE) != 1:
            raise BadInput(f"the tokenizer's chat template shows a message {frame.count(MESSAGE)} times; it must show it once")
        before, _, after = frame.partition(MESSAGE)
        return before, after + cue

    def begin(self, observation: Observation) -> Context:
        return self._context(observation, (), None)

    def extend(self, context: Context, decision: Decision, observation: Observation) -> Context:
        history = (*context.history, (context.observation.text, decision.action))
        travelled = context.travelled + len(decision.tokens) + len(self._text.encode(observation.text.strip()))
        return self._context(observation, history[-self.WINDOW :], travelled)

    def _context(self, observation: Observation, history: tuple[tuple[str, str], ...], travelled: int | None) -> Context:
        before, after = self._around
        ids = self._text.prompt(before, windowed_prompt(observation, history), after)
        forgotten = 0 if travelled is None else travelled - len(ids)
        return Context(ids=ids, observation=observation, history=history, forgotten=forgotten)

    def ended(self, tokens: list[int]) -> bool:
        return tokens[-1] == self._tokenizer.eos_token_id or "</action>" in self._text.decode(tokens[-self._tail :])

    def written(self, action: str) -> tuple[int, ...]:
        return self._text.encode(f"<action>{TAGGED.spell(action)}</action>")

    def parse(self, tokens: list[int], actions: tuple[str, ...] | None) -> str:
        """The text between "<action>" and the "</action>" after it; "" if a tag is missing, or comes twice."""
        said, closed, _ = self._text.decode(tokens).partition("</action>")
        _, opened, inner = said.partition("<action>")
        if not (opened and closed) or "<action>" in inner or not whole(inner):
            return ""
        return as_admissible(TAGGED.read(inner), actions)


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
            lines.append(f"[Observation {number}: '{text.strip()}', Action {number}: '{TAGGED.spell(action)}']")
    lines.append(f"You are now at step {observation.step + 1} and your current observation is: {observation.text.strip()}")
    if observation.actions is not None:
        listed = ", ".join(f"'{TAGGED.spell(action)}'" for action in observation.actions if action != "help")
        lines.append(f"Your admissible actions in the current situation are: [{listed}].")
    lines.append(
        "Now it is your turn to take an action. First reason step by step about the current situation, "
        "within <think> </think> tags. Then choose one admissible action and present it within <action> </action> tags."
    )
    return "\n".join(lines)


def spelled(action: str) -> str:
    """An action as the transcript writes it, on one line.

    A word in the brackets of an action like click[brown] gets the space before it that it has everywhere else: vocabularies
    hold " brown" and "brown" as two tokens, and copying one that was read is easier than translating it.
    """
    return CALL.spell(LINE.spell(action))


def unspelled(text: str) -> str:
    """The action behind `spelled` text."""
    return LINE.read(CALL.read(text))


def as_admissible(text: str, actions: tuple[str, ...] | None) -> str:
    """The admissible action that `text` is, if there is one: to the letter, or else but for outer spaces, or else for case.

    Where several differ from it in case alone, it is none of them.
    """
    listed, bare = actions or (), text.strip()
    for name in (text, bare):
        if name in listed:
            return name
    alike = {action for action in listed if action.strip().lower() == bare.lower()}
    return alike.pop() if len(alike) == 1 else text
