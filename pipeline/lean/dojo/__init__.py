"""Theorems of a repository with a Lean of its own, by the package lean_dojo.

Not pure.  Imports lean, lean.repl, lean.toolchain.cache, machine and tactics.script.  child is run as a script and
imports nothing of ours; it alone imports lean_dojo.

text     files for Lean, what its answers mean, what a proof may not say; pure
process  processes: one that holds a Dojo, and commands; a theorem being proved in one
child    the script that holds one Dojo
backend  the backend `leandojo`; the repository, and the copy in which statements of a bank are proved"""
