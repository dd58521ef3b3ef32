"""Services from databases elsewhere: the verbs, and the report of what an import would do."""
