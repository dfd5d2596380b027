"""Branching Policy Optimization: reinforcement learning on rollout trees for agents in sandboxes that can be forked."""

__version__ = "0.1.0"
