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
-- Functions that a superuser would execute while he plans, or restores definitions, if they were not silenced.
CREATE FUNCTION told(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN IF current_setting('is_superuser') = 'on' THEN RAISE 'executed by a superuser'; END IF; RETURN n; END$$;
CREATE FUNCTION told_twice(n int) RETURNS int IMMUTABLE LANGUAGE sql BEGIN ATOMIC SELECT told(n) + told(1) - 1; END;
CREATE DOMAIN told_number AS int CHECK (told_twice(VALUE) > 0);
CREATE DOMAIN told_strictly AS int CHECK (VALUE IS NULL OR (VALUE > told(0)) IS TRUE);
CREATE TYPE told_pair AS (number told_number, label text);
CREATE TABLE telling (
    n int PRIMARY KEY CHECK (n > told(0)), twice int GENERATED ALWAYS AS (n + told_twice(1)) STORED, pair told_pair DEFAULT '(1,x)',
    strict told_strictly[] DEFAULT '{1,2}'
);
CREATE INDEX telling_told ON telling ((n + told_twice(1)));
CREATE TABLE telling_more (n told_number REFERENCES telling, PRIMARY KEY (n)) PARTITION BY RANGE (n);
CREATE TABLE telling_parts (n int) PARTITION BY RANGE ((told_twice(n)));
CREATE TABLE telling_part PARTITION OF telling_parts FOR VALUES FROM (0) TO (100);
CREATE VIEW told_pairs AS SELECT '(3,y)'::told_pair AS pair;
CREATE FUNCTION told_plus(sum told_number, n int) RETURNS told_number LANGUAGE sql AS 'SELECT sum + n';
CREATE FUNCTION full_name(c customer) RETURNS text LANGUAGE sql AS 'SELECT lower(c.name)';
CREATE INDEX ON customer (full_name(customer));
CREATE FUNCTION of_user(system_user text) RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT lower(system_user); END;
CREATE AGGREGATE told_sum(int) (SFUNC = told_plus, STYPE = told_number, INITCOND = '1');
INSERT INTO telling SELECT generate_series(1, 50);
INSERT INTO telling_parts SELECT generate_series(1, 50);
ANALYZE telling
