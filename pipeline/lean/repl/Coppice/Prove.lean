module
public meta import Lean
public meta import Coppice.Whole
public meta import Coppice.Plain
public meta import Coppice.Refuse
public meta import Coppice.Running
public meta import Coppice.Trust

/-! A theorem: its first goal, a tactic on a goal, the whole proof. -/

open Lean Elab Tactic

public meta section
namespace Coppice

/-- What all requests share. -/
structure Shop where
  rules : Rules
  watch : IO.Ref Watch
  known : IO.Ref Sound
  /-- Nothing was done in it. -/
  base : Kernel.Environment

/-- Of `@[app_unexpander f]`, by which `f` is printed as its notation, if that is not `local` already. -/
def isForPrivate (attr : Syntax) : Bool :=
  attr[1][0].getId.eraseMacroScopes == `app_unexpander && isPrivateName attr[1][1][0].getId
    && !attr[0][0][0].isOfKind ``Parser.Term.local

/-- The Lean from npm takes all that it reads for a module, in which what is declared is private, and may be printed by a
notation within the module alone.  Only that is made `local`: a notation is read as far as it was written for. -/
@[macro Lean.Elab.Command.aux_def] def printedHere : Macro := fun stx _ s =>
  let all := stx[1][0]
  let attr := all[1][0]
  if isForPrivate attr then
    let here := mkNode ``Parser.Term.attrKind #[mkNullNode #[mkNode ``Parser.Term.local #[mkAtom "local"]]]
    .ok (stx.setArg 1 (stx[1].setArg 0 (all.setArg 1 (all[1].setArg 0 (attr.setArg 0 here))))) s
  else .error .unsupportedSyntax s

def elaborated (cs : Command.State) (stx : Syntax) (text : String) (token? : Option IO.CancelToken) :
    BaseIO (Ruled Command.State) := do
  let state ← IO.mkRef { cs with infoState := { enabled := true }, snapshotTasks := #[] }
  let how : Command.Context := { fileName := "<repl>", fileMap := FileMap.ofString text, snap? := none, cancelTk? := token? }
  match ← ((Command.elabCommandTopLevel stx) how state).toBaseIO with
  | .ok _ => return .ok (← state.get)
  | .error e =>
    let text ← textOfException e
    return trouble (kindOfException e text) text

/-- Each command is looked at before it is elaborated, for it may change what the next one means. -/
partial def commands (rules? : Option Rules) (ictx : Parser.InputContext) (ps : Parser.ModuleParserState)
    (cs : Command.State) : BaseIO (Ruled Command.State) := do
  match cs.scopes with
  | [] => return trouble "internal" "no scope"
  | scope :: _ =>
    let how := { env := cs.env, options := scope.opts, currNamespace := scope.currNamespace, openDecls := scope.openDecls }
    let (stx, ps, messages) := Parser.parseCommand ictx how ps cs.messages
    let cs := { cs with messages }
    if messages.hasErrors || stx.isOfKind ``Parser.Command.eoi then return .ok cs
    -- `import`, `#exit`: Lean would stop here and say nothing of what follows
    if Parser.isTerminalCommand stx then return trouble "refused" "`import` and `#exit` are refused: what follows would go unread"
    match rules?.bind (fun rules => command? rules stx) with
    | some why => return trouble "refused" why
    | none => match ← elaborated cs stx ictx.inputString none with
      | .error t => return .error t
      | .ok cs => commands rules? ictx ps cs

def optionsOf (cs : Command.State) : Options := match cs.scopes with | scope :: _ => scope.opts | [] => {}

def namespaceOf (cs : Command.State) : Name :=
  match cs.scopes with | scope :: _ => scope.currNamespace | [] => .anonymous

/-- One that nothing has there. -/
partial def unused (cs : Command.State) (n : Name) : Name :=
  let full := namespaceOf cs ++ n
  if cs.env.contains full || cs.env.contains (mkPrivateName cs.env full) then unused cs (n.appendAfter "'") else n

def nameFor (cs : Command.State) (text : String) : Name :=
  let n := text.toName
  unused cs (if n.isAnonymous then Name.mkSimple text else n)

def declared (name : Name) (type : Term) (body : TSyntax ``Parser.Tactic.tacticSeq) : Unhygienic Syntax := do
  return (← `(command| theorem $(mkIdent name) : $type := by $body)).raw

structure Found where
  ci : ContextInfo
  ti : TacticInfo

mutual
/-- The `sorry` that is the whole of the proof, as it was read: one in the statement stands behind a `by` at least, and one
that a notation expands to was never read there. -/
partial def sorryIn (ci? : Option ContextInfo) (t : InfoTree) : Option Found :=
  match t with
  | .context inner t => sorryIn (inner.mergeIntoOuter? ci?) t
  | .node info cs => match own ci? info with | some f => some f | none => sorryAmong ci? cs
  | .hole _ => none
partial def own (ci? : Option ContextInfo) (info : Info) : Option Found :=
  match info, ci? with
  | .ofTacticInfo ti, some ci => match ti.goalsBefore with
    | _ :: _ => if ti.stx.isOfKind ``Parser.Tactic.tacticSorry && ti.stx.getPos? true == some 0 then some { ci, ti } else none
    | [] => none
  | _, _ => none
partial def sorryAmong (ci? : Option ContextInfo) (cs : PersistentArray InfoTree) : Option Found :=
  match sorryInNode ci? cs.root with
  | some f => some f
  | none => sorryInList ci? cs.tail.toList
partial def sorryInNode (ci? : Option ContextInfo) (n : PersistentArrayNode InfoTree) : Option Found :=
  match n with
  | .node cs => sorryInNodes ci? cs.toList
  | .leaf cs => sorryInList ci? cs.toList
partial def sorryInNodes (ci? : Option ContextInfo) (ns : List (PersistentArrayNode InfoTree)) : Option Found :=
  match ns with
  | [] => none
  | n :: rest => match sorryInNode ci? n with | some f => some f | none => sorryInNodes ci? rest
partial def sorryInList (ci? : Option ContextInfo) (cs : List InfoTree) : Option Found :=
  match cs with
  | [] => none
  | t :: rest => match sorryIn ci? t with | some f => some f | none => sorryInList ci? rest
end

def variables (lctx : LocalContext) : Array Expr := Id.run do
  let mut all := #[]
  for d in localsOf lctx do all := all.push d.toExpr
  return all

def snapOf (cs : Command.State) (f : Found) (goal : MVarId) : Snap where
  coreCtx := {
    fileName := "<repl>", fileMap := f.ci.fileMap, options := f.ci.options, currNamespace := f.ci.currNamespace,
    openDecls := f.ci.openDecls, maxRecDepth := cs.maxRecDepth, initHeartbeats := 0, maxHeartbeats := 0 }
  coreState := {
    env := f.ci.env, ngen := f.ci.ngen, traceState := {}, cache := {}, messages := {}, infoState := {},
    snapshotTasks := #[] }
  metaState := { mctx := f.ti.mctxBefore }
  termState := {}
  goals := [goal]

def closed (name : Name) (root : MVarId) : TacticM Thm := do
  let decl ← root.getDecl
  let target ← instantiateMVars decl.type
  let type ← instantiateMVars (decl.lctx.mkForall (variables decl.lctx) target (usedLetOnly := false))
  return { name, root, type, levels := (collectLevelParams {} type).params.toList }

/-- A statement is no better than what it is made of. -/
def stated (shop : Shop) (env : Environment) (thm : Thm) : BaseIO (Ruled Unit) := do
  if thm.type.hasSorry then return trouble "sorry" "there is a `sorry` in the statement"
  if thm.type.hasMVar then return trouble "elab" "there are metavariables in the statement"
  match locals env (entering (usedBy thm.type []) []) {} with
  | .error t => return .error t
  | .ok found => match through env (entering found.imported []) {} (← shop.known.get) with
    | .error t => return .error t
    | .ok sound => shop.known.set sound; return .ok ()

def opening (name : Name) (root : MVarId) : TacticM (Thm × Array String) := do
  return (← closed name root, ← printed [root])

structure Begun where
  state : PState
  goals : List String
  type : Syntax

def opened (shop : Shop) (name : Name) (type : Syntax) (after : Command.State) : BaseIO (Ruled Begun) := do
  let errors ← said true after.messages
  unless errors.isEmpty do return trouble "elab" errors
  match sorryAmong none after.infoState.trees with
  | none => return trouble "elab" "it is not a proposition"
  | some f => match f.ti.goalsBefore with
    | [] => return trouble "elab" "it has no goal"
    | root :: _ => match ← run (snapOf after f root) 0 none (opening name root) with
      | .error e => return trouble "elab" (← textOfException e)
      | .ok ((thm, goals), snap) => match ← stated shop f.ci.env thm with
        | .error t => return .error t
        | .ok _ => return .ok { state := { snap, thm }, goals := goals.toList, type }

/-- The statement is read alone, so that nothing can follow it, and put into the theorem as a tree. -/
def begin (shop : Shop) (cs : Command.State) (statement name : String) : BaseIO (Ruled Begun) := do
  match parsedTerm cs.env (optionsOf cs) statement, parsedTactics cs.env {} "sorry" with
  | .ok type, .ok body => match refused? shop.rules type with
    | some why => return trouble "refused" why
    | none =>
      let name := nameFor cs name
      let decl := Unhygienic.run (declared name ⟨type⟩ ⟨body⟩)
      match ← elaborated { cs with messages := {} } decl statement none with
      | .error t => return .error (if t.kind == "tactic" then { t with kind := "elab" } else t)
      | .ok after => opened shop name type after
  | .error t, _ => return trouble "elab" t.message
  | _, .error t => return .error t

/-- What a tactic left; its axioms when nothing is. -/
structure Step where
  goals : List String
  info : String
  axioms? : Option (List String) := none

/-- The proof as a term, closed as its statement is. -/
def proofOf (thm : Thm) : TacticM Expr := do
  let proof ← instantiateMVars (mkMVar thm.root)
  let decl ← thm.root.getDecl
  instantiateMVars (decl.lctx.mkLambda (variables decl.lctx) proof (usedLetOnly := false))

def tactics (thm : Thm) (stx : Syntax) : TacticM (Step × Option Expr) := do
  evalTactic stx
  Term.synthesizeSyntheticMVarsNoPostponing
  pruneSolvedGoals
  let log := (← getThe Core.State).messages
  let errors ← said true log
  unless errors.isEmpty do fail errors
  let goals := (← getThe Tactic.State).goals
  let step := { goals := (← printed goals).toList, info := ← said false log }
  if goals matches [] then return (step, some (← proofOf thm)) else return (step, none)

/-- Whatever went wrong when the time was over went wrong for that. -/
def timed (token? : Option IO.CancelToken) (t : Trouble) : BaseIO Trouble := do
  if ← isOver token? then return { kind := "timeout", message := "not done in time" }
  return t

def troubleOf (e : Exception) : BaseIO Trouble := do
  let message ← textOfException e
  return { kind := kindOfException e message, message }

def readTactics (shop : Shop) (env : Environment) (options : Options) (text : String) : Ruled Syntax :=
  match parsedTactics env options text with
  | .error t => .error t
  | .ok stx => match refused? shop.rules stx with
    | some why => trouble "refused" why
    | none => .ok stx

def advanced (shop : Shop) (state : PState) (text : String) (heartbeats : Nat) (token? : Option IO.CancelToken) :
    BaseIO (Ruled (Step × PState)) := do
  match readTactics shop state.snap.coreState.env state.snap.coreCtx.options text with
  | .error t => return .error t
  | .ok stx => match ← run state.snap heartbeats token? (tactics state.thm stx) with
    | .error e => return .error (← timed token? (← troubleOf e))
    | .ok ((step, none), snap) => return .ok (step, { state with snap })
    | .ok ((step, some value), snap) =>
      let { levels, type, .. } := state.thm
      let d := { name := `_proof, levelParams := levels, type, value }
      match ← accepted shop.known shop.base snap.coreState.env d token? with
      | .error t => return .error (← timed token? t)
      | .ok axioms => return .ok ({ step with axioms? := some axioms }, { state with snap })

/-- Theorems are private here, whose names are longer. -/
def theorem? (env : Environment) (n : Name) : Option TheoremVal :=
  match env.find? n, env.find? (mkPrivateName env n) with
  | some (.thmInfo v), _ => some v
  | _, some (.thmInfo v) => some v
  | _, _ => none

def judged (shop : Shop) (full : Name) (thm : Thm) (after : Command.State) (token? : Option IO.CancelToken) :
    BaseIO (Ruled (List String)) := do
  let errors ← said true after.messages
  unless errors.isEmpty do return .error { kind := kindOf errors, message := errors }
  match theorem? after.env full with
  | some v =>
    let { levels, type, .. } := thm
    accepted shop.known shop.base after.env { name := `_proof, levelParams := levels, type, value := v.value } token?
  | none => return trouble "kernel" "it made no theorem of that name"

/-- The whole proof as a file has it: a theorem of its own. -/
def checked (shop : Shop) (cs : Command.State) (statement name script : String) (token? : Option IO.CancelToken) :
    BaseIO (Ruled (List String)) := do
  match ← begin shop cs statement name, readTactics shop cs.env (optionsOf cs) script with
  | .error t, _ => return .error t
  | _, .error t => return .error t
  | .ok begun, .ok body =>
    let { thm, .. } := begun.state
    let decl := Unhygienic.run (declared thm.name ⟨begun.type⟩ ⟨body⟩)
    match ← elaborated { cs with messages := {} } decl script token? with
    | .error t => return .error (← timed token? t)
    | .ok after => match ← judged shop (namespaceOf cs ++ thm.name) thm after token? with
      | .error t => return .error (← timed token? t)
      | .ok axioms => return .ok axioms

end Coppice
end
#whole
