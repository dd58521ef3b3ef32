"""A service that a proof has asked for, and the faults that end one trial but not the proof."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

import httpx
import psycopg

# A trial that ends with one of these is reported, and the next one begins.
FAULTS = (AssertionError, OSError, psycopg.Error, httpx.HTTPError, sqlite3.Error)


@dataclass
class Made:
    """A service that was asked for, and what it must hold."""

    service_id: str
    port: int
    password: str
    strategy: str = ""
    since: int = 0
    target: datetime | None = None
    doomed: bool = False
    expires: bool = False
