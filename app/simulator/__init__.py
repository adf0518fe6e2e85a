"""The server ends of the protocols: a model of patterns, scenarios and faults over real HTTP."""
