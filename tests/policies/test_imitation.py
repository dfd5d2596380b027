import numpy as np
import pytest
import torch
from rooms import demonstration, room

from bpo.errors import BadInput
from bpo.policies.imitation import imitate, lesson, warmup_cosine
from bpo.policies.tiny import tiny_model, train_tokenizer


def test_tokenizer_is_lossless_deterministic_and_keeps_digits_and_newlines_apart(tokenizer):
    text = "Task: öffne cabinet 12!\n\n> go to\tcabinet 3\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert [tokenizer.decode(i) for i in tokenizer.encode("cabinet 12\n", add_special_tokens=False)[-3:]] == [" 1", "2", "\n"]
    assert len(tokenizer.encode(" cabinet", add_special_tokens=False)) == 1
    texts = [room(i).text for i in range(5)]
    assert train_tokenizer(texts, 300).get_vocab() == train_tokenizer(texts, 300).get_vocab()


def test_model_depends_on_its_seed_alone_and_leaves_the_global_state():
    state = torch.get_rng_state()
    a, b, c = tiny_model(300, "micro", 0), tiny_model(300, "micro", 0), tiny_model(300, "micro", 1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(a.lm_head.weight, b.lm_head.weight)
    assert not torch.equal(a.lm_head.weight, c.lm_head.weight)
    assert 0.6e6 < sum(p.numel() for p in tiny_model(1024).parameters()) < 0.9e6
    with pytest.raises(BadInput, match="micro"):
        tiny_model(300, "mikro")


@pytest.mark.parametrize("settings", [{}, {"prompt": "windowed"}, {"writing": "free"}])
def test_imitation_learns_its_demonstrations(make_policy, settings):
    policy, before = make_policy(**settings), make_policy(**settings)
    episodes = [demonstration(i)[:2] for i in range(4)]
    seen = []
    stats = imitate(
        policy, episodes, epochs=40, lr=3e-3, batch_size=4, seed=0, text_weight=0.2, progress=lambda *args: seen.append(args)
    )
    assert stats["updates"] == 40
    assert seen[-1] == ("imitation", 40, 40)
    assert stats["action_loss"][-1] < 0.5 * stats["action_loss"][0]
    if not settings.get("prompt"):
        assert stats["text_loss"][-1] < 0.7 * stats["text_loss"][0]
    recorded = [(context, policy.decide(context, e[0][1])) for e in episodes for context in [policy.begin(e[0][0])]]
    assert policy.logprob(recorded)[0].sum().item() > 0.5 * before.logprob(recorded)[0].sum().item()


def test_imitation_is_deterministic(make_policy):
    def run(seed):
        policy = make_policy()
        imitate(policy, [demonstration(i) for i in range(4)], epochs=2, lr=1e-2, batch_size=2, seed=seed)
        return policy.model.lm_head.weight.detach().clone()

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))


def test_minibatches_split_by_memory_have_the_same_gradient(make_policy):
    """Loss weights are over the whole minibatch, so the token budget must not matter."""
    states = []
    for budget in (10**6, 300):
        policy = make_policy(batch_tokens=budget)
        imitate(policy, [demonstration(i) for i in range(4)], epochs=1, lr=1e-3, batch_size=4, seed=0, text_weight=0.5)
        states.append(policy.model.lm_head.weight.detach())
    torch.testing.assert_close(*states, atol=1e-5, rtol=0)


def test_text_step_scores_observations_and_not_actions(make_policy):
    policy = make_policy()
    item = lesson(policy, demonstration(0), with_text=True)
    context, decision = item.text
    scored = policy.tokenizer.decode([decision.tokens[i] for i in decision.free])
    assert "Looking quickly around" in scored
    forced = [i for i in range(len(decision.tokens)) if i not in decision.free]
    between = policy.tokenizer.decode([decision.tokens[i] for i in forced])
    assert between == "".join(f" {action}\n" for _, action in demonstration(0)[:-1])
    assert context.ids + decision.tokens == item.decisions[-1][0].ids


def test_learning_rate_rises_then_falls_to_zero():
    factors = np.array([warmup_cosine(i, 100) for i in range(100)])
    assert factors[:5].tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert (np.diff(factors[5:]) < 0).all()
    assert factors[-1] < 0.01


def test_no_episodes_is_bad_input(make_policy):
    with pytest.raises(BadInput, match="episode"):
        imitate(make_policy(), [], epochs=1, lr=1e-3, batch_size=2, seed=0)


def test_an_episode_that_the_model_cannot_read_is_told_before_training(make_policy):
    policy = make_policy()
    policy._net.positions = 40
    before = policy.model.lm_head.weight.detach().clone()
    with pytest.raises(BadInput, match="the model reads at most 40"):
        imitate(policy, [demonstration(0)], epochs=1, lr=1e-2, batch_size=1, seed=0)
    assert torch.equal(policy.model.lm_head.weight, before)
