"""What operations cost, bar beside bar."""
