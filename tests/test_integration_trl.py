"""A real run of TRL's GRPO with our reward: a random model of two layers, three steps on a CPU."""

import json
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast import rewards
from hindsight_fast.rewards import Request, RewardConfig, RewardModel
from hindsight_fast.rewards.trl import hindsight_reward
from paper_tables import WORDS
from scoring_world import World, make_world

pytestmark = pytest.mark.integration

PROMPTS = ["we learn", "the data of", "an image and"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), theta=0.5)


@pytest.fixture
def model(world: World) -> Generator[RewardModel]:
    config = RewardConfig(shaping="tie_breaker", invalid_value=-0.1)
    model = RewardModel(world.pool, world.encoder, config)
    rewards.use(model)
    yield model
    rewards.use(None)
    model.close()


def a_tokenizer() -> Any:
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")

    names = ["<pad>", "<eos>", "<unk>", *sorted({*WORDS, *" ".join(PROMPTS).split()})]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({name: i for i, name in enumerate(names)}, "<unk>")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


@pytest.mark.filterwarnings("ignore")  # the libraries' own
def test_a_policy_is_trained(model: RewardModel, tmp_path: Path) -> None:
    datasets: Any = import_module("datasets")
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    trl: Any = import_module("trl")

    torch.manual_seed(0)
    tokenizer = a_tokenizer()
    policy = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, eos_token_id=1,
            bos_token_id=1,
        )
    )  # fmt: skip
    seen = list[tuple[Any, list[float | None]]]()

    def spy(**given: Any) -> list[float | None]:
        earned = hindsight_reward(**given)
        seen.append((given, earned))
        return earned

    trainer = trl.GRPOTrainer(
        model=policy,
        processing_class=tokenizer,
        reward_funcs=[hindsight_reward, spy],
        args=trl.GRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, report_to="none", max_steps=3,
            per_device_train_batch_size=4, num_generations=4, max_completion_length=24,
            logging_steps=1, learning_rate=1e-3, save_strategy="no",
        ),
        train_dataset=datasets.Dataset.from_list(
            [{"prompt": one, "cutoff": "2023-06-10", "exclude_ids": ["p0011"]} for one in PROMPTS]
        ),
    )  # fmt: skip
    before = {name: value.clone() for name, value in policy.named_parameters()}
    trainer.train()

    logged = [one for one in trainer.state.log_history if "reward" in one]
    assert len(logged) == 3
    assert {"rewards/hindsight_reward/mean", "hindsight/score", "hindsight/dead_groups"} <= set(
        logged[0]
    )
    assert any(not torch.equal(before[name], value) for name, value in policy.named_parameters())
    # What the trainer was told is what a fresh model says of the same requests, one by one.
    assert len(seen) == 3
    fresh = RewardModel(model.pool, model.encoder, model.config)
    for given, earned in seen:
        right = [
            fresh.rewards([Request(text, cutoff="2023-06-10", exclude_ids=("p0011",))])[0].reward
            for text in given["completions"]
        ]
        assert earned == right
        assert len({json.dumps(one) for one in earned}) > 1
