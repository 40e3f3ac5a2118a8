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
  -- written as the REPL writes, at once; ALL: so that a list that was cut short is not taken for all of it
  let out := IO.FS.Stream.ofHandle (← IO.FS.Handle.mk "/dev/stdout" .write)
  told out (Parser.getSyntaxNodeKinds (← getEnv))
  out.putStr "ALL\n"
  out.flush
#kinds
