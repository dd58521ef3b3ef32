"""Services that follow databases elsewhere, and their promotion: the verbs, and the report of what would be made."""
