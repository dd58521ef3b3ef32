-- What only a superuser may own: an import leaves it out, and says so.
CREATE PUBLICATION everything FOR ALL TABLES;
COMMENT ON PUBLICATION everything IS 'left out';
CREATE FUNCTION public.watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE EVENT TRIGGER watched ON ddl_command_end EXECUTE FUNCTION public.watch();
ALTER DATABASE shop SET log_statement = 'all';
CREATE SUBSCRIPTION sub CONNECTION 'host=db.invalid dbname=x' PUBLICATION pub WITH (connect = false);
REVOKE CONNECT ON DATABASE shop FROM PUBLIC;
