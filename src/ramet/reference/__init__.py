"""`/docs`: the HTTP interface for people to read, made from openapi.json, without scripts and without a sign-in.

It leaves to others what the interface is. Without this folder and its line in app.py, everything else stays as it is.
"""
