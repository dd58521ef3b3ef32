"""The handlers of the pages, one module for each subject."""
