"""Worker processes: a pool that hands tasks to them, one worker seen from its parent, and what runs inside it."""
