"""The plan of a job on a machine: its stages, their sums, and whether it fits."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from hindsight_fast.errors import HindsightError, StorageError, UsageError
from hindsight_fast.planning import _sizes as sizes
from hindsight_fast.planning._gpus import Gpu, seconds_on
from hindsight_fast.planning._job import Job, Shape
from hindsight_fast.planning._machine import Machine
from hindsight_fast.planning._speeds import Speeds
from hindsight_fast.planning._stages import Costs, Stage, idea_costs, slowed, stages

GB = 1e9


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job will take.

    Attributes
    ----------
    stages : list of Stage
        In order; those that don't count are other ways of searching.
    costs : Costs
        Of one idea.
    """

    job: Job
    shape: Shape
    machine: Machine
    speeds: Speeds
    stages: list[Stage]
    costs: Costs

    @property
    def taken(self) -> list[Stage]:
        """The stages that count."""
        return [stage for stage in self.stages if stage.counts]

    @property
    def seconds(self) -> float:
        """All time, what is slow for want of memory included."""
        return sum(stage.seconds + self.slowed(stage) for stage in self.taken)

    @property
    def memory(self) -> float:
        """Most private memory of any stage: they run one after the other."""
        return max(stage.private for stage in self.taken)

    @property
    def cached(self) -> float:
        """Most bytes of mapped files that a stage wants in memory."""
        return max(stage.cached for stage in self.taken)

    @property
    def disk(self) -> float:
        """Bytes that stay."""
        return sum(stage.kept for stage in self.taken)

    @property
    def disk_at_most(self) -> float:
        """Bytes that lie there at the worst moment."""
        most = kept = 0.0
        for stage in self.taken:
            kept += stage.kept
            most = max(most, kept + stage.temporary)
        return most

    def slowed(self, stage: Stage) -> float:
        """Seconds more that a stage takes since its files don't stay in memory."""
        return slowed(
            stage, self.job, self.shape.dim, self.speeds, self.machine.memory - stage.private
        )

    def refusal(self) -> HindsightError | None:
        """Why the job can't be done here, as the error to raise; None: it fits."""
        machine, lacking = self.machine, list[str]()
        if self.memory > machine.memory:
            stage = max(self.taken, key=lambda one: one.private)
            lacking.append(
                f"memory: need {_gb(self.memory)} ({stage.name}), have {_gb(machine.memory)} "
                f"({machine.memory_is} limit)"
            )
        short_of_disk = self.disk_at_most > machine.disk_free
        if short_of_disk:
            lacking.append(
                f"disk: need {_gb(self.disk_at_most)}, have {_gb(machine.disk_free)} free at "
                f"{machine.place}"
            )
        if not lacking:
            return None
        text = f"this job does not fit here; {'; '.join(lacking)}"
        return StorageError(text) if short_of_disk else UsageError(text)

    def warnings(self) -> list[str]:
        """What will go slowly, and what is not there now."""
        found = list[str]()
        for stage in self.taken:
            room = self.machine.memory - stage.private
            if (more := self.slowed(stage)) > 1:
                found.append(
                    f"{stage.name}: {_gb(stage.cached)} of files should stay in memory, and there "
                    f"is room for {_gb(max(room, 0))}; reading them again from the disk takes "
                    f"{more:,.0f} s more"
                )
        return found

    def llm_calls(self) -> dict[str, int]:
        """Calls to language models, and their tokens, where the ideas are to be made and judged.

        Half of the ideas are of a retrieval-augmented generator (a call for the problem, one for
        the method), half of a vanilla one (one call). Assumed: instructions of 300 tokens, ten
        papers to read, a rubric of 500, an answer as long as an idea, a judgement of 300.
        """
        half, text, votes = -(-self.job.ideas // 2), self.job.tokens, self.job.votes
        others = self.job.ideas - half
        return {
            "generate_calls": 2 * half + others,
            "generate_tokens_in": half * (300 + 10 * text + 300 + 11 * text) + others * 300,
            "generate_tokens_out": 2 * half * text + others * text,
            "judge_calls": self.job.ideas * votes,
            "judge_tokens_in": self.job.ideas * votes * (500 + text),
            "judge_tokens_out": self.job.ideas * votes * 300,
        }

    def on(self, gpu: Gpu) -> list[float | None]:
        """Seconds of each stage that counts on a GPU; None where papers don't fit."""
        return [seconds_on(gpu, stage, self.job, self.shape) for stage in self.taken]

    def bytes_per_paper(self) -> dict[str, float]:
        """On disk, by kind of file."""
        n, d, speeds, m = self.job.papers, self.shape.dim, self.speeds, self.job.connectivity
        each = {
            "vectors": sizes.vectors(n, d),
            "projection": sizes.projection(n, d, speeds.scan_axes),
            "index": sizes.index(n, d, speeds.index_axes, m),
            "texts": sizes.papers(n, self.job.tokens),
            "lookup": sizes.lookup(n),
            "impact": sizes.impact(n),
        }
        return {name: size / n for name, size in each.items()}

    def facts(self, gpus: list[Gpu]) -> dict[str, Any]:
        """All of it for JSON."""
        refused = self.refusal()
        return {
            "job": dataclasses.asdict(self.job),
            "machine": dataclasses.asdict(self.machine),
            "speeds": self.speeds.facts(),
            "stages": [
                dataclasses.asdict(stage) | {"slowed_s": self.slowed(stage)}
                for stage in self.stages
            ],
            "seconds": self.seconds,
            "memory": self.memory,
            "cached": self.cached,
            "disk": self.disk,
            "disk_at_most": self.disk_at_most,
            "bytes_per_paper": self.bytes_per_paper(),
            "idea_seconds": dataclasses.asdict(self.costs),
            "rewards_per_s": self.costs.rewards_per_s,
            "cached_rewards_per_s": self.costs.cached_rewards_per_s,
            "llm_calls": self.llm_calls(),
            "gpus_estimated": {
                gpu.name: {
                    stage.name: seconds
                    for stage, seconds in zip(self.taken, self.on(gpu), strict=True)
                }
                for gpu in gpus
            },
            "fits": refused is None,
            "refused": refused and str(refused),
            "warnings": self.warnings(),
        }


def make_plan(job: Job, shape: Shape, machine: Machine, speeds: Speeds) -> Plan:
    """Plan a job for a machine of these speeds."""
    return Plan(
        job,
        shape,
        machine,
        speeds,
        stages(job, shape, speeds, machine.threads),
        idea_costs(job, shape, speeds),
    )


def _gb(n_bytes: float) -> str:
    return f"{n_bytes / GB:,.{1 if n_bytes >= GB else 3}f} GB"
