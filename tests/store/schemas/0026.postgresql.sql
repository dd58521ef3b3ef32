SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.api_key (
    public_key text NOT NULL,
    project_id text NOT NULL,
    name text NOT NULL,
    secret_digest text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint,
    role text DEFAULT 'ADMIN'::text NOT NULL,
    expires_at bigint,
    used_at bigint,
    previous_until bigint,
    previous_digest text,
    made_by text,
    limits json
);
CREATE TABLE public.audit_entry (
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    project_id text,
    actor json NOT NULL,
    via text NOT NULL,
    address text,
    verb text NOT NULL,
    subject text,
    fields json,
    outcome text NOT NULL,
    code text,
    operation_id text,
    request_id text,
    link text NOT NULL
);
CREATE SEQUENCE public.audit_entry_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.audit_entry_sequence_seq OWNED BY public.audit_entry.sequence;
CREATE TABLE public.delivery (
    id text NOT NULL,
    webhook_id text NOT NULL,
    event_sequence bigint NOT NULL,
    status text NOT NULL,
    attempts integer NOT NULL,
    next_at bigint,
    response_status integer,
    error text,
    created_at bigint NOT NULL,
    finished_at bigint
);
CREATE TABLE public.duty (
    name text NOT NULL,
    next_at double precision NOT NULL
);
CREATE TABLE public.event (
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    project_id text NOT NULL,
    type text NOT NULL,
    service_id text,
    data json
);
CREATE SEQUENCE public.event_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.event_sequence_seq OWNED BY public.event.sequence;
CREATE TABLE public.hold (
    service_id text NOT NULL,
    operation_id text NOT NULL
);
CREATE TABLE public.idempotency (
    project_id text NOT NULL,
    key_digest text NOT NULL,
    body_digest text NOT NULL,
    service_id text NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE public.installation (
    number integer NOT NULL,
    digest text NOT NULL
);
CREATE SEQUENCE public.installation_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.installation_number_seq OWNED BY public.installation.number;
CREATE TABLE public.last_usage (
    subject text NOT NULL,
    at bigint NOT NULL,
    cpu_millis integer,
    memory_mb integer,
    storage_mb integer,
    own_bytes bigint,
    own_at bigint
);
CREATE TABLE public.login (
    role text NOT NULL,
    service_id text NOT NULL,
    public_key text NOT NULL,
    read_only boolean NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE public.metric_sample (
    subject text NOT NULL,
    at bigint NOT NULL,
    measured json NOT NULL
);
CREATE TABLE public.operation (
    id text NOT NULL,
    procedure text NOT NULL,
    subject text NOT NULL,
    step text NOT NULL,
    status text NOT NULL,
    state json NOT NULL,
    done_steps json NOT NULL,
    attempt integer NOT NULL,
    started boolean NOT NULL,
    cancelled boolean NOT NULL,
    run_at double precision NOT NULL,
    fence integer NOT NULL,
    worker text,
    progress text NOT NULL,
    step_started_at double precision NOT NULL,
    error text,
    created_at bigint NOT NULL,
    finished_at bigint,
    run_set_at double precision DEFAULT '0'::double precision NOT NULL,
    idle_seconds double precision DEFAULT '0'::double precision NOT NULL,
    actor json
);
CREATE TABLE public.operation_event (
    id bigint NOT NULL,
    operation_id text NOT NULL,
    step text NOT NULL,
    outcome text NOT NULL,
    at bigint NOT NULL,
    seconds double precision NOT NULL,
    error text
);
CREATE SEQUENCE public.operation_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.operation_event_id_seq OWNED BY public.operation_event.id;
CREATE TABLE public.project (
    id text NOT NULL,
    name text NOT NULL,
    created_at bigint NOT NULL,
    limits json
);
CREATE TABLE public.replica_set (
    id text NOT NULL,
    project_id text NOT NULL,
    service_id text NOT NULL,
    name text NOT NULL,
    environment text NOT NULL,
    cpu_millis integer NOT NULL,
    memory_gbs integer NOT NULL,
    nodes json NOT NULL,
    host text NOT NULL,
    port integer NOT NULL,
    pooler_port integer,
    created_at bigint NOT NULL,
    ready_at bigint,
    failed_at bigint,
    failure text,
    deleted_at bigint,
    down_reason text,
    operation_id text
);
CREATE TABLE public.service (
    id text NOT NULL,
    project_id text NOT NULL,
    name text NOT NULL,
    region_code text NOT NULL,
    service_type text NOT NULL,
    environment text NOT NULL,
    cpu_millis integer,
    memory_gbs integer,
    volume_type text NOT NULL,
    host text NOT NULL,
    port integer NOT NULL,
    pooler_port integer,
    pg_major integer NOT NULL,
    created_at bigint NOT NULL,
    verifier text NOT NULL,
    paused boolean NOT NULL,
    ready_at bigint,
    failed_at bigint,
    failure text,
    deleted_at bigint,
    down_reason text,
    last_verified_at bigint,
    drilled_at bigint,
    drill_failure text,
    archive_delay text,
    storage_warning text,
    parent_project_id text,
    parent_service_id text,
    parent_name text,
    fork_strategy text,
    fork_target_time text,
    origin_snapshot_id text,
    data_time bigint,
    settings json NOT NULL,
    report json,
    operation_id text,
    archived_until bigint,
    archive_base_at bigint,
    archive_problem text,
    archive_from bigint,
    archive_verified_at bigint,
    archive_drilled_at bigint,
    archive_drill_failure text,
    archive_gaps json,
    upstream json,
    following json,
    archived_as text,
    protected boolean DEFAULT false NOT NULL,
    labels json,
    life_span json,
    sleep_after_seconds integer,
    server_port integer,
    asleep boolean DEFAULT false NOT NULL,
    made_by text,
    unclaimed boolean DEFAULT false NOT NULL,
    half_promoted boolean DEFAULT false NOT NULL,
    recovered boolean DEFAULT false NOT NULL
);
CREATE TABLE public.session (
    digest text NOT NULL,
    public_key text NOT NULL,
    expires_at bigint NOT NULL,
    secret_digest text
);
CREATE TABLE public.sign_in_link (
    digest text NOT NULL,
    public_key text NOT NULL,
    secret_digest text NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE public.snapshot (
    id text NOT NULL,
    service_id text NOT NULL,
    kind text NOT NULL,
    name text,
    taken_at bigint NOT NULL,
    start_lsn text NOT NULL,
    end_lsn text NOT NULL,
    timeline integer NOT NULL,
    next_xid bigint NOT NULL,
    size_bytes bigint NOT NULL
);
CREATE TABLE public.spent_form (
    public_key text NOT NULL,
    digest text NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE public.webhook (
    id text NOT NULL,
    project_id text NOT NULL,
    url text NOT NULL,
    description text NOT NULL,
    types json NOT NULL,
    enabled boolean NOT NULL,
    disabled_reason text,
    sealed_secret text NOT NULL,
    sealed_previous text,
    previous_until bigint,
    failing_since bigint,
    created_at bigint NOT NULL
);
ALTER TABLE ONLY public.audit_entry ALTER COLUMN sequence SET DEFAULT nextval('public.audit_entry_sequence_seq'::regclass);
ALTER TABLE ONLY public.event ALTER COLUMN sequence SET DEFAULT nextval('public.event_sequence_seq'::regclass);
ALTER TABLE ONLY public.installation ALTER COLUMN number SET DEFAULT nextval('public.installation_number_seq'::regclass);
ALTER TABLE ONLY public.operation_event ALTER COLUMN id SET DEFAULT nextval('public.operation_event_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0026');
INSERT INTO public.api_key VALUES ('api_key public_key full é '' " \', 'project id full é '' " \', 'api_key name full é '' " \', 'api_key secret_digest full é '' " \', 1774749599999999, 1774749599999999, 'api_key role full é '' " \', 1774749599999999, 1774749599999999, 1774749599999999, 'api_key previous_digest full é '' " \', 'api_key made_by full é '' " \', '{"a":[1,null,"ü"]}');
INSERT INTO public.api_key VALUES ('api_key public_key sparse é '' " \', 'project id sparse é '' " \', 'api_key name sparse é '' " \', 'api_key secret_digest sparse é '' " \', 1774749599999999, NULL, 'api_key role sparse é '' " \', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.audit_entry VALUES (1, 1774749599999999, 'audit_entry project_id full é '' " \', '{"a":[1,null,"ü"]}', 'audit_entry via full é '' " \', 'audit_entry address full é '' " \', 'audit_entry verb full é '' " \', 'audit_entry subject full é '' " \', '{"a":[1,null,"ü"]}', 'audit_entry outcome full é '' " \', 'audit_entry code full é '' " \', 'audit_entry operation_id full é '' " \', 'audit_entry request_id full é '' " \', 'audit_entry link full é '' " \');
INSERT INTO public.audit_entry VALUES (2, 1774749599999999, NULL, '{"a":[1,null,"ü"]}', 'audit_entry via sparse é '' " \', NULL, 'audit_entry verb sparse é '' " \', NULL, NULL, 'audit_entry outcome sparse é '' " \', NULL, NULL, NULL, 'audit_entry link sparse é '' " \');
INSERT INTO public.delivery VALUES ('delivery id full é '' " \', 'webhook id full é '' " \', 1099511627776, 'RUNNING', 7, 1774749599999999, 7, 'delivery error full é '' " \', 1774749599999999, 1774749599999999);
INSERT INTO public.delivery VALUES ('delivery id sparse é '' " \', 'webhook id sparse é '' " \', 1099511627776, 'RUNNING', 8, NULL, NULL, NULL, 1774749599999999, NULL);
INSERT INTO public.duty VALUES ('duty name full é '' " \', 1.5);
INSERT INTO public.duty VALUES ('duty name sparse é '' " \', 1.5);
INSERT INTO public.event VALUES (1, 1774749599999999, 'event project_id full é '' " \', 'event type full é '' " \', 'event service_id full é '' " \', '{"a":[1,null,"ü"]}');
INSERT INTO public.event VALUES (2, 1774749599999999, 'event project_id sparse é '' " \', 'event type sparse é '' " \', NULL, NULL);
INSERT INTO public.hold VALUES ('service id full é '' " \', 'operation id full é '' " \');
INSERT INTO public.hold VALUES ('service id sparse é '' " \', 'operation id sparse é '' " \');
INSERT INTO public.idempotency VALUES ('project id full é '' " \', 'idempotency key_digest full é '' " \', 'idempotency body_digest full é '' " \', 'service id full é '' " \', 1774749599999999);
INSERT INTO public.idempotency VALUES ('project id sparse é '' " \', 'idempotency key_digest sparse é '' " \', 'idempotency body_digest sparse é '' " \', 'service id sparse é '' " \', 1774749599999999);
INSERT INTO public.installation VALUES (1, 'installation digest full é '' " \');
INSERT INTO public.installation VALUES (2, 'installation digest sparse é '' " \');
INSERT INTO public.last_usage VALUES ('last_usage subject full é '' " \', 1774749599999999, 7, 7, 7, 1099511627776, 1774749599999999);
INSERT INTO public.last_usage VALUES ('last_usage subject sparse é '' " \', 1774749599999999, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.login VALUES ('login role full é '' " \', 'service id full é '' " \', 'api_key public_key full é '' " \', false, 1774749599999999, 1774749599999999);
INSERT INTO public.login VALUES ('login role sparse é '' " \', 'service id sparse é '' " \', 'api_key public_key sparse é '' " \', false, 1774749599999999, 1774749599999999);
INSERT INTO public.metric_sample VALUES ('metric_sample subject full é '' " \', 1774749599999999, '{"a":[1,null,"ü"]}');
INSERT INTO public.metric_sample VALUES ('metric_sample subject sparse é '' " \', 1774749599999999, '{"a":[1,null,"ü"]}');
INSERT INTO public.operation VALUES ('operation id full é '' " \', 'operation procedure full é '' " \', 'operation subject full é '' " \', 'operation step full é '' " \', 'RUNNING', '{"a":[1,null,"ü"]}', '{"a":[1,null,"ü"]}', 7, false, false, 1.5, 7, 'operation worker full é '' " \', 'operation progress full é '' " \', 1.5, 'operation error full é '' " \', 1774749599999999, 1774749599999999, 1.5, 1.5, '{"a":[1,null,"ü"]}');
INSERT INTO public.operation VALUES ('operation id sparse é '' " \', 'operation procedure sparse é '' " \', 'operation subject sparse é '' " \', 'operation step sparse é '' " \', 'RUNNING', '{"a":[1,null,"ü"]}', '{"a":[1,null,"ü"]}', 8, false, false, 1.5, 8, NULL, 'operation progress sparse é '' " \', 1.5, NULL, 1774749599999999, NULL, 1.5, 1.5, NULL);
INSERT INTO public.operation_event VALUES (1, 'operation id full é '' " \', 'operation_event step full é '' " \', 'operation_event outcome full é '' " \', 1774749599999999, 1.5, 'operation_event error full é '' " \');
INSERT INTO public.operation_event VALUES (2, 'operation id sparse é '' " \', 'operation_event step sparse é '' " \', 'operation_event outcome sparse é '' " \', 1774749599999999, 1.5, NULL);
INSERT INTO public.project VALUES ('project id full é '' " \', 'project name full é '' " \', 1774749599999999, '{"a":[1,null,"ü"]}');
INSERT INTO public.project VALUES ('project id sparse é '' " \', 'project name sparse é '' " \', 1774749599999999, NULL);
INSERT INTO public.replica_set VALUES ('replica_set id full é '' " \', 'project id full é '' " \', 'service id full é '' " \', 'replica_set name full é '' " \', 'PROD', 7, 7, '[["node123456",5433]]', 'replica_set host full é '' " \', 7, 7, 1774749599999999, 1774749599999999, 1774749599999999, 'replica_set failure full é '' " \', 1774749599999999, 'replica_set down_reason full é '' " \', 'replica_set operation_id full é '' " \');
INSERT INTO public.replica_set VALUES ('replica_set id sparse é '' " \', 'project id sparse é '' " \', 'service id sparse é '' " \', 'replica_set name sparse é '' " \', 'PROD', 8, 8, '[["node123456",5433]]', 'replica_set host sparse é '' " \', 8, NULL, 1774749599999999, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.service VALUES ('service id full é '' " \', 'project id full é '' " \', 'service name full é '' " \', 'service region_code full é '' " \', 'VECTOR', 'PROD', 7, 7, 'service volume_type full é '' " \', 'service host full é '' " \', 7, 7, 7, 1774749599999999, 'service verifier full é '' " \', false, 1774749599999999, NULL, 'service failure full é '' " \', NULL, 'service down_reason full é '' " \', 1774749599999999, 1774749599999999, 'service drill_failure full é '' " \', 'service archive_delay full é '' " \', 'service storage_warning full é '' " \', 'service parent_project_id full é '' " \', 'service parent_service_id full é '' " \', 'service parent_name full é '' " \', 'PITR', 'service fork_target_time full é '' " \', 'service origin_snapshot_id full é '' " \', 1774749599999999, '{"a":[1,null,"ü"]}', '{"a":[1,null,"ü"]}', NULL, 1774749599999999, 1774749599999999, 'service archive_problem full é '' " \', 1774749599999999, 1774749599999999, 1774749599999999, 'service archive_drill_failure full é '' " \', '[{"begins_at":"2026-03-29T01:59:59.999999+00:00","ends_at":null,"reason":"WAL was lost"}]', '{"method":"PHYSICAL","host":"db.example","port":5432,"database":"shop","user":"app","sslmode":"require","system_identifier":"7","bootstrap_role":"postgres"}', '{"observed_at":"2026-03-29T01:59:59Z"}', 'service archived_as full é '' " \', false, '{"a":[1,null,"ü"]}', '{"a":[1,null,"ü"]}', 7, 7, false, 'service made_by full é '' " \', false, false, false);
INSERT INTO public.service VALUES ('service id sparse é '' " \', 'project id sparse é '' " \', 'service name sparse é '' " \', 'service region_code sparse é '' " \', 'VECTOR', 'PROD', NULL, NULL, 'service volume_type sparse é '' " \', 'service host sparse é '' " \', 9, NULL, 8, 1774749599999999, 'service verifier sparse é '' " \', false, NULL, NULL, NULL, 1774749599999999, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"a":[1,null,"ü"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, false, NULL, false, false, false);
INSERT INTO public.session VALUES ('session digest full é '' " \', 'api_key public_key full é '' " \', 1774749599999999, 'session secret_digest full é '' " \');
INSERT INTO public.session VALUES ('session digest sparse é '' " \', 'api_key public_key sparse é '' " \', 1774749599999999, NULL);
INSERT INTO public.sign_in_link VALUES ('sign_in_link digest full é '' " \', 'api_key public_key full é '' " \', 'sign_in_link secret_digest full é '' " \', 1774749599999999);
INSERT INTO public.sign_in_link VALUES ('sign_in_link digest sparse é '' " \', 'api_key public_key sparse é '' " \', 'sign_in_link secret_digest sparse é '' " \', 1774749599999999);
INSERT INTO public.snapshot VALUES ('snapshot id full é '' " \', 'service id full é '' " \', 'MANUAL', 'snapshot name full é '' " \', 1774749599999999, 'snapshot start_lsn full é '' " \', 'snapshot end_lsn full é '' " \', 7, 1099511627776, 1099511627776);
INSERT INTO public.snapshot VALUES ('snapshot id sparse é '' " \', 'service id sparse é '' " \', 'MANUAL', NULL, 1774749599999999, 'snapshot start_lsn sparse é '' " \', 'snapshot end_lsn sparse é '' " \', 8, 1099511627776, 1099511627776);
INSERT INTO public.spent_form VALUES ('api_key public_key full é '' " \', 'spent_form digest full é '' " \', 1774749599999999);
INSERT INTO public.spent_form VALUES ('api_key public_key sparse é '' " \', 'spent_form digest sparse é '' " \', 1774749599999999);
INSERT INTO public.webhook VALUES ('webhook id full é '' " \', 'webhook project_id full é '' " \', 'webhook url full é '' " \', 'webhook description full é '' " \', '{"a":[1,null,"ü"]}', false, 'webhook disabled_reason full é '' " \', 'webhook sealed_secret full é '' " \', 'webhook sealed_previous full é '' " \', 1774749599999999, 1774749599999999, 1774749599999999);
INSERT INTO public.webhook VALUES ('webhook id sparse é '' " \', 'webhook project_id sparse é '' " \', 'webhook url sparse é '' " \', 'webhook description sparse é '' " \', '{"a":[1,null,"ü"]}', false, NULL, 'webhook sealed_secret sparse é '' " \', NULL, NULL, NULL, 1774749599999999);
SELECT pg_catalog.setval('public.audit_entry_sequence_seq', 1, false);
SELECT pg_catalog.setval('public.event_sequence_seq', 1, false);
SELECT pg_catalog.setval('public.installation_number_seq', 1, false);
SELECT pg_catalog.setval('public.operation_event_id_seq', 1, false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT pk_api_key PRIMARY KEY (public_key);
ALTER TABLE ONLY public.audit_entry
    ADD CONSTRAINT pk_audit_entry PRIMARY KEY (sequence);
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT pk_delivery PRIMARY KEY (id);
ALTER TABLE ONLY public.duty
    ADD CONSTRAINT pk_duty PRIMARY KEY (name);
ALTER TABLE ONLY public.event
    ADD CONSTRAINT pk_event PRIMARY KEY (sequence);
ALTER TABLE ONLY public.hold
    ADD CONSTRAINT pk_hold PRIMARY KEY (service_id, operation_id);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT pk_idempotency PRIMARY KEY (project_id, key_digest);
ALTER TABLE ONLY public.installation
    ADD CONSTRAINT pk_installation PRIMARY KEY (number);
ALTER TABLE ONLY public.last_usage
    ADD CONSTRAINT pk_last_usage PRIMARY KEY (subject);
ALTER TABLE ONLY public.login
    ADD CONSTRAINT pk_login PRIMARY KEY (role);
ALTER TABLE ONLY public.metric_sample
    ADD CONSTRAINT pk_metric_sample PRIMARY KEY (subject, at);
ALTER TABLE ONLY public.operation
    ADD CONSTRAINT pk_operation PRIMARY KEY (id);
ALTER TABLE ONLY public.operation_event
    ADD CONSTRAINT pk_operation_event PRIMARY KEY (id);
ALTER TABLE ONLY public.project
    ADD CONSTRAINT pk_project PRIMARY KEY (id);
ALTER TABLE ONLY public.replica_set
    ADD CONSTRAINT pk_replica_set PRIMARY KEY (id);
ALTER TABLE ONLY public.service
    ADD CONSTRAINT pk_service PRIMARY KEY (id);
ALTER TABLE ONLY public.session
    ADD CONSTRAINT pk_session PRIMARY KEY (digest);
ALTER TABLE ONLY public.sign_in_link
    ADD CONSTRAINT pk_sign_in_link PRIMARY KEY (digest);
ALTER TABLE ONLY public.snapshot
    ADD CONSTRAINT pk_snapshot PRIMARY KEY (id);
ALTER TABLE ONLY public.spent_form
    ADD CONSTRAINT pk_spent_form PRIMARY KEY (public_key, digest);
ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT pk_webhook PRIMARY KEY (id);
CREATE INDEX ix_audit_entry_listing ON public.audit_entry USING btree (project_id, sequence);
CREATE INDEX ix_delivery_due ON public.delivery USING btree (next_at) WHERE (status = 'PENDING'::text);
CREATE INDEX ix_delivery_event_sequence ON public.delivery USING btree (event_sequence);
CREATE INDEX ix_delivery_listing ON public.delivery USING btree (webhook_id, created_at);
CREATE INDEX ix_event_at ON public.event USING btree (at);
CREATE INDEX ix_event_listing ON public.event USING btree (project_id, sequence);
CREATE INDEX ix_hold_operation_id ON public.hold USING btree (operation_id);
CREATE INDEX ix_idempotency_created_at ON public.idempotency USING btree (created_at);
CREATE INDEX ix_idempotency_service_id ON public.idempotency USING btree (service_id);
CREATE INDEX ix_login_service_id ON public.login USING btree (service_id);
CREATE INDEX ix_operation_by_age ON public.operation USING btree (subject, procedure, created_at);
CREATE INDEX ix_operation_by_status ON public.operation USING btree (subject, procedure, status);
CREATE INDEX ix_operation_due ON public.operation USING btree (run_at) WHERE (status = ANY (ARRAY['RUNNING'::text, 'UNDOING'::text]));
CREATE INDEX ix_operation_event_operation_id ON public.operation_event USING btree (operation_id);
CREATE INDEX ix_operation_listing ON public.operation USING btree (created_at, id);
CREATE INDEX ix_operation_over ON public.operation USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX ix_replica_set_project_id ON public.replica_set USING btree (project_id);
CREATE INDEX ix_replica_set_service_id ON public.replica_set USING btree (service_id);
CREATE INDEX ix_service_child ON public.service USING btree (parent_service_id);
CREATE INDEX ix_service_in_archive ON public.service USING btree (id, name) WHERE ((deleted_at IS NOT NULL) AND ((archive_base_at IS NOT NULL) OR recovered));
CREATE INDEX ix_service_listing ON public.service USING btree (project_id, created_at, id);
CREATE INDEX ix_service_made_by ON public.service USING btree (made_by) WHERE ((deleted_at IS NULL) AND (failed_at IS NULL));
CREATE INDEX ix_service_parent ON public.service USING btree (parent_service_id, ready_at) WHERE ((ready_at IS NOT NULL) AND (fork_strategy = 'NOW'::text));
CREATE INDEX ix_service_present ON public.service USING btree (project_id, created_at, id) WHERE (deleted_at IS NULL);
CREATE INDEX ix_session_expires_at ON public.session USING btree (expires_at);
CREATE INDEX ix_sign_in_link_expires_at ON public.sign_in_link USING btree (expires_at);
CREATE INDEX ix_snapshot_service_id ON public.snapshot USING btree (service_id);
CREATE INDEX ix_spent_form_expires_at ON public.spent_form USING btree (expires_at);
CREATE INDEX ix_webhook_project_id ON public.webhook USING btree (project_id);
CREATE UNIQUE INDEX uq_service_port ON public.service USING btree (port) WHERE ((deleted_at IS NULL) AND (failed_at IS NULL));
ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT fk_api_key_project_id FOREIGN KEY (project_id) REFERENCES public.project(id);
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT fk_delivery_webhook_id FOREIGN KEY (webhook_id) REFERENCES public.webhook(id);
ALTER TABLE ONLY public.hold
    ADD CONSTRAINT fk_hold_operation_id FOREIGN KEY (operation_id) REFERENCES public.operation(id);
ALTER TABLE ONLY public.hold
    ADD CONSTRAINT fk_hold_service_id FOREIGN KEY (service_id) REFERENCES public.service(id);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT fk_idempotency_project_id FOREIGN KEY (project_id) REFERENCES public.project(id);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT fk_idempotency_service_id FOREIGN KEY (service_id) REFERENCES public.service(id);
ALTER TABLE ONLY public.login
    ADD CONSTRAINT fk_login_public_key FOREIGN KEY (public_key) REFERENCES public.api_key(public_key);
ALTER TABLE ONLY public.login
    ADD CONSTRAINT fk_login_service_id FOREIGN KEY (service_id) REFERENCES public.service(id);
ALTER TABLE ONLY public.operation_event
    ADD CONSTRAINT fk_operation_event_operation_id FOREIGN KEY (operation_id) REFERENCES public.operation(id);
ALTER TABLE ONLY public.replica_set
    ADD CONSTRAINT fk_replica_set_project_id FOREIGN KEY (project_id) REFERENCES public.project(id);
ALTER TABLE ONLY public.replica_set
    ADD CONSTRAINT fk_replica_set_service_id FOREIGN KEY (service_id) REFERENCES public.service(id);
ALTER TABLE ONLY public.service
    ADD CONSTRAINT fk_service_project_id FOREIGN KEY (project_id) REFERENCES public.project(id);
ALTER TABLE ONLY public.session
    ADD CONSTRAINT fk_session_public_key FOREIGN KEY (public_key) REFERENCES public.api_key(public_key);
ALTER TABLE ONLY public.sign_in_link
    ADD CONSTRAINT fk_sign_in_link_public_key FOREIGN KEY (public_key) REFERENCES public.api_key(public_key);
ALTER TABLE ONLY public.snapshot
    ADD CONSTRAINT fk_snapshot_service_id FOREIGN KEY (service_id) REFERENCES public.service(id);
ALTER TABLE ONLY public.spent_form
    ADD CONSTRAINT fk_spent_form_public_key FOREIGN KEY (public_key) REFERENCES public.api_key(public_key);
