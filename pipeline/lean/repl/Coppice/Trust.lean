module
public meta import Lean
public meta import Coppice.Whole
public meta import Coppice.Plain

/-! Whether a proof counts: what it rests on, through all that it uses, and whether the kernel takes all of it anew. -/

open Lean

public meta section
namespace Coppice

/-- Which of the trusted axioms something rests on. -/
structure Rests where
  propext : Bool := false
  choice : Bool := false
  quot : Bool := false

def Rests.with (a b : Rests) : Rests where
  propext := a.propext || b.propext
  choice := a.choice || b.choice
  quot := a.quot || b.quot

def Rests.names (r : Rests) : List String :=
  let names := if r.quot then ["Quot.sound"] else []
  let names := if r.choice then "Classical.choice" :: names else names
  if r.propext then "propext" :: names else names

/-- Of imported constants, which never change: the ones looked through and found sound, and on what they rest. -/
structure Sound where
  seen : NameSet := {}
  propext : NameSet := {}
  choice : NameSet := {}
  quot : NameSet := {}

def Sound.of (s : Sound) (n : Name) : Rests where
  propext := s.propext.contains n
  choice := s.choice.contains n
  quot := s.quot.contains n

def Sound.add (s : Sound) (n : Name) (r : Rests) : Sound where
  seen := s.seen.insert n
  propext := if r.propext then s.propext.insert n else s.propext
  choice := if r.choice then s.choice.insert n else s.choice
  quot := if r.quot then s.quot.insert n else s.quot

def trusted? (n : Name) : Option Rests :=
  if n == ``propext then some { propext := true }
  else if n == ``Classical.choice then some { choice := true }
  else if n == ``Quot.sound then some { quot := true }
  else none

def axiom? (n : Name) : Trouble :=
  if n == ``sorryAx then { kind := "sorry", message := "the proof rests on `sorry`" }
  else { kind := "axioms", message := s!"the proof rests on the axiom {n.toString}" }

/-- The kernel runs compiled code for these. -/
def runsCode (n : Name) : Bool := n == ``Lean.reduceBool || n == ``Lean.reduceNat

def firstOf (all : List Name) (otherwise : Name) : Name := match all with | h :: _ => h | [] => otherwise

/-- An inductive type, its constructors and recursors are one thing, named by the first type of its group. -/
def headOf (env : Environment) (n : Name) : Name :=
  match env.find? n with
  | some (.inductInfo v) => firstOf v.all n
  | some (.ctorInfo v) => match env.find? v.induct with | some (.inductInfo i) => firstOf i.all n | _ => n
  | some (.recInfo v) => firstOf v.all n
  | _ => n

def into (names : Array Name) (all : List Name) : List Name := Id.run do
  let mut all := all
  for n in names.toList do all := n :: all
  return all

def usedBy (e : Expr) (all : List Name) : List Name := into e.getUsedConstants all

def ofGroup (env : Environment) (types : List Name) : List Name := Id.run do
  let mut all := []
  for t in types do
    match env.find? t with
    | some (.inductInfo v) =>
      all := usedBy v.type all
      for c in v.ctors do
        match env.find? c with
        | some c => all := usedBy c.type all
        | none => pure ()
    | _ => pure ()
  return all

/-- What a constant is made of; none if it is an axiom or is not there. -/
def parts? (env : Environment) (n : Name) : Option (List Name) :=
  match env.find? n with
  | some (.thmInfo v) => some (usedBy v.type (usedBy v.value []))
  | some (.defnInfo v) => some (usedBy v.type (usedBy v.value []))
  | some (.opaqueInfo v) => some (usedBy v.type (usedBy v.value []))
  | some (.inductInfo v) => some (ofGroup env v.all)
  | some (.quotInfo v) => some (usedBy v.type [])
  | some (.axiomInfo _) => none
  | some ci => some (usedBy ci.type [])
  | none => none

/-- Modules may keep proofs to themselves.  What the toolchain says of its own is believed: the modules up to `Lean`,
which is imported before all others. -/
def isOwn (env : Environment) (n : Name) : Bool :=
  match env.getModuleIdxFor? n, env.getModuleIdx? `Lean with
  | some idx, some last => idx.toNat ≤ last.toNat
  | _, _ => false

def isAxiom (env : Environment) (n : Name) : Bool :=
  match getOriginalConstKind? env n with
  | some .axiom | none => true
  | _ => false

inductive Todo where
  | enter (n : Name)
  | leave (n : Name) (parts : List Name)

def entering (parts : List Name) (todo : List Todo) : List Todo := Id.run do
  let mut todo := todo
  for p in parts do todo := .enter p :: todo
  return todo

def sumOf (sound : Sound) (parts : List Name) : Rests := Id.run do
  let mut all : Rests := {}
  for p in parts do all := all.with (sound.of p)
  return all

/-- Looks through imported constants and all that they use, once each. -/
partial def through (env : Environment) (todo : List Todo) (begun : NameSet) (sound : Sound) : Ruled Sound :=
  match todo with
  | [] => .ok sound
  | .leave n parts :: todo => through env todo begun (sound.add n (sumOf sound parts))
  | .enter n :: todo =>
    if sound.seen.contains n || begun.contains n then through env todo begun sound
    else if runsCode n then .error (axiom? n)
    else if headOf env n != n then
      through env (.enter (headOf env n) :: .leave n [headOf env n] :: todo) (begun.insert n) sound
    else match trusted? n, parts? env n with
      | some rests, _ => through env todo begun (sound.add n rests)
      | none, some parts => through env (entering parts (.leave n parts :: todo)) (begun.insert n) sound
      | none, none =>
        if isAxiom env n then .error (axiom? n)
        else if isOwn env n then through env todo begun (sound.add n { propext := true, choice := true, quot := true })
        else trouble "axioms" s!"the proof of {n.toString} is not in the files of its module"

def isImported (env : Environment) (n : Name) : Bool := (env.getModuleIdxFor? n).isSome

/-- Constants that were not imported, each after what it uses; and what they use of the imported ones. -/
structure Locals where
  made : Array Name := #[]
  begun : NameSet := {}
  imported : List Name := []

partial def locals (env : Environment) (todo : List Todo) (found : Locals) : Ruled Locals :=
  match todo with
  | [] => .ok found
  | .leave n _ :: todo => locals env todo { found with made := found.made.push n }
  | .enter n :: todo =>
    if isImported env n then locals env todo { found with imported := n :: found.imported }
    else
      let n := headOf env n
      if found.begun.contains n then locals env todo found
      else match parts? env n with
        | some parts => locals env (entering parts (.leave n [] :: todo)) { found with begun := found.begun.insert n }
        | none => .error (axiom? n)

partial def ctorsOf (env : Environment) (names : List Name) : List Constructor :=
  match names with
  | [] => []
  | n :: rest => match env.find? n with
    | some c => { name := n, type := c.type } :: ctorsOf env rest
    | none => ctorsOf env rest

partial def typesOf (env : Environment) (names : List Name) : List InductiveType :=
  match names with
  | [] => []
  | n :: rest => match env.find? n with
    | some (.inductInfo v) => { name := n, type := v.type, ctors := ctorsOf env v.ctors } :: typesOf env rest
    | _ => typesOf env rest

def declaration? (env : Environment) (n : Name) : Option Declaration :=
  match env.find? n with
  | some (.thmInfo v) => some (.thmDecl v)
  | some (.defnInfo v) => some (.defnDecl v)
  | some (.opaqueInfo v) => some (.opaqueDecl v)
  | some (.inductInfo v) => some (.inductDecl v.levelParams v.numParams (typesOf env v.all) v.isUnsafe)
  | _ => none

def addedTo (base : Kernel.Environment) (d : Declaration) (token? : Option IO.CancelToken) :
    BaseIO (Ruled Kernel.Environment) := do
  match base.addDecl (({} : Options).setNat `maxHeartbeats 0) d token? with
  | .ok base => return .ok base
  | .error e =>
    let text ← (e.toMessageData {}).toString
    if holdsPart text "deep recursion" then return trouble "recursion" text
    return trouble "kernel" ("the kernel does not take it: " ++ text)

/-- The kernel takes them all anew, whatever the environment that they come from was told of them. -/
partial def again (env : Environment) (base : Kernel.Environment) (names : List Name) (token? : Option IO.CancelToken) :
    BaseIO (Ruled Kernel.Environment) := do
  match names with
  | [] => return .ok base
  | n :: rest => match declaration? env n with
    | none => return trouble "kernel" s!"{n.toString} cannot be checked"
    | some d => match ← addedTo base d token? with
      | .ok base => again env base rest token?
      | .error t => return .error t

/-- The axioms of a proof that counts.  `base` is the environment in which nothing was done. -/
def accepted (known : IO.Ref Sound) (base : Kernel.Environment) (env : Environment) (d : TheoremVal)
    (token? : Option IO.CancelToken) : BaseIO (Ruled (List String)) := do
  if d.value.hasSorry || d.type.hasSorry then return trouble "sorry" "the proof contains `sorry`"
  if d.value.hasMVar || d.type.hasMVar then return trouble "tactic" "the proof contains metavariables"
  if d.value.hasFVar || d.type.hasFVar then
    return trouble "tactic" "the proof refers to itself, or to a `let rec`, which only a whole script may have"
  match locals env (entering (usedBy d.type (usedBy d.value [])) []) {} with
  | .error t => return .error t
  | .ok found => match through env (entering found.imported []) {} (← known.get) with
    | .error t => return .error t
    | .ok sound =>
      known.set sound
      match ← again env base found.made.toList token? with
      | .error t => return .error t
      | .ok base => match ← addedTo base (.thmDecl d) token? with
        | .error t => return .error t
        | .ok _ => return .ok (sumOf sound found.imported).names

end Coppice
end
#whole
