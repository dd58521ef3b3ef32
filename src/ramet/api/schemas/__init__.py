"""What travels over HTTP, answers and requests, as msgspec structs; openapi.json is made from them.

What checks requests is in `ramet.api.body`.
"""
