"""An estimate of the time that a schedule takes. No rule depends on it."""
