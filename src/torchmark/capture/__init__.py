"""The recorder: it writes every dispatcher call of forward, backward and optimizer to a trace.

`calls` receives the calls in a TorchDispatchMode. `known` tells calls apart, by a key or a quicker
comparison. `describing` describes each distinct call once, and `record` counts it. `labels` finds
the module, function and phase of a call, by `hooks` and a TorchFunctionMode that compiled code does
not see. `compiled_graphs` reads what compiled code computes from its graphs. `user_program` runs
the program and watches its imports, threads and processes. `Capture` starts all of this, and
removes it again. `traces` reads, checks, imports and writes the files. It needs no torch, so this
package imports nothing itself.
"""
