"""Tools that are Python functions: from a file, in a child process, or typed in the page."""
