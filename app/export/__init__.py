"""What leaves: a session as a file, one form a module. Pure; what is masked was masked before."""
