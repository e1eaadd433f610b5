"""The zygote: imports torch once, then forks a child for each case."""
