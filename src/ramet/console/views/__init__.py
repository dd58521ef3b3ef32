"""What pages show, prepared for the templates: text, forms, charts and trees. Nothing here handles a request."""
