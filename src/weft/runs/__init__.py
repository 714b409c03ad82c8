"""What a run leaves behind: its folder, metrics, checkpoints, pictures; and the display while it trains."""
