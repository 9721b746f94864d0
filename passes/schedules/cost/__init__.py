"""How long a schedule takes, by an estimate. No rule asks for it."""
