"""One file a page; page X is `pages/x.py` and `templates/x.html`."""
