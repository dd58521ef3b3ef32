-- The part of TimescaleDB's interface that the tests use. A hypertable has one chunk, which inherits from it.
CREATE SCHEMA _timescaledb_config;
CREATE SCHEMA _timescaledb_internal;
CREATE SCHEMA _timescaledb_functions;
CREATE SCHEMA timescaledb_information;
GRANT USAGE ON SCHEMA timescaledb_information TO PUBLIC;
CREATE SEQUENCE _timescaledb_config.bgw_job_id_seq START 1000;
CREATE TABLE _timescaledb_config.bgw_job (
    id int PRIMARY KEY DEFAULT nextval('_timescaledb_config.bgw_job_id_seq'), procedure text, proc_name name,
    schedule_interval interval, config jsonb, scheduled boolean DEFAULT true, last_start timestamptz);
SELECT pg_extension_config_dump('_timescaledb_config.bgw_job', 'WHERE id >= 1000');
CREATE VIEW timescaledb_information.jobs AS SELECT id AS job_id, proc_name, scheduled FROM _timescaledb_config.bgw_job;
GRANT SELECT ON timescaledb_information.jobs TO PUBLIC;
CREATE TABLE _timescaledb_internal.report (at timestamptz DEFAULT clock_timestamp(), level text);
CREATE FUNCTION _timescaledb_functions.job_execute(job int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found _timescaledb_config.bgw_job;
BEGIN
    SELECT * INTO found FROM _timescaledb_config.bgw_job WHERE id = job AND scheduled;
    IF found.id IS NOT NULL THEN
        EXECUTE format('CALL %s(%s, %L)', found.procedure, job, found.config);
    END IF;
END $$;
CREATE PROCEDURE _timescaledb_functions.policy_telemetry(job int, config jsonb) LANGUAGE sql AS $$
    INSERT INTO _timescaledb_internal.report (level) SELECT current_setting('timescaledb.telemetry_level')
    WHERE current_setting('timescaledb.telemetry_level') <> 'off' $$;
INSERT INTO _timescaledb_config.bgw_job (id, procedure, proc_name, schedule_interval)
VALUES (1, '_timescaledb_functions.policy_telemetry', 'policy_telemetry', '1 second');
CREATE FUNCTION add_job(proc regproc, schedule_interval interval, config jsonb DEFAULT NULL) RETURNS int
LANGUAGE sql SECURITY DEFINER AS $$
    INSERT INTO _timescaledb_config.bgw_job (procedure, proc_name, schedule_interval, config)
    SELECT format('%I.%I', n.nspname, p.proname), p.proname, schedule_interval, config
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = proc RETURNING id $$;
CREATE FUNCTION alter_job(job_id int, scheduled boolean DEFAULT NULL) RETURNS boolean LANGUAGE sql SECURITY DEFINER AS $$
    UPDATE _timescaledb_config.bgw_job j SET scheduled = coalesce($2, j.scheduled) WHERE id = $1 RETURNING j.scheduled $$;
CREATE FUNCTION create_hypertable(relation regclass, time_column_name name) RETURNS regclass LANGUAGE plpgsql
SECURITY DEFINER AS $$
BEGIN
    EXECUTE format('CREATE TABLE _timescaledb_internal.%I () INHERITS (%s)', '_hyper_' || relation::oid, relation);
    RETURN relation;
END $$;
CREATE FUNCTION drop_chunks(relation regclass, older_than timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    EXECUTE format('DROP TABLE _timescaledb_internal.%I', '_hyper_' || relation::oid);
END $$;
CREATE FUNCTION timescaledb_pre_restore() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER DATABASE %I SET timescaledb.restoring = ''on''', current_database());
    SET SESSION timescaledb.restoring = 'on';
    RETURN true;
END $$;
CREATE FUNCTION timescaledb_post_restore() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER DATABASE %I RESET timescaledb.restoring', current_database());
    RESET timescaledb.restoring;
    RETURN true;
END $$;
