"""The audit: an entry for each change, written in the transaction of the change, and chained to the one before."""
