module
public meta import Lean
public meta import Coppice.Whole
public meta import Coppice.Plain
public meta import Coppice.Refuse
public meta import Coppice.Running
public meta import Coppice.Trust
public meta import Coppice.Key
public meta import Coppice.Prove
public meta import Coppice.Slots

/-! Requests, a line of JSON each, and their answers: the word that came with the request, and JSON. -/

open Lean Elab Command

public meta section
namespace Coppice

structure Served where
  shop : Shop
  /-- By their numbers; of those that were forgotten nothing is kept. -/
  envs : Array (Option Command.State)
  states : Slots := {}

def Served.env? (s : Served) (j : Json) : Option Command.State :=
  match s.envs[natOf j "env" 0]? with
  | some cs? => cs?
  | none => none

abbrev Answer := Ruled (Served × Json)

def answered (s : Served) (fields : List (String × Json)) : Answer := .ok (s, Json.mkObj fields)

def severity (m : Message) : String :=
  match m.severity with | .error => "error" | .warning => "warning" | .information => "information"

def messagesOf (log : MessageLog) : BaseIO Json := do
  let mut all := #[]
  for m in log.toList do
    all := all.push (Json.mkObj [
      ("severity", .str (severity m)), ("line", ofNat m.pos.line), ("col", ofNat m.pos.column),
      ("data", .str (← m.data.toString))])
  return .arr all

/-- A command that was not elaborated: no environment, and the reason is among the messages, too. -/
def untaken (t : Trouble) : List (String × Json) :=
  let message := Json.mkObj [
    ("severity", .str "error"), ("line", ofNat 1), ("col", ofNat 0), ("data", .str t.message)]
  [("error", .str t.message), ("kind", .str t.kind), ("messages", .arr #[message])]

def onCmd (s : Served) (j : Json) : BaseIO Answer := do
  match s.env? j with
  | none => return trouble "protocol" "there is no such environment"
  | some cs => match ← commands s.shop.rules (input (textOf j "text")) {} { cs with messages := {} } with
    | .error t => return answered s (untaken t)
    | .ok cs =>
      let messages ← messagesOf cs.messages
      let number := s.envs.size
      return answered { s with envs := s.envs.push (some { cs with messages := {} }) } [("env", ofNat number), ("messages", messages)]

def onStart (s : Served) (j : Json) : BaseIO Answer := do
  match s.env? j with
  | none => return trouble "protocol" "there is no such environment"
  | some cs => match ← begin s.shop cs (textOf j "statement") (textOf j "name") with
    | .error t => return .error t
    | .ok begun =>
      let number := s.states.next
      return answered { s with states := s.states.push begun.state } [("sid", ofNat number), ("goals", ofStrings begun.goals)]

def onTac (s : Served) (j : Json) : BaseIO Answer := do
  match s.states.get? (natOf j "sid" 0) with
  | none => return trouble "protocol" "there is no such state"
  | some state =>
    let token? ← watched s.shop.watch (natOf j "timeout_ms" 0)
    let done ← advanced s.shop state (textOf j "tactic") (natOf j "heartbeats" 200000) token?
    s.shop.watch.set {}
    match done with
    | .error t => return .error t
    | .ok (step, state) =>
      let number := s.states.next
      let fields := [("sid", ofNat number), ("goals", ofStrings step.goals), ("info", .str step.info)]
      let fields := match step.axioms? with
        | some axioms => ("done", .bool true) :: ("axioms", ofStrings axioms) :: fields
        | none => fields
      return answered { s with states := s.states.push state } fields

def onCheck (s : Served) (j : Json) : BaseIO Answer := do
  match s.env? j with
  | none => return trouble "protocol" "there is no such environment"
  | some cs =>
    let token? ← watched s.shop.watch (natOf j "timeout_ms" 0)
    let done ← checked s.shop cs (textOf j "statement") (textOf j "name") (textOf j "script") token?
    s.shop.watch.set {}
    match done with
    | .error t => return .error t
    | .ok axioms => return answered s [("axioms", ofStrings axioms)]

def goalNumber (goals : List MVarId) (n : Nat) : Option MVarId :=
  match goals, n with
  | g :: _, 0 => some g
  | _ :: gs, n + 1 => goalNumber gs n
  | [], _ => none

def keysOf (goal : MVarId) : Tactic.TacticM (Option String × String) := do
  return (← exactKey goal, ← coarseKey goal)

def onKey (s : Served) (j : Json) : BaseIO Answer := do
  match s.states.get? (natOf j "sid" 0) with
  | none => return trouble "protocol" "there is no such state"
  | some state => match goalNumber state.snap.goals (natOf j "goal" 0) with
    | none => return trouble "protocol" "there is no such goal"
    | some goal => match ← run state.snap 0 none (keysOf goal) with
      | .error e => return trouble "internal" (← textOfException e)
      | .ok ((exact?, coarse), _) =>
        -- too large to be written down: like no other
        let exact := exact?.getD s!"!{natOf j "sid" 0} {natOf j "goal" 0}"
        return answered s [("exact", .str exact), ("coarse", .str coarse)]

def dropped (states : Slots) (numbers : List Nat) (count : Nat) : Slots × Nat :=
  match numbers with
  | [] => (states, count)
  | n :: rest =>
    let there := (states.get? n).isSome
    dropped (states.drop n) rest (if there then count + 1 else count)

def onDrop (s : Served) (j : Json) : BaseIO Answer := do
  let { shop, envs, states } := s
  let (states, count) := dropped states (natsOf j "sids") 0
  return answered { shop, envs, states } [("dropped", ofNat count)]

def onlyFirst (envs : List (Option Command.State)) : Array (Option Command.State) := Id.run do
  let mut all := #[]
  for cs? in envs do all := all.push (if all.size == 0 then cs? else none)
  return all

def onForget (s : Served) : Answer :=
  answered { s with envs := onlyFirst s.envs.toList, states := s.states.forgotten } [("forgotten", .bool true)]

def greeting : List (String × Json) := [("version", .str Lean.versionString)]

def step (s : Served) (j : Json) : BaseIO Answer := do
  let cmd := textOf j "cmd"
  if cmd == "tac" then onTac s j
  else if cmd == "key" then onKey s j
  else if cmd == "start" then onStart s j
  else if cmd == "check" then onCheck s j
  else if cmd == "cmd" then onCmd s j
  else if cmd == "drop" then onDrop s j
  else if cmd == "forget" then return onForget s
  else if cmd == "ping" then return answered s (("pong", .bool true) :: greeting)
  else return trouble "protocol" s!"there is no command {cmd}"

def reply (out : IO.FS.Stream) (word : String) (j : Json) : IO Unit := do
  out.putStr ("\n" ++ word ++ " " ++ j.compress ++ "\n")
  out.flush

partial def serving (inp out : IO.FS.Stream) (s : Served) : IO Unit := do
  let line ← inp.getLine
  if line.isEmpty then return ()
  match Json.parse line with
  | .error e =>
    reply out "?" (Trouble.toJson { kind := "protocol", message := e })
    serving inp out s
  | .ok j =>
    match ← step s j with
    | .ok (s, answer) =>
      reply out (textOf j "word") answer
      serving inp out s
    | .error t =>
      reply out (textOf j "word") t.toJson
      serving inp out s

def DEPTH : Nat := 1000 -- of recursion, in a tactic and in a whole proof alike

/-- Nothing is open, nothing is declared, and what could run code is taken out. -/
def prepared (cs : Command.State) : BaseIO (Ruled Command.State) := do
  let opts := (optionsOf cs).setBool `Elab.async false
  let opts := (opts.setBool `linter.all false).setBool `relaxedAutoImplicit false |>.setNat `maxRecDepth DEPTH
  let cs := { cs with messages := {}, scopes := [{ header := "", opts }], maxRecDepth := DEPTH, snapshotTasks := #[] }
  match ← commands none (input disarmed) {} cs with
  | .error t => return .error t
  | .ok cs =>
    let errors ← said true cs.messages
    if errors.isEmpty then return .ok { cs with messages := {} } else return trouble "internal" errors

def serve (cs : Command.State) : IO Unit := do
  let out := IO.FS.Stream.ofHandle (← IO.FS.Handle.mk "/dev/stdout" .write)
  let inp := IO.FS.Stream.ofHandle (← IO.FS.Handle.mk "/dev/stdin" .read)
  match ← prepared cs with
  | .error t => throw (IO.userError s!"this Lean is not one that the REPL knows: {t.message}")
  | .ok cs =>
    let watch ← IO.mkRef ({} : Watch)
    let known ← IO.mkRef ({} : Sound)
    let _ ← IO.asTask (prio := .dedicated) (watching watch)
    reply out "ready" (Json.mkObj greeting)
    let shop := { rules := rules, watch, known, base := cs.env.toKernelEnv }
    serving inp out { shop, envs := #[some cs] }

end Coppice

elab "#serve" : command => do
  Coppice.serve (← get)
  IO.Process.exit 0
end
#whole
