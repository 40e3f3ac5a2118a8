"""The kind `steps`: a plain make-like pipeline.

Not pure: stages run commands.  read, plan and spec/ do no I/O.  May import core, errors, spec, spec_fields, store,
machine and views.

read      YAML -> spec: the keys of `kind: steps`, the values of `for:`, names in braces
plan      spec -> targets
stages    the stages: run a command, call a Python function
describe  a target in the words of its spec
view      what there is to see of a run: its targets and builds as a projection
spec/     the records of the spec"""
