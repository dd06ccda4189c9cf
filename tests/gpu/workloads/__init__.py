"""The programs that parts start: each knows nothing of the kit, and talks in lines."""
