"""What Ramet remembers: tables, migrations, and one module of queries for each family of tables."""
