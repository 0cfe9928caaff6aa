"""The command line that runs a job again, rebuilt from what was recorded."""
