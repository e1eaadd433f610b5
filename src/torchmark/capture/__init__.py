"""The recorder: every dispatcher call of forward, backward and optimizer, as a trace.

A call comes in through a TorchDispatchMode (`calls`), is told from others by a tuple (`keys`), is
described once (`describing`, `contents`) and then only counted (`record`). Modules, functions and
phases are labels (`labels`), found by hooks and a TorchFunctionMode that compiled code never sees
(`compiled`). Other threads and processes: `threads`, `processes`. `Capture` puts it all in place,
and takes all of it away again. `traces` reads, checks, imports and writes the files; it needs no
torch, so this package imports nothing by itself.
"""
