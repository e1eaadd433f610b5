"""The zygote: a process that imports torch once, then forks a child for each case."""
