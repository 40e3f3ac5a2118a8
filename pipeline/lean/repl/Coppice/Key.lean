module
public meta import Lean
public meta import Coppice.Whole
public meta import Coppice.Plain
public meta import Coppice.Running

/-! A goal's key: the same for goals that differ only in names, in the order of what they assume, and in what is implicit.

A goal is a graph.  Its nodes are the target, each hypothesis, each variable that the target binds at its front, and the
universes; where a node's type mentions another there is a hole.  The nodes get colours, refined until they tell as
much apart as they can; in the order of their colours the nodes are written down whole.  So equal keys mean equal
goals, whatever the colours are worth; these decide only whether two equal goals are seen to be. -/

open Lean Meta

public meta section
namespace Coppice

structure Node where
  text : String
  holes : Array Nat

def LARGEST : Nat := 60000 -- of a goal, in nodes of its expressions

def DEEPEST : Nat := 4000

structure Writing where
  text : String := ""
  holes : Array Nat := #[]
  /-- Universes and metavariables that were met, with their nodes. -/
  met : List (Name × Nat) := []
  /-- Those of them whose nodes are not made yet, the last first; with their types, if they have any. -/
  waiting : List (Option MVarId) := []
  /-- The number of the next of them. -/
  next : Nat
  size : Nat := 0

def Writing.put (w : Writing) (s : String) : Writing :=
  { w with text := w.text ++ s, size := w.size + 1 }

def Writing.hole (w : Writing) (node : Nat) : Writing :=
  { w with text := w.text.push '#', holes := w.holes.push node, size := w.size + 1 }

def numberIn (n : Name) (all : List (Name × Nat)) : Option Nat :=
  match all with
  | [] => none
  | (m, i) :: rest => if m == n then some i else numberIn n rest

def Writing.named (w : Writing) (n : Name) (goal? : Option MVarId := none) : Writing :=
  match numberIn n w.met with
  | some node => w.hole node
  | none => { w.hole w.next with met := (n, w.next) :: w.met, waiting := goal? :: w.waiting, next := w.next + 1 }

def sized (s : String) : String := s!"{s.length}:{s}"

partial def level (w : Writing) (l : Level) : Writing :=
  match l with
  | .zero => w.put "0"
  | .succ l => level (w.put "+") l
  | .max a b => level (level (w.put "v") a) b
  | .imax a b => level (level (w.put "i") a) b
  | .param n => w.named n
  | .mvar id => w.named id.name

def levels (w : Writing) (ls : List Level) : Writing := Id.run do
  let mut w := w
  for l in ls do w := level (w.put ",") l
  return w.put "."

/-- `e` with each of `vars` variables replaced by a bound one; `depth` binders of its own are around, and it may
be nested as deep as there is `room`. -/
partial def expr (vars depth room : Nat) (w : Writing) (e : Expr) : Writing :=
  if w.size > LARGEST then w
  else if room == 0 then { w with size := LARGEST + 1 }
  else
  let room := room - 1
  match e with
  | .bvar i => if i < depth then w.put s!"b{i};" else w.hole (vars - (i - depth))
  | .app f a => expr vars depth room (expr vars depth room (w.put "a") f) a
  | .const n us => levels (w.put ("c" ++ sized n.toString)) us
  | .lam _ t b _ => expr vars (depth + 1) room (expr vars depth room (w.put "l") t) b
  | .forallE _ t b _ => expr vars (depth + 1) room (expr vars depth room (w.put "p") t) b
  | .letE _ t v b _ =>
    if b.hasLooseBVar 0 then
      expr vars (depth + 1) room (expr vars depth room (expr vars depth room (w.put "t") t) v) b
    else expr vars depth room w (b.lowerLooseBVars 1 1)
  | .sort l => level (w.put "s") l
  | .lit (.natVal n) => w.put s!"n{n};"
  | .lit (.strVal s) => w.put ("q" ++ sized s)
  | .mdata _ e => expr vars depth room w e
  | .proj s i e => expr vars depth room (w.put s!"j{sized s.toString}{i};") e
  | .mvar id => w.named id.name (some id)
  | .fvar id => w.put ("f" ++ sized id.name.toString)

/-- What the goal assumes, each with its mark and type: those before the target, and those bound at its front. -/
structure Parts where
  vars : Array Expr := #[]
  types : Array Expr := #[]
  marks : Array String := #[]
  target : Expr

partial def front (p : Parts) : MetaM Parts := do
  match p.target with
  | .mdata _ e => front { p with target := e }
  | .letE _ _ v b _ => front { p with target := b.instantiate1 v }
  | .forallE _ t b _ =>
    let x := mkFVar (← mkFreshFVarId)
    front { vars := p.vars.push x, types := p.types.push t, marks := p.marks.push "B", target := b.instantiate1 x }
  | _ => return p

def partsOf (goal : MVarId) : MetaM Parts := do
  let decl ← goal.getDecl
  let mut p : Parts := { target := (← instantiateMVars decl.type) }
  let mut lets : Array Expr := #[]
  let mut values : Array Expr := #[]
  for d in localsOf decl.lctx do
    let type := (← instantiateMVars d.type).replaceFVars lets values
    match d with
    | .cdecl .. => p := { p with vars := p.vars.push d.toExpr, types := p.types.push type, marks := p.marks.push "L" }
    | .ldecl (value := v) .. =>
      lets := lets.push d.toExpr
      values := values.push ((← instantiateMVars v).replaceFVars lets values)
  front { p with target := p.target.replaceFVars lets values }

def reversed (all : List (Option MVarId)) : List (Option MVarId) := Id.run do
  let mut turned := []
  for x in all do turned := x :: turned
  return turned

/-- The nodes of universes and of metavariables; by the types of these there may be more. -/
partial def others (p : Parts) (w : Writing) (nodes : Array Node) : MetaM (Writing × Array Node) := do
  if w.waiting matches [] then return (w, nodes)
  let mut nodes := nodes
  let mut now := { w with waiting := [] }
  for goal? in reversed w.waiting do
    match goal? with
    | none => nodes := nodes.push { text := "U", holes := #[] }
    | some id =>
      let type := (← instantiateMVars (← id.getType)).abstract p.vars
      now := expr p.vars.size 0 DEEPEST { now with text := "", holes := #[] } type
      nodes := nodes.push { text := "M" ++ now.text, holes := now.holes }
  others p now nodes

/-- The nodes: 0 is the target, variable number `i` is `i + 1`, the others follow; none if it is too large. -/
def graph? (p : Parts) : MetaM (Option (Array Node)) := do
  let n := p.vars.size
  let mut w := expr n 0 DEEPEST { next := n + 1 } (p.target.abstract p.vars)
  let mut nodes : Array Node := #[{ text := "T" ++ w.text, holes := w.holes }]
  let mut marks := p.marks.toList
  for t in p.types.toList do
    w := expr n 0 DEEPEST { w with text := "", holes := #[] } (t.abstract p.vars)
    match marks with
    | m :: rest =>
      nodes := nodes.push { text := m ++ w.text, holes := w.holes }
      marks := rest
    | [] => pure ()
  let (last, all) ← others p w nodes
  return if last.size > LARGEST then none else some all

abbrev Colours := Array UInt64

def mentioned (holes : List Nat) (place by' : UInt64) (seen : Colours) : Colours :=
  match holes with
  | [] => seen
  | h :: hs => mentioned hs (place + 1) by' (seen.setIfInBounds h (seen[h]! + mixHash (mixHash by' place) 77))

def mentions (nodes : List Node) (i : Nat) (colours seen : Colours) : Colours :=
  match nodes with
  | [] => seen
  | n :: rest => mentions rest (i + 1) colours (mentioned n.holes.toList 1 colours[i]! seen)

def blank (nodes : List Node) (seen : Colours) : Colours :=
  match nodes with
  | [] => seen
  | _ :: rest => blank rest (seen.push 0)

def coloured (holes : List Nat) (colours : Colours) (c : UInt64) : UInt64 :=
  match holes with
  | [] => c
  | h :: hs => coloured hs colours (mixHash c colours[h]!)

/-- A colour hears of what its node mentions, and of where it is mentioned. -/
def round (nodes : List Node) (colours : Colours) : Colours := Id.run do
  let seen := mentions nodes 0 colours (blank nodes #[])
  let mut after := #[]
  let mut i := 0
  for n in nodes do
    after := after.push (mixHash (coloured n.holes.toList colours colours[i]!) seen[i]!)
    i := i + 1
  return after

def placed (c : UInt64) (i : Nat) (sorted : List (UInt64 × Nat)) : List (UInt64 × Nat) :=
  match sorted with
  | [] => [(c, i)]
  | (d, j) :: rest => if d < c then (d, j) :: placed c i rest else (c, i) :: sorted

def inOrder (colours : Colours) : List (UInt64 × Nat) := Id.run do
  let mut sorted := []
  let mut i := 0
  for c in colours.toList do
    sorted := placed c i sorted
    i := i + 1
  return sorted

def kinds (sorted : List (UInt64 × Nat)) : Nat :=
  match sorted with
  | (c, _) :: (d, j) :: rest => (if c == d then 0 else 1) + kinds ((d, j) :: rest)
  | [_] => 1
  | [] => 0

partial def refined (nodes : List Node) (colours : Colours) (before : Nat) : Colours :=
  let after := round nodes colours
  let now := kinds (inOrder after)
  if now ≤ before then colours else refined nodes after now

def first (nodes : List Node) : Colours := Id.run do
  let mut colours := #[]
  for n in nodes do colours := colours.push (hash n.text)
  return colours

def ofColour (c : UInt64) (sorted : List (UInt64 × Nat)) : List Nat :=
  match sorted with
  | [] => []
  | (d, j) :: rest => if c == d then j :: ofColour c rest else []

/-- The first nodes that share a colour. -/
def tie (sorted : List (UInt64 × Nat)) : List Nat :=
  match sorted with
  | (c, i) :: (d, j) :: rest => if c == d then i :: ofColour c ((d, j) :: rest) else tie ((d, j) :: rest)
  | _ => []

def total (colours : Colours) : UInt64 := Id.run do
  let mut sum := 0
  for c in colours.toList do sum := sum + mixHash c 5
  return sum

def apart (nodes : List Node) (colours : Colours) (i : Nat) : Colours :=
  refined nodes (round nodes (colours.setIfInBounds i (mixHash colours[i]! 99))) 0

def TRIED : Nat := 12

/-- Of those with the same colour, the one that makes the smallest sum when it is set apart; of equal ones the first:
they are taken to be mirror images. -/
def best (nodes : List Node) (colours : Colours) (tied : List Nat) (left : Nat) (chosen : Option Colours) : Colours :=
  match tied, left with
  | i :: rest, left + 1 =>
    let found := apart nodes colours i
    match chosen with
    | none => best nodes colours rest left (some found)
    | some old => best nodes colours rest left (some (if total found < total old then found else old))
  | _, _ => chosen.getD colours

partial def discrete (nodes : List Node) (colours : Colours) (steps : Nat) : Colours :=
  match tie (inOrder colours), steps with
  | [], _ => colours
  | _, 0 => colours
  | tied, steps + 1 => discrete nodes (best nodes colours tied TRIED none) steps

def written (nodes : Array Node) (order : List (UInt64 × Nat)) : String := Id.run do
  let mut places : Array Nat := nodes.toList.foldl (fun all _ => all.push 0) #[]
  let mut place := 0
  for (_, i) in order do
    places := places.setIfInBounds i place
    place := place + 1
  let mut text := s!"{places[0]!}"
  for (_, i) in order do
    match nodes[i]? with
    | some n =>
      text := text ++ "\n" ++ n.text
      for h in n.holes.toList do text := text ++ s!" {places[h]!}"
    | none => pure ()
  return text

def isOpen (nodes : List Node) : Bool :=
  match nodes with
  | [] => false
  | n :: rest => n.text.startsWith "M" || isOpen rest

/-- None if the goal is too large for it.  That of a goal with metavariables begins with `?`: it is not alone. -/
def exactKey (goal : MVarId) : MetaM (Option String) := do
  match ← graph? (← partsOf goal) with
  | none => return none
  | some nodes =>
    let all := nodes.toList
    let start := first all
    let colours := discrete all (refined all start (kinds (inOrder start))) nodes.size
    return some ((if isOpen all then "?" else "") ++ written nodes (inOrder colours))

def bareNames (names : Array Name) : List String := Id.run do
  let mut all := []
  for n in names.toList do
    let text := n.toString
    unless holdsPart text "inst" do all := text :: all
  return all

def inserted (s : String) (sorted : List String) : List String :=
  match sorted with
  | [] => [s]
  | t :: rest => if s == t then sorted else if s < t then s :: sorted else t :: inserted s rest

/-- What the target is about, and which constants occur at all. -/
def coarseKey (goal : MVarId) : MetaM String := do
  let p ← partsOf goal
  let mut names : List String := []
  for e in p.target :: p.types.toList do
    for s in bareNames e.getUsedConstants do names := inserted s names
  let mut text := match p.target.getAppFn with | .const n _ => n.toString | e => e.ctorName
  for s in names do text := text ++ " " ++ s
  return text

end Coppice
end
#whole
