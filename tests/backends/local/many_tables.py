"""Servers with a small lock table, and databases with more tables than fit into it."""

from ramet.backends.local.sql.connections import Connection

FEW_LOCKS = (("max_connections", "20"), ("max_locks_per_transaction", "10"))


def make_tables(connection: Connection, schema: str, count: int, *, owner: str) -> None:
    """Make tables with one row each, and with a sequence, a TOAST table and indexes: five relations each."""
    connection.execute(
        f"""
        DO $$ BEGIN FOR i IN 1 .. {count} LOOP
            EXECUTE format('CREATE TABLE {schema}.many_%s (n serial PRIMARY KEY, words text)', i);
            EXECUTE format('INSERT INTO {schema}.many_%s (words) VALUES (''one'')', i);
            EXECUTE format('ALTER TABLE {schema}.many_%s OWNER TO {owner}', i);
            IF i % 50 = 0 THEN COMMIT; END IF;
        END LOOP; END $$
        """.encode()
    )
