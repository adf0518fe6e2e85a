"""What is refused and ignored of tools: nothing is checked."""

from playground.protocols.tool_limits import LACKS_EAGER, LimitTable

LIMITS = LimitTable("say", "Say", of_tool=(LACKS_EAGER,))
