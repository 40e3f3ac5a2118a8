module
public meta import Lean
public meta import Coppice.Whole
public meta import Coppice.Plain

/-! States of a proof, and running a tactic on one: within a time, and without changing it. -/

open Lean Elab Tactic

public meta section
namespace Coppice

/-- All that a tactic starts from.  It is never changed. -/
structure Snap where
  coreCtx : Core.Context
  coreState : Core.State
  metaState : Meta.State
  termState : Term.State
  goals : List MVarId

/-- What is being proved: `type` is closed, `root` the goal made of it. -/
structure Thm where
  name : Name
  levels : List Name
  type : Expr
  root : MVarId

structure PState where
  snap : Snap
  thm : Thm

structure Watch where
  deadline : Nat := 0
  token? : Option IO.CancelToken := none

/-- One thread of its own a process looks at the clock. -/
partial def watching (watch : IO.Ref Watch) : IO Unit := do
  IO.sleep 20
  let { deadline, token? } ← watch.get
  match token? with
  | some token => if deadline < (← IO.monoMsNow) then token.set
  | none => pure ()
  watching watch

def watched (watch : IO.Ref Watch) (ms : Nat) : BaseIO (Option IO.CancelToken) := do
  if ms == 0 then return none
  let token ← IO.CancelToken.new
  watch.set { deadline := (← IO.monoMsNow) + ms, token? := some token }
  return some token

def isOver (token? : Option IO.CancelToken) : BaseIO Bool :=
  match token? with
  | some token => token.isSet
  | none => return false

@[inline] def run {α : Type} (s : Snap) (heartbeats : Nat) (token? : Option IO.CancelToken) (x : TacticM α) :
    BaseIO (Except Exception (α × Snap)) := do
  let initHeartbeats ← IO.getNumHeartbeats
  let coreCtx := { s.coreCtx with initHeartbeats, maxHeartbeats := heartbeats * 1000, cancelTk? := token? }
  let core ← IO.mkRef { s.coreState with messages := {}, infoState := { enabled := false }, snapshotTasks := #[] }
  let meta' ← IO.mkRef s.metaState
  let term ← IO.mkRef s.termState
  let goals ← IO.mkRef ({ goals := s.goals } : Tactic.State)
  let done ← (x { elaborator := .anonymous, recover := false } goals { errToSorry := false } term {} meta' coreCtx core).toBaseIO
  match done with
  | .error e => return .error e
  | .ok a =>
    let after := { s with
      coreState := ← core.get, metaState := ← meta'.get, termState := ← term.get, goals := (← goals.get).goals }
    return .ok (a, after)

@[inline] def fail {α : Type} (message : String) : TacticM α := throw (.error .missing (stringToMessageData message))

partial def printed (goals : List MVarId) (so_far : Array String := #[]) : MetaM (Array String) := do
  match goals with
  | [] => return so_far
  | g :: gs => printed gs (so_far.push (Format.pretty (← Meta.ppGoal g) 100000))

def added (cs : List (Option LocalDecl)) (all : Array LocalDecl) : Array LocalDecl :=
  match cs with
  | [] => all
  | some d :: rest => added rest (if d.isAuxDecl then all else all.push d)
  | none :: rest => added rest all

mutual
partial def addedNode (n : PersistentArrayNode (Option LocalDecl)) (all : Array LocalDecl) : Array LocalDecl :=
  match n with
  | .leaf cs => added cs.toList all
  | .node cs => addedNodes cs.toList all
partial def addedNodes (ns : List (PersistentArrayNode (Option LocalDecl))) (all : Array LocalDecl) : Array LocalDecl :=
  match ns with
  | [] => all
  | n :: rest => addedNodes rest (addedNode n all)
end

/-- The variables and hypotheses of a goal, in their order; not the theorem itself. -/
def localsOf (lctx : LocalContext) : List LocalDecl :=
  (added lctx.decls.tail.toList (addedNode lctx.decls.root #[])).toList

def isError (m : Message) : Bool := match m.severity with | .error => true | _ => false

/-- The texts of those messages that are errors, or of those that are none. -/
def said (errors : Bool) (log : MessageLog) : BaseIO String := do
  let mut all := ""
  for m in log.toList do
    if isError m == errors then
      let text ← m.data.toString
      all := if all.isEmpty then text else all ++ "\n" ++ text
  return all

def textOfException (e : Exception) : BaseIO String :=
  match e with
  | .error _ m => m.toString
  | .internal id _ => return "internal exception " ++ toString id.idx

/-- The kind of an error that Lean tells only by its text. -/
def kindOf (text : String) : String :=
  if holdsPart text "maximum number of heartbeats" then "heartbeats"
  else if holdsPart text "maximum recursion depth" || holdsPart text "deep recursion" then "recursion"
  else "tactic"

def kindOfException (e : Exception) (text : String) : String :=
  if e.isMaxHeartbeat then "heartbeats" else if e.isMaxRecDepth then "recursion" else kindOf text

def input (text : String) : Parser.InputContext :=
  { inputString := text, fileName := "<repl>", fileMap := FileMap.ofString text, endPos := text.rawEndPos,
    endPos_valid := by simp }

/-- The text as that syntax, from its first character to its last. -/
def parsed (env : Environment) (options : Options) (syntax? : Parser.ParserFn) (text : String) : Ruled Syntax :=
  let ictx := input text
  let parser := Parser.andthenFn Parser.whitespace syntax?
  let s := parser.run ictx { env, options } (Parser.getTokenTable env) (Parser.mkParserState text)
  match s.errorMsg with
  | some _ => trouble "parse" (s.toErrorMsg ictx)
  | none =>
    if s.pos.atEnd text && s.recoveredErrors.size == 0 then .ok s.stxStack.back
    else trouble "parse" s!"nothing more was expected after character {s.pos.byteIdx}"

def parsedTactics (env : Environment) (options : Options) (text : String) : Ruled Syntax :=
  parsed env options Parser.Tactic.tacticSeq.fn text

def parsedTerm (env : Environment) (options : Options) (text : String) : Ruled Syntax :=
  parsed env options (Parser.categoryParserFn `term) text

end Coppice
end
#whole
