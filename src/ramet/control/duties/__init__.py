"""What runs without a request, a module for each duty. `ramet.app` has the table of how often each runs."""
