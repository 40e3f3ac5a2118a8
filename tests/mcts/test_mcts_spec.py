"""What a `kind: mcts` spec and the flags of `coppice mcts` may say, and how each mistake is told."""

import json
from pathlib import Path

import pytest
from doit.cmdparse import CmdOption, CmdParse
from kit.mistakes import Mistake, read_mistakes, refused_mistake
from kit.project import Project

from pipeline import kinds
from pipeline.commands.flags import flag_options, flag_values
from pipeline.core.graph import Graph, Target
from pipeline.core.recipe import LIMITS
from pipeline.lean.model import LeanKeys
from pipeline.mcts.plan import plan, scenario_settings, shared_settings
from pipeline.mcts.read import FLAGS, read
from pipeline.mcts.report.page import settings_line, spec_settings
from pipeline.mcts.search.agents import UNOBSERVED, Block, Delay, Interventions, ReservationRules
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.records import ALL_SUCCESSES, EXPLORE, UCT, Budget, Expansion, SearchRules, SelectionRules
from pipeline.mcts.spec.model import GuideNames, MctsSpec
from pipeline.spec import parse

LEAST = "kind: mcts\nbank: bank.jsonl\n"
TEAM = "{mode: distributed, agents: 2, inflight: 1%s}"
BANK = "".join(json.dumps({"id": name, "goal": f"{n} = {n}"}) + "\n" for n, name in enumerate(("one", "two", "three")))


@pytest.fixture
def place(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.write("bank.jsonl", BANK)
    monkeypatch.chdir(project.root)
    return project


def spec(text: str) -> MctsSpec:
    return read(parse(text.encode(), "specs/x.yaml"), "x")


def said(place: Project, text: str) -> str:
    place.spec("x", text)
    told = place.call("plan", "x")
    assert told.code == 2, told
    return told.err


@pytest.mark.usefixtures("place")
def test_the_least_that_a_spec_says() -> None:
    found = spec(LEAST + "mode: centralized\n")
    assert found.goals == ("one", "two", "three")
    assert (found.rules, found.guides) == (
        SearchRules(Budget(2000, 200), SelectionRules(), Expansion(attempts=4)),
        GuideNames(),
    )
    assert [each.name for each in found.scenarios] == ["centralized"]
    assert (found.seeds, found.lean, found.rooms, found.at_once) == ((0,), LeanKeys(processes=1), {"lean": 1}, 1)


@pytest.mark.usefixtures("place")
def test_all_that_a_spec_can_say_of_the_tree() -> None:
    text = "selection: uct\nbackup: product\nwiden: 2\nalpha: 0.3\nexpansion_policy: all-successes\nattempts: 2\n"
    found = spec(LEAST + text + "mode: centralized\ngoals: [three, one]\nseeds: [4, 0]\ncalls: 9\niterations: 5\n")
    maths = SelectionRules(UCT, EXPLORE[UCT], "product", 2.0, 0.3)
    assert found.rules == SearchRules(Budget(5, 9), maths, Expansion(ALL_SUCCESSES, 2))
    assert (found.goals, found.seeds) == (("three", "one"), (4, 0))


EVERYTHING = """
reservation: unobserved
depth_bias: -0.5
path_bias: 0.25
history_cache: 3
block: {fraction: 0.5, duration: 7, seed: 9, immovable_fraction: 0.1, unfreeze_after: 2, unfreeze_prob: 0.3}
reroute: {blocked: true, max: 4}
delay: {prob: 0.2, duration: 3}
"""
TYPED = (
    "--mcts-mode distributed --mcts-agents 2 --mcts-inflight 1 --mcts-reservation unobserved --mcts-depth-bias=-0.5"
    " --mcts-path-bias 0.25 --mcts-history-cache 3 --mcts-block-fraction 0.5 --mcts-block-duration 7"
    " --mcts-block-seed 9 --mcts-block-immovable-fraction 0.1 --mcts-unfreeze-after 2 --mcts-unfreeze-prob 0.3"
    " --mcts-reroute-blocked --mcts-reroute-max 4 --mcts-delay-prob 0.2 --mcts-delay-duration 3"
)


@pytest.mark.usefixtures("place")
def test_each_key_of_a_scenario_is_heard_and_a_seed_that_is_not_given_is_that_of_the_search() -> None:
    found = spec(LEAST + "mode: distributed\nagents: 2\ninflight: 1\n" + EVERYTHING)
    steering = ReservationRules(2, 1, UNOBSERVED, 1.0, -0.5, 0.25, 3)
    block = Block(0.5, 7, 9, 0.1, 2, 0.3)
    [scenario] = found.scenarios
    assert scenario.rules(found.rules, 6) == TeamRules(found.rules, steering, Interventions(block, Delay(0.2, 3, 6), 4))


@pytest.mark.usefixtures("place")
def test_a_comparison_tells_a_seed_of_blocks_or_delays_where_one_is_given() -> None:
    """Where none is, each search has its own."""
    scenario = (
        "mode: distributed\nagents: 2\ninflight: 1\nblock: {fraction: 0.5%s}\ndelay: {prob: 0.2, duration: 3%s}\n"
    )
    for block, delay in (("", ""), (", seed: 0", ""), (", seed: 7", ", seed: 0")):
        [compare] = [each for each in targets(scenario % (block, delay)) if each.stage == "compare"]
        [told] = compare.params["scenarios"].values()
        assert [told["block"].get("seed"), told["delay"].get("seed")] == [
            int(given.partition(": ")[2]) if given else None for given in (block, delay)
        ]


@pytest.mark.usefixtures("place")
def test_what_all_searches_share_is_told_as_keys_of_the_spec() -> None:
    asked = "selection: uct\nbackup: product\nwiden: 2\nalpha: 0.3\nexplore: 0.5\nexpansion_policy: all-successes\n"
    asked += "attempts: 2\npriors: ledger\nas_of: spring\nrewards: printed\n"
    for text in (asked, ""):
        asked_for = spec(LEAST + "mode: centralized\n" + text)
        found = shared_settings(asked_for)
        again = spec(LEAST + "mode: centralized\n" + "".join(f"{key}: {value}\n" for key, value in found.items()))
        assert (again.rules, again.guides) == (asked_for.rules, asked_for.guides)
    assert found["priors"] == "moves"
    [compare] = [each for each in targets("mode: centralized\n") if each.stage == "compare"]
    assert (compare.params["shared"], compare.params["bank"]) == (found, "bank.jsonl")
    assert dict(compare.reads)["toolchain.json"] == ("runs/x/toolchain.json",)


@pytest.mark.usefixtures("place")
def test_a_page_tells_a_scenario_as_a_spec_would() -> None:
    """Without what is as it is by default; what it tells would be the same scenario."""
    team = "mode: distributed\nagents: 2\ninflight: 1\n"
    real = f"{team}virtual_loss: 0.5\ndeterministic_inference: false\ndelay: {{prob: 0.1, duration: 0, seed: 0}}\n"
    blocked = f"{team}virtual_loss: 1\nblock: {{fraction: 0.5, duration: -1}}\n"
    told = []
    for text in (team + EVERYTHING, real, blocked, "mode: centralized\n"):
        [scenario] = spec(LEAST + text).scenarios
        told.append(settings_line(spec_settings(scenario_settings(scenario))))
        [again] = spec(f"{LEAST}scenarios: {{{scenario.name}: {{{told[-1]}}}}}\n").scenarios
        assert again[:-1] == scenario[:-1]
    assert told[2:] == ["mode: distributed, agents: 2, inflight: 1, block: {fraction: 0.5}", "mode: centralized"]


def test_flags_say_what_keys_say(place: Project) -> None:
    place.spec("x", LEAST + "mode: distributed\nagents: 2\ninflight: 1\n" + EVERYTHING)
    targets = {target.stage: target for target in plan(spec(place.read("specs/x.yaml")))}
    typed = flagged(place, *TYPED.split())
    assert typed["rules"] == targets["search"].params["rules"]


def flagged(place: Project, *flags: str) -> dict[str, object]:
    """The params of a search under the scenario of the flags."""
    values, _ = CmdParse([CmdOption(each) for each in flag_options(FLAGS)]).parse(flags)
    read = {each.flag.key: each.value for each in flag_values("mcts", FLAGS, values)}
    asked = spec(place.read("specs/x.yaml"))
    staged = kinds.ability_module("mcts", kinds.PROVE).with_overrides(asked, read)
    return dict(next(target.params for target in plan(staged) if target.stage == "search"))


MISTAKES = read_mistakes(Path(__file__).with_name("bad_specs.txt"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_told_with_its_place_and_what_would_be_right(place: Project, mistake: Mistake) -> None:
    refused_mistake(place, mistake)


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ("--mcts-agents 2", "--mcts-mode is missing: centralized or distributed"),
        ("--mcts-mode centralized --mcts-agents 2", "--mcts-agents is for --mcts-mode distributed"),
        ("--mcts-mode centralized --mcts-deterministic-inference", "--mcts-deterministic-inference is for --mcts-mode"),
        ("--mcts-mode distributed --mcts-inflight 1", "--mcts-mode distributed needs --mcts-agents"),
        ("--mcts-mode distributed --mcts-agents 1", "--mcts-mode distributed needs --mcts-inflight"),
        ("--mcts-mode distributed --mcts-agents 0 --mcts-inflight 1", "--mcts-agents: expected a whole number"),
        (
            "--mcts-mode distributed --mcts-agents 1 --mcts-inflight 1 --mcts-unfreeze-after 2",
            "--mcts-unfreeze-after means nothing without --mcts-block-fraction",
        ),
        (
            "--mcts-mode distributed --mcts-agents 1 --mcts-inflight 1 --mcts-block-fraction 0.1 --mcts-reroute-max 2",
            "--mcts-reroute-max means nothing without --mcts-reroute-blocked",
        ),
        ("--mcts-mode ...", "--mcts-mode: '...' cannot be read"),
        ("--mcts-expansion-policy any", "--mcts-expansion-policy: 'any' is unknown"),
    ],
)
def test_a_mistake_in_flags_names_the_option_and_starts_nothing(place: Project, flags: str, what: str) -> None:
    place.spec("x", LEAST + "mode: centralized\n")
    told = place.call("mcts", *flags.split())
    assert (told.code, told.err.count("\n")) == (2, 1), told
    assert told.err.startswith(f"coppice: mcts: {what}")
    assert not (place.root / "runs").exists()


def targets(text: str) -> list[Target]:
    return Graph(plan(spec(LEAST + text))).targets


@pytest.mark.usefixtures("place")
def test_there_is_a_target_for_each_goal_scenario_and_seed() -> None:
    found = targets(f"seeds: 2\ngoals: [one, two]\nscenarios: {{a: {{mode: centralized}}, b: {TEAM % ''}}}\n")
    searches = [target.name for target in found if target.stage == "search"]
    assert searches == [
        f"x:search.{scenario}.{seed}.{goal}" for scenario in "ab" for seed in (0, 1) for goal in ("one", "two")
    ]
    [compare] = [target for target in found if target.stage == "compare"]
    assert [len(dict(compare.reads)[port]) for port in ("summaries", "goals")] == [len(searches), 2] == [8, 2]


def test_more_searches_than_anybody_wants_are_a_mistake(place: Project) -> None:
    names = ", ".join(f"s{n}: {{mode: centralized}}" for n in range(200))
    told = said(place, f"{LEAST}seeds: 1000\nscenarios: {{{names}}}\n")
    assert "make 600,000 searches; at most 100,000" in told


@pytest.mark.usefixtures("place")
def test_what_is_no_part_of_a_scenario_does_not_make_its_searches_others() -> None:
    """Neither its name nor what stands in another one: the centralized is the same beside whatever else."""
    alone, beside = (
        next(target.params for target in targets(text) if target.stage == "search")
        for text in ("mode: centralized\n", f"scenarios: {{b: {{mode: centralized}}, a: {TEAM % ''}}}\n")
    )
    assert alone == beside


def decided_by(stage: str, text: str) -> dict[str, object]:
    """Of the first target of a stage, what makes it the same as another."""
    params = next(target.params for target in targets(text) if target.stage == stage)
    return {name: value for name, value in params.items() if name != LIMITS}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("calls: 9\n", True),
        ("attempts: 2\n", True),
        ("seeds: [1]\n", True),
        ("priors: uniform\n", True),
        ("lean: {processes: 2, memory: 1500}\n", False),
        ("ledger: elsewhere.db\n", False),
        ("goals: [one]\n", False),
    ],
)
def test_another_budget_is_another_search_and_another_limit_of_lean_is_not(text: str, other: bool) -> None:
    least = decided_by("search", "mode: centralized\n")
    assert (decided_by("search", f"mode: centralized\n{text}") != least) == other


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("text", ["as_of: today\n", "ledger: elsewhere.db\n"])
def test_another_ledger_or_another_word_for_when_it_was_read_gives_other_priors(text: str) -> None:
    asked = "mode: centralized\npriors: ledger\n"
    assert decided_by("shares", asked + text) != decided_by("shares", asked)


@pytest.mark.usefixtures("place")
def test_a_search_in_real_time_has_the_lean_to_itself() -> None:
    lean = "lean: {processes: 3}\n"
    team = spec(LEAST + lean + "mode: distributed\nagents: 2\ninflight: 1\ndeterministic_inference: false\n")
    assert (team.rooms, team.at_once) == ({"lean": 1}, 3)
    assert spec(LEAST + lean + "mode: centralized\n").rooms == {"lean": 3}


def test_a_row_more_in_the_bank_is_a_search_more(place: Project) -> None:
    place.spec("x", LEAST + "mode: centralized\n")
    before = place.call("plan", "--graph-only", "x").out
    assert place.call("list", "--all").code == 0
    place.write("bank.jsonl", BANK + '{"id": "four", "goal": "4 = 4"}\n')
    assert place.call("plan", "--graph-only", "x").out != before
