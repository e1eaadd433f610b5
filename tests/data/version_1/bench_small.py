"""The suite of the stores here: cases that work, fail, are skipped, and are compiled."""

from torchmark import GroupedSetup, GroupedStmts, TimerArgs, skip_if

SUITE = {
    "Pointwise": {
        "add": TimerArgs("x + x", "x = torch.ones(4); print('ready')"),
        "mul": TimerArgs("x * x", "x = torch.ones(4)", num_threads=2),
        "wrong": TimerArgs("x + yy", "x = torch.ones(4)"),
        "twice": GroupedStmts(
            "y = x * 2", None, GroupedSetup("x = torch.ones(4)"), "f(x) -> y", compile=True
        ),
    },
    "new": TimerArgs("x + x", skip=skip_if(torch=">=1.0", reason="not wanted here")),
}
