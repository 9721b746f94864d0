"""How the fields that nobody gave are chosen: candidates that the rules accept, the cheapest first."""
