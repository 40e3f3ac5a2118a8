module
public meta import Lean

/-! `#whole`, at the end of a module: whoever imports it can run all of it.

What the compiler makes beside the functions themselves (for loops, lambdas) can otherwise not be found from outside:
this Lean imports only what a module exports, and looks for code by the names of constants.  So each gets a constant of
its name.  Functions by `where` are private, and stay so: there are none here. -/

open Lean

public meta section
namespace Coppice

def found (n : Name) (env : Environment) : Environment :=
  if env.contains n then env else
  let d := Declaration.defnDecl {
    name := n, levelParams := [], type := mkConst ``True, value := mkConst ``True.intro, hints := .opaque, safety := .safe }
  match env.addDeclCore 0 d none with
  | .ok env => env
  | .error _ => env

def allFound (code : List IR.Decl) (env : Environment) : Environment :=
  match code with
  | [] => env
  | d :: rest => allFound rest (Compiler.LCNF.setDeclPublic (setDeclMeta (found d.name env) d.name) d.name)

end Coppice

elab "#whole" : command => do
  let env ← getEnv
  setEnv (Coppice.allFound (IR.getDecls env) env)
end
#whole
