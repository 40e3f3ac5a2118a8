"""The backends that a run may choose its Lean from.

Not pure.  Imports all of lean, tactics, spec_fields, store and machine.

keys   the keys by which a spec chooses one, and the first target of such a run, which records it
table  how each is opened, what it imports, its version; the stage of that target"""
