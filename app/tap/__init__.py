"""Other people's agents behind this program: their requests pass through here, unchanged, and
become sessions."""
