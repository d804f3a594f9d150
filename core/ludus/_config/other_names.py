"""Names of options in other libraries, for hints about unknown keys."""

from __future__ import annotations

from collections.abc import Collection

from ludus.printing import did_you_mean

__all__ = ["hint_for_key", "translate"]

#: Options of components → names of the same option in Stable-Baselines3, RLlib, CleanRL, Tianshou, Sample Factory, ….
_OPTIONS = {
    "learning_rate": "lr actor_lr policy_lr optimizer_lr step_size",
    "gamma": "discount discount_factor discounting reward_discount",
    "gae_lambda": "lambda lam gae_lam td_lambda lmbda gae",
    "segment_decisions": "n_steps num_steps rollout rollout_length rollout_fragment_length unroll_length horizon "
    "bptt_horizon sequence_length max_seq_len step_per_collect",
    "batch_decisions": "batch_size train_batch_size train_batch_size_per_learner rollout_batch_size",
    "num_minibatches": "minibatches n_minibatches nminibatches num_batches_per_epoch minibatch_size mini_batch_size "
    "sgd_minibatch_size",
    "minibatch_size": "batch_size train_batch_size sgd_minibatch_size mini_batch_size",
    "epochs": "n_epochs num_epochs update_epochs ppo_epochs num_sgd_iter noptepochs repeat_per_collect n_updates",
    "clip_epsilon": "clip clip_range clip_param clip_coef clip_ratio eps_clip epsilon_clip ppo_clip ppo_clip_ratio",
    "value_clip": "clip_range_vf vf_clip_param clip_vloss ppo_clip_value",
    "ent_coef": "entropy_coef entropy_coeff entropy_cost ent_weight entropy_weight exploration_loss_coeff",
    "vf_coef": "vf_loss_coeff value_coef value_loss_coef value_loss_coeff vf_coeff critic_coef vf_weight baseline_cost",
    "max_grad_norm": "grad_clip clip_grad gradient_clip max_gradient_norm grad_norm_clip clip_grad_norm",
    "target_kl": "kl_target kl_threshold",
    "normalize_advantage": "norm_adv normalize_adv norm_advantages advantage_normalization",
    "replay_capacity": "buffer_size replay_size replay_buffer_size memory_size capacity",
    "learning_starts": "start_steps warmup_steps learning_start num_steps_sampled_before_learning_starts",
    "target_update_steps": "target_update_interval target_network_update_freq target_update_freq",
    "tau": "polyak soft_update_coefficient",
    "updates_per_batch": "gradient_steps train_intensity utd_ratio update_per_step",
    "hidden": "hidden_sizes hidden_size net_arch fcnet_hiddens hidden_dim hidden_layers layers mlp_layers",
    "activation": "activation_fn fcnet_activation nonlinearity",
    "name": "env env_id env_name",
    "max_ticks": "max_episode_steps max_cycles time_limit_steps",
    "options": "env_kwargs env_config kwargs",
}
_NOTES = {"num_minibatches": ", the number of minibatches in a batch"}

#: Options of sections, with their section.
_SECTION_OPTIONS = {
    "run.decisions": "total_timesteps timesteps total_steps max_steps num_timesteps max_env_steps total_env_steps",
    "run.workers": "num_workers n_workers num_env_runners num_rollout_workers n_jobs",
    "run.device": "cuda gpu use_gpu num_gpus",
    "sampling.matches": "num_envs n_envs num_environments num_envs_per_worker num_envs_per_env_runner",
    "evaluation.final_matches": "n_eval_episodes eval_episodes evaluation_duration num_eval_episodes",
    "evaluation.enabled": "evaluation_interval eval_freq",
    "players.NAME.freeze_every_decisions": "save_freq checkpoint_freq snapshot_interval save_interval",
    "environment.name": "env_id env_name",
}


def translate(key: str, options: Collection[str]) -> str:
    """Return the option that other libraries call `key`; empty if there is none.

    Args:
        key: Name in another library.
        options: The options to choose from.
    """
    word = _normalized(key)
    return next((name for name, words in _OPTIONS.items() if name in options and word in words.split()), "")


def hint_for_key(key: str, options: Collection[str]) -> str:
    """Return a hint about an unknown key, such as `` — it is called 'gamma' here``; empty if nothing is similar."""
    if option := translate(key, options):
        return f" — it is called {option!r} here{_NOTES.get(option, '')}"
    word = _normalized(key)
    paths = (path for path, words in _SECTION_OPTIONS.items() if word in words.split())
    if path := next(paths, ""):
        return f" — it is called {path} here"
    return did_you_mean(key, options)


def _normalized(key: str) -> str:
    return key.lower().replace("-", "_").strip("_")
