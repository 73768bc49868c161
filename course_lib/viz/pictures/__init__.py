"""Pictures that stand in one file each."""
