-- What an upgrade has to carry over: roles, privileges, settings, extensions, partitions, large objects, sequences.
CREATE ROLE app LOGIN PASSWORD 'app-secret';
CREATE ROLE readers;
GRANT readers TO app;
ALTER ROLE app SET statement_timeout = '30s';
SELECT timescale_functions.create_bare_readonly_role('analyst', 'analyst-secret');
SELECT timescale_functions.grant_tsdbadmin_to_role('analyst');
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE SCHEMA "Odd schema" AUTHORIZATION CURRENT_USER;
CREATE TABLE customer (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, tags jsonb);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY, customer_id bigint REFERENCES customer, placed date NOT NULL,
    amount numeric(10, 2) CHECK (amount >= 0)
) PARTITION BY RANGE (placed);
CREATE TABLE orders_2025 PARTITION OF orders FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE orders_2026 PARTITION OF orders FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE "Odd schema"."Odd ""table" (a int);
CREATE UNLOGGED TABLE cache (k text, v text);
CREATE INDEX customer_name ON customer USING gin (name gin_trgm_ops);
CREATE INDEX orders_customer ON orders (customer_id);
CREATE MATERIALIZED VIEW totals AS SELECT customer_id, sum(amount) AS total FROM orders GROUP BY 1;
CREATE VIEW recent AS SELECT * FROM orders WHERE placed >= '2026-01-01';
INSERT INTO customer (name, tags) SELECT 'customer ' || i, jsonb_build_object('n', i) FROM generate_series(1, 2000) i;
INSERT INTO orders (customer_id, placed, amount)
    SELECT 1 + i % 2000, date '2025-01-01' + i % 700, i % 100 FROM generate_series(1, 20000) i;
INSERT INTO "Odd schema"."Odd ""table" SELECT generate_series(1, 17);
REFRESH MATERIALIZED VIEW totals;
SELECT lo_from_bytea(0, 'a large object');
GRANT SELECT ON customer, orders TO readers;
CREATE PUBLICATION everything FOR TABLE customer;
COMMENT ON TABLE customer IS 'who orders';
CREATE FUNCTION is_short(value text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT length(value) < 20';
CREATE DATABASE second;
