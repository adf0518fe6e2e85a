"""Tools that are Python functions: of a file, in a child process, or typed in the page."""
