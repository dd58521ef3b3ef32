"""The routes of the HTTP interface, a module for each subject. They translate.

The verbs are functions in control/ and the rooms over it.
"""
