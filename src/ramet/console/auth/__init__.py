"""Who uses the console: sign-in, sessions, CSRF tokens, and the throttle on guessed keys."""
