module
public meta import Lean
open Lean Meta Elab Command Tactic

public meta section
namespace WRepl

/- NB: this wasm build ships only the `exported` .olean parts, so code whose inlining/specialisation
   needs private or `_redArg` library helpers does not compile (List.map, ++, Array.mapM, withLCtx, while ...).
   Hence the hand-written monomorphic loops. -/

structure Snap where
  coreCtx : Core.Context
  coreSt  : Core.State
  metaSt  : Meta.State
  termSt  : Term.State
  goals   : List MVarId

structure PState where
  snap : Snap
  thm  : Nat

structure Thm where
  root : MVarId
  name : Name

structure Watch where
  deadline : Nat
  tk? : Option IO.CancelToken

/-- one dedicated thread per process: soft wall-clock timeout through the cancel token -/
partial def watchdog (r : IO.Ref Watch) : IO Unit := do
  IO.sleep 20
  let w ← r.get
  match w.tk? with
  | some tk => do
    let now ← IO.monoMsNow
    if now > w.deadline then tk.set
  | none => pure ()
  watchdog r

structure Session where
  watch  : IO.Ref Watch
  cmds   : Array Command.State := #[]
  states : Array PState := #[]
  thms   : Array Thm := #[]

structure Found where
  ci : ContextInfo
  ti : TacticInfo

mutual
partial def findTac (ci? : Option ContextInfo) (t : InfoTree) : Option Found :=
  match t with
  | .context pci t => findTac (pci.mergeIntoOuter? ci?) t
  | .node (.ofTacticInfo ti) cs =>
    match ci?, ti.goalsBefore with
    | some ci, _ :: _ => if ti.stx.isOfKind ``Lean.Parser.Tactic.tacticSorry then some { ci, ti } else findTacArr ci? cs
    | _, _ => findTacArr ci? cs
  | .node _ cs => findTacArr ci? cs
  | .hole _ => none
partial def findTacArr (ci? : Option ContextInfo) (cs : PersistentArray InfoTree) : Option Found :=
  match findTacNode ci? cs.root with
  | some f => some f
  | none => findTacA ci? cs.tail 0
partial def findTacNode (ci? : Option ContextInfo) (n : PersistentArrayNode InfoTree) : Option Found :=
  match n with
  | .node cs => findTacNs ci? cs 0
  | .leaf cs => findTacA ci? cs 0
partial def findTacNs (ci? : Option ContextInfo) (cs : Array (PersistentArrayNode InfoTree)) (i : Nat) : Option Found :=
  if h : i < cs.size then
    match findTacNode ci? cs[i] with
    | some f => some f
    | none => findTacNs ci? cs (i+1)
  else none
partial def findTacA (ci? : Option ContextInfo) (cs : Array InfoTree) (i : Nat) : Option Found :=
  if h : i < cs.size then
    match findTac ci? cs[i] with
    | some f => some f
    | none => findTacA ci? cs (i+1)
  else none
end

abbrev ResT := Except Exception

def runTac {α : Type} (s : Snap) (maxHb : Nat) (tk? : Option IO.CancelToken) (x : TacticM α) : BaseIO (Except Exception (α × Snap)) := do
  let now ← IO.getNumHeartbeats
  let cctx := { s.coreCtx with initHeartbeats := now, maxHeartbeats := maxHb * 1000, cancelTk? := tk? }
  let cref ← IO.mkRef { s.coreSt with messages := {}, infoState := { enabled := false }, snapshotTasks := #[] }
  let mref ← IO.mkRef s.metaSt
  let tref ← IO.mkRef s.termSt
  let gref ← IO.mkRef ({ goals := s.goals } : Tactic.State)
  let r ← (x { elaborator := .anonymous } gref { errToSorry := false } tref {} mref cctx cref).toBaseIO
  match r with
  | .error e => return .error e
  | .ok a => 
    let snap : Snap := { s with coreSt := ← cref.get, metaSt := ← mref.get, termSt := ← tref.get, goals := (← gref.get).goals }
    return .ok (a, snap)

partial def ppGoalsL (gs : List MVarId) (acc : Array String) : MetaM (Array String) := do
  match gs with
  | [] => return acc
  | g :: gs =>
    let f ← Meta.ppGoal g
    ppGoalsL gs (acc.push (Format.pretty f 100000))

partial def msgsWith (errs : Bool) (ms : List Message) (acc : String) : BaseIO String := do
  match ms with
  | [] => return acc
  | m :: ms =>
    let isErr := match m.severity with | .error => true | _ => false
    if isErr == errs then
      let s ← m.data.toString
      msgsWith errs ms (if acc.isEmpty then s else acc ++ "\n" ++ s)
    else msgsWith errs ms acc

def msgList (log : MessageLog) : List Message := log.toList

partial def pushNames (ns : Array Name) (i : Nat) (todo : List Name) : List Name :=
  if h : i < ns.size then pushNames ns (i+1) (ns[i] :: todo) else todo

def knownAx (n : Name) : Bool :=
  n == ``sorryAx || n == ``Lean.ofReduceBool || n == ``Lean.ofReduceNat || n == ``Lean.trustCompiler
    || n == ``propext || n == ``Classical.choice || n == ``Quot.sound

partial def collectAx (env : Environment) (seen : NameSet) (todo : List Name) (acc : Array String) : Array String :=
  match todo with
  | [] => acc
  | n :: rest =>
    if seen.contains n then collectAx env seen rest acc else
    let seen := seen.insert n
    if knownAx n then collectAx env seen rest (acc.push (n.toString))
    else match env.getModuleIdxFor? n with
    | some _ => collectAx env seen rest acc
    | none => match env.find? n with
      | some (.axiomInfo _) => collectAx env seen rest (acc.push (n.toString))
      | some (.thmInfo v) => collectAx env seen (pushNames v.type.getUsedConstants 0 (pushNames v.value.getUsedConstants 0 rest)) acc
      | some (.defnInfo v) => collectAx env seen (pushNames v.type.getUsedConstants 0 (pushNames v.value.getUsedConstants 0 rest)) acc
      | some (.opaqueInfo v) => collectAx env seen (pushNames v.type.getUsedConstants 0 (pushNames v.value.getUsedConstants 0 rest)) acc
      | some ci => collectAx env seen (pushNames ci.type.getUsedConstants 0 rest) acc
      | none => collectAx env seen rest (acc.push ("?" ++ n.toString))

partial def lvA (cs : Array (Option LocalDecl)) (i : Nat) (acc : Array Expr) : Array Expr :=
  if h : i < cs.size then
    match cs[i] with
    | some d => lvA cs (i+1) (if d.isAuxDecl then acc else acc.push d.toExpr)
    | none => lvA cs (i+1) acc
  else acc
mutual
partial def lvNode (n : PersistentArrayNode (Option LocalDecl)) (acc : Array Expr) : Array Expr :=
  match n with
  | .node cs => lvNs cs 0 acc
  | .leaf cs => lvA cs 0 acc
partial def lvNs (cs : Array (PersistentArrayNode (Option LocalDecl))) (i : Nat) (acc : Array Expr) : Array Expr :=
  if h : i < cs.size then lvNs cs (i+1) (lvNode cs[i] acc) else acc
end
def lctxVars (lctx : LocalContext) : Array Expr := lvA lctx.decls.tail 0 (lvNode lctx.decls.root #[])

partial def hasStr (xs : Array String) (s : String) (i : Nat) : Bool :=
  if h : i < xs.size then if xs[i] == s then true else hasStr xs s (i+1) else false

def throwStr {α : Type} (s : String) : TacticM α := throw (Exception.error .missing (stringToMessageData s))

def validate (th : Thm) : TacticM (Array String) := do
  let root := th.root
  let pf ← instantiateMVars (mkMVar root)
  if pf.hasExprMVar then throwStr "proof contains metavariables"
  let decl ← root.getDecl
  let xs := lctxVars decl.lctx
  let tgt ← instantiateMVars decl.type
  let type := decl.lctx.mkForall xs tgt (usedLetOnly := false)
  let value := decl.lctx.mkLambda xs pf (usedLetOnly := false)
  let type ← instantiateMVars type
  let value ← instantiateMVars value
  if value.hasFVar then throwStr "proof refers to itself or to a local that is not a binder"
  if value.hasSorry || type.hasSorry then throwStr "proof contains `sorry`"
  if value.hasMVar || type.hasMVar then throwStr "proof contains metavariables"
  let st := collectLevelParams (collectLevelParams {} type) value
  let n := Name.str th.name "_wrepl_check"
  let d := Declaration.thmDecl { name := n, levelParams := st.params.toList, type, value }
  let env ← getEnv
  match env.addDeclCore 0 d none with
  | .ok env' =>
    let ax := collectAx env' {} [n] #[]
    if hasStr ax "sorryAx" 0 then throwStr "proof contains `sorry`"
    return ax
  | .error e => do
    let s ← (e.toMessageData (← getOptions)).toString
    throwStr ("kernel: " ++ s)

def err (kind msg : String) : Json := Json.mkObj [("error", .str msg), ("kind", .str kind)]

def natJ (n : Nat) : Json := .num (JsonNumber.fromNat n)

partial def strArr (xs : Array String) (i : Nat) (acc : Array Json) : Array Json :=
  if h : i < xs.size then strArr xs (i+1) (acc.push (.str xs[i])) else acc

def exMsg (e : Exception) : BaseIO String := do
  match e with
  | .error _ m => m.toString
  | .internal id _ => return "internal exception " ++ toString id.idx

def getNat (j : Json) (k : String) (d : Nat) : Nat :=
  match j.getObjVal? k with
  | .ok v => match v.getNat? with | .ok n => n | .error _ => d
  | .error _ => d

def getStr (j : Json) (k : String) (d : String) : String :=
  match j.getObjVal? k with
  | .ok v => match v.getStr? with | .ok n => n | .error _ => d
  | .error _ => d

def elabText (cs : Command.State) (text : String) : IO Command.State := do
  let ictx := mkICtx text
  let cs := { cs with messages := {}, infoState := { enabled := true }, snapshotTasks := #[] }
  let s ← IO.processCommands ictx {} cs
  return s.commandState
where mkICtx (text : String) : Parser.InputContext :=
  { inputString := text, fileName := "<repl>", fileMap := FileMap.ofString text, endPos := text.rawEndPos, endPos_valid := by simp }

def sevStr (m : Message) : String := match m.severity with | .error => "error" | .warning => "warning" | .information => "information"

partial def msgJson (ms : List Message) (acc : Array Json) : BaseIO (Array Json) := do
  match ms with
  | [] => return acc
  | m :: ms =>
    let s ← m.data.toString
    msgJson ms (acc.push (Json.mkObj [("severity", .str (sevStr m)), ("line", natJ m.pos.line), ("col", natJ m.pos.column), ("data", .str s)]))

def doCmd (s : Session) (j : Json) : IO (Session × Json) := do
  let envIdx := getNat j "env" 0
  if h : envIdx < s.cmds.size then
    let cs' ← elabText s.cmds[envIdx] (getStr j "text" "")
    let msgs ← msgJson (msgList cs'.messages) #[]
    return ({ s with cmds := s.cmds.push { cs' with messages := {} } },
      Json.mkObj [("env", natJ s.cmds.size), ("messages", .arr msgs)])
  else return (s, err "protocol" "unknown env")

def firstFound (ts : PersistentArray InfoTree) : Option Found := findTacArr none ts

def doStart (s : Session) (j : Json) : IO (Session × Json) := do
  let envIdx := getNat j "env" 0
  if h : envIdx < s.cmds.size then
    let cs' ← elabText s.cmds[envIdx] (getStr j "decl" "" ++ " := by sorry")
    let errs ← msgsWith true (msgList cs'.messages) ""
    unless errs.isEmpty do return (s, err "elab" errs)
    match firstFound cs'.infoState.trees with
    | none => return (s, err "elab" "no proof goal found (is it a theorem?)")
    | some f =>
      match f.ti.goalsBefore with
      | [] => return (s, err "elab" "no goal")
      | g :: _ =>
        let scopeOpts := f.ci.options
        let cctx : Core.Context := { fileName := "<repl>", fileMap := f.ci.fileMap, options := scopeOpts, currNamespace := f.ci.currNamespace, openDecls := f.ci.openDecls, maxRecDepth := 1000, initHeartbeats := 0, maxHeartbeats := 0 }
        let cst : Core.State := { env := f.ci.env, ngen := f.ci.ngen, traceState := {}, cache := {}, messages := {}, infoState := {}, snapshotTasks := #[] }
        let snap : Snap := { coreCtx := cctx, coreSt := cst, metaSt := { mctx := f.ti.mctxBefore }, termSt := {}, goals := [g] }
        let r ← runTac snap 0 none (ppGoalsL [g] #[])
        match r with
        | .error e => return (s, err "elab" (← exMsg e))
        | .ok (goals, snap) =>
          let nm := match f.ci.parentDecl? with | some n => n | none => `thm
          return ({ s with states := s.states.push { snap, thm := s.thms.size }, thms := s.thms.push { root := g, name := nm } },
            Json.mkObj [("sid", natJ s.states.size), ("goals", .arr (strArr goals 0 #[]))])
  else return (s, err "protocol" "unknown env")

structure TacRes where
  goals : Array String
  info : String
  ax? : Option (Array String)

def tacBody (th : Thm) (stx : Syntax) : TacticM TacRes := do
  evalTactic stx
  Term.synthesizeSyntheticMVarsNoPostponing
  pruneSolvedGoals
  let cs ← getThe Core.State
  let log := msgList cs.messages
  let errs ← msgsWith true log ""
  unless errs.isEmpty do throwStr errs
  let gs := (← getThe Tactic.State).goals
  let goals ← ppGoalsL gs #[]
  let info ← msgsWith false log ""
  if goals.size == 0 then
    let ax ← validate th
    return { goals, info, ax? := some ax }
  return { goals, info, ax? := none }

def startTimer (r : IO.Ref Watch) (ms : Nat) : BaseIO IO.CancelToken := do
  let tk ← IO.CancelToken.new
  let now ← IO.monoMsNow
  r.set { deadline := now + ms, tk? := some tk }
  return tk

def doTac (s : Session) (j : Json) : IO (Session × Json) := do
  let sid := getNat j "sid" 0
  let hb := getNat j "heartbeats" 200000
  let tmo := getNat j "timeout_ms" 0
  if h : sid < s.states.size then
    let ps := s.states[sid]
    if h : ps.thm < s.thms.size then
      let th := s.thms[ps.thm]
      match Parser.runParserCategory ps.snap.coreSt.env `tactic (getStr j "tactic" "") "<tactic>" with
      | .error e => return (s, err "parse" e)
      | .ok stx =>
        let tk? ← if tmo == 0 then pure none else do let tk ← startTimer s.watch tmo; pure (some tk)
        let r ← runTac ps.snap hb tk? (tacBody th stx)
        s.watch.set { deadline := 0, tk? := none }
        match r with
        | .error e =>
          let m ← exMsg e
          let timedOut ← match tk? with | some tk => tk.isSet | none => pure false
          let kind := if timedOut then "timeout" else if e.isMaxHeartbeat then "heartbeats" else if e.isMaxRecDepth then "recursion"
                  else if m == "proof contains `sorry`" then "sorry" else "tactic"
          return (s, err kind m)
        | .ok (res, snap') =>
          let fs := [("sid", natJ s.states.size), ("goals", Json.arr (strArr res.goals 0 #[])), ("info", .str res.info)]
          let fs := match res.ax? with
            | some ax => ("done", Json.bool true) :: ("axioms", .arr (strArr ax 0 #[])) :: fs
            | none => fs
          return ({ s with states := s.states.push { ps with snap := snap' } }, Json.mkObj fs)
    else return (s, err "protocol" "unknown theorem")
  else return (s, err "protocol" "unknown state")

def step (s : Session) (j : Json) : IO (Session × Json) := do
  let c := getStr j "cmd" ""
  if c == "cmd" then doCmd s j
  else if c == "start" then doStart s j
  else if c == "tac" then doTac s j
  else if c == "drop" then return ({ s with states := #[], thms := #[] }, Json.mkObj [("dropped", natJ s.states.size)])
  else if c == "ping" then return (s, Json.mkObj [("pong", .bool true), ("version", .str Lean.versionString)])
  else return (s, err "protocol" ("unknown command " ++ c))

def reply (h : IO.FS.Stream) (word : String) (j : Json) : IO Unit := do
  h.putStr ("\n" ++ word ++ " " ++ j.compress ++ "\n"); h.flush

partial def loop (stdin stdout : IO.FS.Stream) (s : Session) : IO Unit := do
  let l ← stdin.getLine
  if l.isEmpty then return ()
  match Json.parse l with
  | .error e => reply stdout "?" (err "protocol" e); loop stdin stdout s
  | .ok j =>
    if getStr j "cmd" "" == "exit" then return ()
    match ← (step s j).toBaseIO with
    | .ok (s, r) => reply stdout (getStr j "word" "") r; loop stdin stdout s
    | .error e => reply stdout (getStr j "word" "") (err "internal" e.toString); loop stdin stdout s

end WRepl

elab "#wrepl" : command => do
  let cs ← get
  match cs.scopes with
  | [] => return ()
  | sc :: _ =>
    let opts := sc.opts.setBool `Elab.async false
    let cs := { cs with messages := {}, scopes := [{ sc with opts, isPublic := false, isMeta := false }], infoState := { enabled := true }, snapshotTasks := #[] }
    let out := IO.FS.Stream.ofHandle (← IO.FS.Handle.mk "/dev/stdout" .write)
    let inp := IO.FS.Stream.ofHandle (← IO.FS.Handle.mk "/dev/stdin" .read)
    WRepl.reply out "ready" (Json.mkObj [("ready", .bool true), ("version", .str Lean.versionString)])
    let watch ← IO.mkRef ({ deadline := 0, tk? := none } : WRepl.Watch)
    let _ ← IO.asTask (prio := .dedicated) (WRepl.watchdog watch)
    WRepl.loop inp out { watch, cmds := #[cs] }
    IO.Process.exit 0
end
#wrepl
