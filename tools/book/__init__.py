"""The course as a static site, which `make book` makes (build_book.py): one module for each part of it."""


class BookError(Exception):
    """Something that the book cannot show; the message names the page, what is wrong, and what to do."""
