"""What of the backend leandojo is text: refusals, files, kinds of errors, verdicts."""

import json

import pytest

from pipeline.lean.dojo import text
from pipeline.lean.dojo.backend import CHECK
from pipeline.lean.dojo.process import seconds_allowed
from pipeline.lean.dojo.text import WholeProofFile, preamble_refusal, statement_refusal, tactic_refusal, text_refusal
from pipeline.lean.model import A_SECOND, HEARTBEATS, LeanError, Theorem
from pipeline.tactics.script import as_block

RUN_CODE = [
    'run_tac (IO.println "REPL> {}")',
    "(intro x; run_tac Lean.Elab.Tactic.done)",
    "exact by_elab return Lean.mkConst ``True.intro",
    "exact (run_elab pure ())",
    "native_decide",
    "decide +native",
    "decide (config := { native := true })",
    "exact Lean.ofReduceBool _ true rfl",
    "bv_decide",
    'exact absurd (include_str "/etc/passwd") id',
    "let unsafe x := 1",
    "have := unsafe (unsafeCast 1 : Nat)",
    'exact dbg_trace "x"; trivial',
    "set_option debug.skipKernelTC true in trivial",
    "exact «run_tac»",
    "exact 'a'run_tac x",
    "(lean_dojo_repl; trivial)",
]
LEAVE = [
    "trivial\n\naxiom cheat : False",
    "trivial)\n\n#eval 1\n\n(skip",
    "trivial\n# eval 1",
    'trivial\nmacro "omega" : tactic => `(tactic| trivial)',
    "trivial\nopen private foo in trivial",
    "trivial\n@[simp] theorem x : True := trivial",
    "have := @ [simp] trivial",
    "trivial\ninstance : Inhabited False := ⟨cheat⟩",
    'trivial\nlocal notation "x" => y',
]
HARMLESS = [
    "intro x y h",
    "induction n with\n| zero => simp\n| succ n ih => omega",
    "simp_all [Nat.add_comm, List.init_eq_of_concat_eq]",
    "set_option maxRecDepth 4000 in decide +kernel",
    "open Nat in exact add_comm a b",
    "exact ⟨#[1, 2].size, rfl⟩",
    "(first | omega | grind | exact @Classical.em _)",
    "rcases h with ⟨x, hx⟩ | h'",
    "exact List.prefix_append _ _",
    "calc a = b := h\n  _ = c := h'",
]


@pytest.mark.parametrize("tactic", RUN_CODE)
def test_what_runs_code_is_refused_in_a_proof_and_before_a_statement(tactic):
    assert tactic_refusal(tactic)
    assert text_refusal(tactic)


@pytest.mark.parametrize("tactic", LEAVE)
def test_a_proof_that_wants_out_of_its_theorem_is_refused(tactic):
    assert tactic_refusal(tactic)


@pytest.mark.parametrize("option", ["pp.all", "warn.sorry", "autoImplicit", "Elab.async", "maxRecDepth.x", ""])
def test_a_proof_sets_limits_and_no_other_options(option):
    assert "may set" in tactic_refusal(f"set_option {option} true in trivial")


@pytest.mark.parametrize("tactic", HARMLESS)
def test_usual_tactics_are_not_refused(tactic):
    assert tactic_refusal(tactic) == ""


@pytest.mark.parametrize(
    "before",
    [
        "open Nat",
        "def twice (n : Nat) := 2 * n",
        'local notation "Naturals" => Nat',
        "import A.B",
        "@[simp, grind =] theorem a : 1 = 1 := rfl",
        "attribute [local instance 100] Classical.propDecidable",
        "attribute [-simp] Nat.add_comm",
    ],
)
def test_definitions_and_notations_may_stand_before_a_statement(before):
    assert preamble_refusal(before) == ""


@pytest.mark.parametrize(
    "before",
    [
        *RUN_CODE,
        'macro "win" : tactic => `(tactic| sorry)',
        "@[tactic Lean.Parser.Tactic.skip] def win := fun _ => Lean.Elab.Tactic.setGoals []",
        "@[simp, term_elab x] def win := 1",
        "attribute [tactic x] win",
        "attribute [simp, local tactic x] win",
        "attribute /- -/ [tactic x] win",
        "@[simp [x], tactic x] def win := 1",
        "@[] def win := 1",
        "theorem win (h : autoParam False made) : False := h",
    ],
)
def test_what_becomes_a_part_of_lean_does_not_stand_before_a_statement(before):
    assert preamble_refusal(before)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("True) := trivial theorem y : (False", "closes nothing"),
        ("True -- )", "comment"),
        ("(True /- ) -/", "comment"),
        ("(True", "not closed"),
        ("(1 = 1]", "closes nothing"),
        ("True = by run_tac x", "runs code"),
        ('"" = r"\\") := rfl theorem y : (1 = 1 ∧ "a" = "a"', "begins a command"),
    ],
)
def test_a_statement_is_one_proposition_between_brackets(statement, why):
    assert why in statement_refusal(statement)


@pytest.mark.parametrize(
    "statement",
    ["∀ n : Nat, n + 0 = n", "'(' ≠ ')'", '")".length = 1', "∀ f' : Nat → Nat, f' (0) = f' 0", "⟨1, 2⟩ = (1, 2)"],
)
def test_brackets_in_texts_and_characters_are_none(statement):
    assert statement_refusal(statement) == ""


def test_imports_come_first_and_the_statement_is_in_brackets_of_its_own():
    theorem = Theorem("x", "p ∨ ¬p", ("open Nat", "import Mathlib.Tactic", "variable (p : Prop)"))
    assert text.file_with_gap(theorem, "goal") == (
        "import Lean4Repl\nimport Mathlib.Tactic\n\nopen Nat\n\nvariable (p : Prop)\n\n"
        "set_option maxHeartbeats 0 in\ntheorem goal : (p ∨ ¬p\n) := by\n  lean_dojo_repl\n  sorry\n"
    )


def test_a_checked_file_is_the_one_with_the_gap_and_a_proof_in_it():
    theorem = Theorem("x", "True")
    before = text.text_before_proof(text.file_with_gap(theorem, "goal"))
    file = text.file_with_proof(before, as_block(["skip", "· exact\n    trivial"]), "goal")
    assert file.text.startswith(text.statement_head(theorem, "goal"))
    assert file.text.endswith(":= by\n  (\n    skip\n    · exact\n        trivial\n  )\n\n#print axioms goal\n")
    assert file.text.splitlines()[file.line - 1] == "#print axioms goal"


FILE = WholeProofFile("", 9, "goal_1")


def message(data, line=9, severity="information"):
    return {"severity": severity, "data": data, "pos": {"line": line, "column": 0}}


NONE = message("'goal_1' does not depend on any axioms")


@pytest.mark.parametrize(
    "said",
    [
        [NONE],
        [message("'goal_1' depends on axioms: [propext]")],
        [message("'goal_1' depends on axioms: [propext,\n Classical.choice,\n Quot.sound]")],
        [message("unused variable `x`", 3, "warning"), NONE],
    ],
)
def test_a_file_holds_when_lean_says_of_its_theorem_that_it_rests_on_trusted_axioms(said):
    assert text.check_verdict(FILE, 0, said) is None


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ([], "axioms"),
        ([message("'goal_1' depends on axioms: [propext, sorryAx]")], "axioms"),
        ([message("'goal_1' depends on axioms: [Lean.ofReduceBool]")], "axioms"),
        ([message("'goal_2' does not depend on any axioms")], "axioms"),
        ([message("'goal_1' does not depend on any axioms", line=8)], "axioms"),
        ([NONE, message("'goal_1' depends on axioms: [cheat]")], "axioms"),
        ([NONE, NONE], "axioms"),
        ([message("declaration uses 'sorry'", 4, "warning"), NONE], "sorry"),
        ([message("declaration uses `sorry`", 4, "warning"), NONE], "sorry"),
        ([message("type mismatch", 5, "error"), NONE], "tactic"),
        ([message("(kernel) declaration has metavariables", 5, "error"), NONE], "kernel"),
    ],
)
def test_a_file_with_an_error_a_hole_or_other_axioms_does_not_hold(said, kind):
    wrong = text.check_verdict(FILE, 0, said)
    assert isinstance(wrong, LeanError)
    assert wrong.kind == kind


def test_a_file_whose_lean_ends_badly_does_not_hold():
    assert text.check_verdict(FILE, 137, [NONE]) == LeanError("Lean ended with 137", "crash")


def test_what_is_printed_beside_messages_is_no_message():
    printed = f"warning: something\n{json.dumps(NONE)}\n[1]\n{{}}\n"
    assert text.parse_messages(printed) == [NONE]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("proof contains `sorry`", "sorry"),
        ("<stdin>:1:3: unexpected token", "parse"),
        ("(deterministic) timeout at `whnf`, maximum number of heartbeats (200000) has been reached", "heartbeats"),
        ("maximum recursion depth has been reached", "recursion"),
        ("kernel type check failed: x", "kernel"),
        ("omega could not prove the goal", "tactic"),
    ],
)
def test_the_text_of_an_error_says_its_kind(error, kind):
    assert text.error_kind(error) == kind


def test_a_goal_has_one_key_however_it_is_named_and_its_lines_are_broken():
    key = text.printed_goal_key((), "case succ.a\nn : Nat\nh : n = 1\n⊢ n +\n    1 = 2")
    assert key == text.printed_goal_key((), "n : Nat\nh : n = 1\n⊢ n + 1 = 2")


@pytest.mark.parametrize(
    ("before", "goal"), [((), "n : Nat\n⊢ n = 2"), ((), "m : Nat\n⊢ m = 1"), (("def x := 1",), "n : Nat\n⊢ n = 1")]
)
def test_goals_that_differ_have_different_keys(before, goal):
    assert text.printed_goal_key(before, goal) != text.printed_goal_key((), "n : Nat\n⊢ n = 1")


def test_a_hypothesis_is_on_one_line_however_long_it_is():
    assert text.split_goals("h : a ∧\n    b ∧\n  c\nx : Nat\n⊢ p ∧\n    q") == ("h : a ∧ b ∧ c\nx : Nat\n⊢ p ∧ q",)


def test_goals_are_told_apart_by_empty_lines():
    assert text.split_goals("case a\n⊢ p\n\ncase b\n⊢ q") == ("case a\n⊢ p", "case b\n⊢ q")


def test_work_that_is_not_counted_is_so_many_seconds_and_takes_none_from_who_names_no_limit():
    assert [seconds_allowed(5, 2 * A_SECOND), seconds_allowed(1, 2 * A_SECOND)] == [2, 1]
    assert seconds_allowed(CHECK, HEARTBEATS) == CHECK
