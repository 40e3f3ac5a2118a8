module
public meta import Lean
public meta import Coppice.Whole
public meta import Coppice.Running

/-! The states that were given out, by their numbers. -/

open Lean

public meta section
namespace Coppice

/-- Any may be dropped; no number is given twice.  In chunks, so that what was dropped takes no room. -/
structure Slots where
  chunks : Array (Array (Option PState)) := #[]
  next : Nat := 0

namespace Slots

def CHUNK : Nat := 512

def get? (s : Slots) (n : Nat) : Option PState :=
  match s.chunks[n / CHUNK]? with
  | some c => match c[n % CHUNK]? with | some x => x | none => none
  | none => none

def push (s : Slots) (x : PState) : Slots :=
  let { chunks, next } := s
  if next % CHUNK == 0 then { chunks := chunks.push #[some x], next := next + 1 }
  else { chunks := chunks.modify (next / CHUNK) (fun c => c.push (some x)), next := next + 1 }

def isBare (c : List (Option PState)) : Bool :=
  match c with
  | [] => true
  | none :: xs => isBare xs
  | some _ :: _ => false

def tidied (c : Array (Option PState)) : Array (Option PState) :=
  if c.size == CHUNK && isBare c.toList then #[] else c

def drop (s : Slots) (n : Nat) : Slots :=
  let { chunks, next } := s
  let chunks := chunks.modify (n / CHUNK) (fun c => tidied (c.setIfInBounds (n % CHUNK) none))
  { chunks, next }

def bared (c : List (Option PState)) (all : Array (Option PState)) : Array (Option PState) :=
  match c with
  | [] => all
  | _ :: rest => bared rest (all.push none)

def emptied (chunks : List (Array (Option PState))) (all : Array (Array (Option PState))) :
    Array (Array (Option PState)) :=
  match chunks with
  | [] => all
  | c :: rest => emptied rest (all.push (tidied (bared c.toList #[])))

def forgotten (s : Slots) : Slots := { chunks := emptied s.chunks.toList #[], next := s.next }

end Slots
end Coppice
end
#whole
