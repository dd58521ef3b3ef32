"""Events of a project, and webhooks that deliver them. Deleting the package and its lines elsewhere removes them."""
