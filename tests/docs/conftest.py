"""A real S3 server for the pages about the archive."""

from tests.object_stores import bucket, s3_endpoint, s3_environment

__all__ = ["bucket", "s3_endpoint", "s3_environment"]
