import Lean
/-! Prints the kind of every syntax that this Lean has. -/
open Lean Elab Command

meta def told (out : IO.FS.Stream) (kinds : List SyntaxNodeKind) : IO Unit := do
  match kinds with
  | [] => pure ()
  | k :: rest => do
    out.putStr ("KIND " ++ k.toString (escape := false) ++ "\n")
    told out rest

elab "#kinds" : command => do
  told (← IO.getStdout) (Parser.getSyntaxNodeKinds (← getEnv))
#kinds
