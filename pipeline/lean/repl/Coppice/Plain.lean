module
public meta import Lean
public meta import Coppice.Whole

/-! What requests and answers are made of. -/

open Lean

public meta section
namespace Coppice

/-- Why a request has no other answer; its kinds are those of `model.py`, and of the protocol. -/
structure Trouble where
  kind : String
  message : String

abbrev Ruled (α : Type) := Except Trouble α

@[inline] def trouble {α : Type} (kind message : String) : Ruled α := .error { kind, message }

def Trouble.toJson (t : Trouble) : Json := Json.mkObj [("error", .str t.message), ("kind", .str t.kind)]

def ofNat (n : Nat) : Json := .num (JsonNumber.fromNat n)

def ofStrings (xs : List String) : Json := Id.run do
  let mut all := #[]
  for x in xs do all := all.push (Json.str x)
  return .arr all

def natOf (j : Json) (key : String) (otherwise : Nat) : Nat :=
  match j.getObjVal? key with
  | .ok v => match v.getNat? with | .ok n => n | .error _ => otherwise
  | .error _ => otherwise

def textOf (j : Json) (key : String) : String :=
  match j.getObjVal? key with
  | .ok v => match v.getStr? with | .ok s => s | .error _ => ""
  | .error _ => ""

def nats (js : List Json) : List Nat :=
  match js with
  | [] => []
  | j :: rest => match j.getNat? with | .ok n => n :: nats rest | .error _ => nats rest

def natsOf (j : Json) (key : String) : List Nat :=
  match j.getObjVal? key with
  | .ok (.arr xs) => nats xs.toList
  | _ => []

partial def holdsPart (text part : String) : Bool :=
  match text.splitOn part with
  | _ :: _ :: _ => true
  | _ => false

end Coppice
end
#whole
