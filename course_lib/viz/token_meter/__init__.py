"""Tokens per second that a chip can write, by the bandwidth of its memory alone: ``token_meter``."""
