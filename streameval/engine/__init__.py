"""From record bytes to counted events: pure, with the clock handed in."""
