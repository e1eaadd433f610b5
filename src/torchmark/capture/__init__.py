"""The recorder: every dispatcher call of forward, backward and optimizer, as a trace.

A call comes in through a TorchDispatchMode (`calls`), is told from others by a key or by a quicker
comparison (`known`), is described once (`describing`) and then only counted (`record`). Modules,
functions and phases are labels (`labels`), found by `hooks` and a TorchFunctionMode that compiled
code never sees; what such code computes is read from its graphs (`compiled_graphs`). The program
runs, and its imports, threads and processes are watched, in `user_program`. `Capture` puts it all
in place, and takes all of it away again. `traces` reads, checks, imports and writes the files; it
needs no torch, so this package imports nothing by itself.
"""
