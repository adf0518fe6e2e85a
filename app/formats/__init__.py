"""Tools and servers in every form people have them: read, and written."""
