"""The zygote as the control side sees it: launched, asked, ended."""
