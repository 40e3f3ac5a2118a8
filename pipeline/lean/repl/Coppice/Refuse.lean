module
public meta import Lean
public meta import Coppice.Whole
public meta import Coppice.Plain

/-! What is refused before it is elaborated: whatever could run code, and with it do input and output or change what
things mean.  It is told by the kinds in the syntax tree. -/

open Lean Elab

public meta section
namespace Coppice

/-- Made once, for they are asked at every node. -/
structure Rules where
  /-- Kinds of syntax that may stand nowhere. -/
  kinds : NameSet
  /-- Commands of which the ones before a theorem may be. -/
  commands : NameSet
  attributes : NameSet
  options : NameSet

def setOf (names : List Name) : NameSet := Id.run do
  let mut all : NameSet := {}
  for n in names do all := all.insert n
  return all

def rules : Rules where
  kinds := setOf [
    -- run code
    `Lean.Parser.Tactic.runTac, `Lean.byElab, `Lean.runElab, `Lean.runMeta, `Lean.runCmd, `Lean.Parser.Term.unsafe,
    `Lean.Parser.Command.eval, `Lean.Parser.Command.evalBang, `Lean.Parser.Command.initialize, `Lean.termEval_prec_,
    `Lean.termEval_prio_, `Lean.Parser.Command.elab, `Lean.Parser.Command.elab_rules, `Lean.Parser.Command.macro,
    `Lean.Parser.Command.macro_rules, `Lean.Parser.Command.unsafe, `Lean.Parser.Command.computedFields,
    -- trust compiled code
    `Lean.Parser.Tactic.nativeDecide, `Lean.Parser.Tactic.bvDecide, `Lean.Parser.Tactic.bvDecideMacro,
    `Lean.Parser.Tactic.bvTrace, `Lean.Parser.Tactic.bvTraceMacro, `Lean.Parser.Tactic.bvCheck,
    `Lean.Parser.Attr.extern, `Lean.Parser.Attr.export,
    -- become part of the elaborator
    `Lean.Parser.Attr.macro, `Lean.Parser.Attr.simprocAttr, `Lean.Parser.Attr.sevalprocAttr,
    `Lean.Parser.Attr.simprocBuiltinAttr, `Lean.Parser.Attr.sevalprocBuiltinAttr,
    `Lean.Parser.bvNormalizeProcBuiltinAttr, `Lean.Parser.grindPropagatorBuiltinAttr,
    `Lean.PrettyPrinter.Delaborator.attrApp_delab_, `Lean.builtin_command_code_action, `Lean.command_code_action,
    -- read files, print, wait for what may never come
    `Lean.includeStr, `Lean.Parser.Tactic.dbgTrace, `Lean.Parser.Term.dbgTrace, `Lean.Parser.Term.doDbgTrace,
    `Lean.Server.Test.Cancel.tacticUnblock, `Lean.Server.Test.Cancel.tacticWait_for_cancel_once,
    `Lean.Server.Test.Cancel.tacticWait_for_cancel_once_async,
    `Lean.Server.Test.Cancel.tacticWait_for_main_cancel_once_async,
    `Lean.Server.Test.Cancel.tacticWait_for_unblock, `Lean.Server.Test.Cancel.tacticWait_for_unblock_async,
    -- is an axiom
    `Lean.Parser.Command.axiom]
  commands := setOf [
    `Lean.Parser.Command.open, `Lean.Parser.Command.section, `Lean.Parser.Command.namespace, `Lean.Parser.Command.end,
    `Lean.Parser.Command.variable, `Lean.Parser.Command.universe, `Lean.Parser.Command.set_option,
    `Lean.Parser.Command.declaration, `Lean.Parser.Command.notation, `Lean.Parser.Command.mixfix,
    `Lean.Parser.Command.attribute, `Lean.Parser.Command.include, `Lean.Parser.Command.omit,
    `Lean.Parser.Command.export, `Lean.Parser.Command.moduleDoc, `Lean.Parser.Command.deriving,
    `Lean.Parser.Command.check, `Lean.Parser.Command.print, `Lean.Parser.Command.synth,
    `Lean.Parser.Command.grindPattern, `Lean.Parser.commandSeal__, `Lean.Parser.commandUnseal__]
  attributes := setOf [
    `simp, `ext, `grind, `inline, `noinline, `always_inline, `specialize, `reducible, `semireducible, `irreducible,
    `instance_reducible, `implicit_reducible, `instance, `class, `refl, `symm, `trans, `rfl, `match_pattern,
    `elab_as_elim, `elab_without_expected_type, `induction_eliminator, `cases_eliminator, `inherit_doc, `congr,
    `default_instance, `norm_cast, `coe, `deprecated, `expose, `local, `scoped, `defeq, `spec]
  options := setOf [
    `maxHeartbeats, `maxRecDepth, `synthInstance.maxHeartbeats, `synthInstance.maxSize, `autoImplicit,
    `relaxedAutoImplicit, `autoLift, `exponentiation.threshold, `smartUnfolding]

def DEEP : Nat := 10000

def refuse (what why : String) : Option String := some s!"{what} is refused: {why}"

def isWrittenKind (k : Name) : Bool :=
  k == nullKind || k == numLitKind || k == strLitKind || k == `Lean.Parser.Term.structInst
    || k == `Lean.Parser.Term.structInstFields || k == `Lean.Parser.Term.structInstField
    || k == `Lean.Parser.Term.structInstFieldDef || k == `Lean.Parser.Term.optEllipsis
    || k == `Lean.Parser.Term.app || k == `Lean.Parser.Term.paren || k == `Lean.Parser.Term.hygienicLParen
    || k == hygieneInfoKind

mutual
/-- What a configuration may consist of: it is compiled and run to get its value. -/
partial def isWritten (stx : Syntax) : Bool :=
  match stx with
  | .missing => false
  | .atom .. => true
  | .ident _ _ n _ => n == `true || n == `false || n == `none || n == `some
  | .node _ k args =>
    if k == `Lean.Parser.Term.dotIdent then true
    else if k == `Lean.Parser.Term.structInstLVal then args.size == 2 && args[0]!.getId != `native
    else isWrittenKind k && areWritten args.toList
partial def areWritten (all : List Syntax) : Bool :=
  match all with
  | [] => true
  | s :: rest => isWritten s && areWritten rest
end

def attribute? (rules : Rules) (stx : Syntax) : Option String :=
  let attr := stx[1]
  if attr.getKind == `Lean.Parser.Attr.simple then
    let name := attr[0].getId.eraseMacroScopes
    if rules.attributes.contains name then none else refuse s!"the attribute {name.toString}" "it may run code or replace it"
  else none

def option? (rules : Rules) (stx : Syntax) : Option String :=
  let name := stx[1].getId.eraseMacroScopes
  if name.getRoot == `pp || name.getRoot == `linter then none
  else if !rules.options.contains name then refuse s!"the option {name.toString}" "only a few may be set"
  else if name == `maxRecDepth && DEEP < (stx[3].isNatLit?.getD 0) then refuse s!"maxRecDepth above {DEEP}" "the stack ends"
  else none

def setting? (stx : Syntax) : Option String :=
  if stx[1].getId == `native then refuse "native" "compiled code is not trusted"
  else if stx.getKind != `Lean.Parser.Tactic.valConfigItem || isWritten stx[3] then none
  else refuse "a computed configuration" "it would be run; write its value out"

def isSetting (k : Name) : Bool :=
  k == `Lean.Parser.Tactic.valConfigItem || k == `Lean.Parser.Tactic.posConfigItem
    || k == `Lean.Parser.Tactic.negConfigItem

def isOption (k : Name) : Bool :=
  k == `Lean.Parser.Tactic.set_option || k == `Lean.Parser.Term.set_option || k == `Lean.Parser.Command.set_option
    || k == `Lean.Parser.Tactic.Grind.setOption

def own? (rules : Rules) (k : Name) (stx : Syntax) : Option String :=
  if rules.kinds.contains k then refuse k.toString "it may run code, wait, print, or trust what is not checked"
  else if k == `Lean.Parser.Term.attrInstance then attribute? rules stx
  else if isSetting k then setting? stx
  else if isOption k then option? rules stx
  else none

def before (first rest : List Syntax) : List Syntax := Id.run do
  let mut all := rest
  for s in first do all := s :: all
  return all

/-- Lean runs the syntax that a constant has as its value: what made it was code. -/
def isHidden (n : Name) : Bool :=
  match n.eraseMacroScopes with
  | .str _ s => s == "autoParam"
  | _ => false

/-- Why any of them is refused, if one is.  It does not call itself deeper for deeper trees: they may be very deep. -/
partial def refusedAmong? (rules : Rules) (all : List Syntax) : Option String :=
  match all with
  | [] => none
  | .node info k args :: rest => match own? rules k (.node info k args) with
    | some why => some why
    | none => refusedAmong? rules (before args.toList rest)
  | .ident _ _ n _ :: rest =>
    if isHidden n then refuse n.toString "the tactic that it names stands nowhere to be looked at"
    else refusedAmong? rules rest
  | _ :: rest => refusedAmong? rules rest

def refused? (rules : Rules) (stx : Syntax) : Option String := refusedAmong? rules [stx]

mutual
/-- Of a command: why it may not stand before a theorem. -/
partial def unknown? (rules : Rules) (stx : Syntax) : Option String :=
  let k := stx.getKind
  if k == `Lean.Parser.Command.in then unknownAmong? rules [stx[0], stx[2]]
  else if k == `Lean.Parser.Command.mutual then unknownAmong? rules stx[1].getArgs.toList
  else if rules.commands.contains k then none
  else refuse k.toString "it is not among the commands that may stand before a theorem"
partial def unknownAmong? (rules : Rules) (all : List Syntax) : Option String :=
  match all with
  | [] => none
  | s :: rest => match unknown? rules s with | some why => some why | none => unknownAmong? rules rest
end

def command? (rules : Rules) (stx : Syntax) : Option String :=
  match refused? rules stx with
  | some why => some why
  | none => unknown? rules stx

/-- Taken out of the environment itself, so that no macro leads to them either. -/
def disarmed : String := "
attribute [-tactic] Lean.Elab.Tactic.evalRunTac
attribute [-tactic] Lean.Elab.Tactic.evalNativeDecide
attribute [-tactic] Lean.Elab.Tactic.evalDbgTrace
attribute [-tactic] Lean.Elab.Tactic.BVDecide.Frontend.evalBvDecide
attribute [-term_elab] Lean.Elab.Term.elabRunElab
attribute [-term_elab] Lean.Elab.Term.elabUnsafe
attribute [-term_elab] Lean.Elab.Term.elabIncludeStr
attribute [-command_elab] Lean.Elab.Command.elabEval
attribute [-command_elab] Lean.Elab.Command.elabEvalBang
attribute [-command_elab] Lean.Elab.Command.elabRunCmd
attribute [-command_elab] Lean.Elab.Command.elabRunMeta
attribute [-command_elab] Lean.Elab.Command.elabRunElab
attribute [-command_elab] Lean.Elab.Command.elabInitialize
"
end Coppice
end
#whole
