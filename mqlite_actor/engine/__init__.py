"""The engine: the writer actor, its mailbox and its tasks. trio starts on this floor."""
