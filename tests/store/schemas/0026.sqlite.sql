BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0026');
CREATE TABLE api_key (
	public_key TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	secret_digest TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	revoked_at BIGINT, role TEXT DEFAULT 'ADMIN' NOT NULL, expires_at BIGINT, used_at BIGINT, previous_until BIGINT, previous_digest TEXT, made_by TEXT, limits JSON, 
	CONSTRAINT pk_api_key PRIMARY KEY (public_key), 
	CONSTRAINT fk_api_key_project_id FOREIGN KEY(project_id) REFERENCES project (id)
);
INSERT INTO "api_key" VALUES('api_key public_key full é '' " \','project id full é '' " \','api_key name full é '' " \','api_key secret_digest full é '' " \',1774749599999999,1774749599999999,'api_key role full é '' " \',1774749599999999,1774749599999999,1774749599999999,'api_key previous_digest full é '' " \','api_key made_by full é '' " \','{"a":[1,null,"ü"]}');
INSERT INTO "api_key" VALUES('api_key public_key sparse é '' " \','project id sparse é '' " \','api_key name sparse é '' " \','api_key secret_digest sparse é '' " \',1774749599999999,NULL,'api_key role sparse é '' " \',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE audit_entry (
	sequence BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	project_id TEXT, 
	actor JSON NOT NULL, 
	via TEXT NOT NULL, 
	address TEXT, 
	verb TEXT NOT NULL, 
	subject TEXT, 
	fields JSON, 
	outcome TEXT NOT NULL, 
	code TEXT, 
	operation_id TEXT, 
	request_id TEXT, 
	link TEXT NOT NULL, 
	CONSTRAINT pk_audit_entry PRIMARY KEY (sequence)
);
INSERT INTO "audit_entry" VALUES(1,1774749599999999,'audit_entry project_id full é '' " \','{"a":[1,null,"ü"]}','audit_entry via full é '' " \','audit_entry address full é '' " \','audit_entry verb full é '' " \','audit_entry subject full é '' " \','{"a":[1,null,"ü"]}','audit_entry outcome full é '' " \','audit_entry code full é '' " \','audit_entry operation_id full é '' " \','audit_entry request_id full é '' " \','audit_entry link full é '' " \');
INSERT INTO "audit_entry" VALUES(2,1774749599999999,NULL,'{"a":[1,null,"ü"]}','audit_entry via sparse é '' " \',NULL,'audit_entry verb sparse é '' " \',NULL,NULL,'audit_entry outcome sparse é '' " \',NULL,NULL,NULL,'audit_entry link sparse é '' " \');
CREATE TABLE delivery (
	id TEXT NOT NULL, 
	webhook_id TEXT NOT NULL, 
	event_sequence BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	next_at BIGINT, 
	response_status INTEGER, 
	error TEXT, 
	created_at BIGINT NOT NULL, 
	finished_at BIGINT, 
	CONSTRAINT pk_delivery PRIMARY KEY (id), 
	CONSTRAINT fk_delivery_webhook_id FOREIGN KEY(webhook_id) REFERENCES webhook (id)
);
INSERT INTO "delivery" VALUES('delivery id full é '' " \','webhook id full é '' " \',1099511627776,'RUNNING',7,1774749599999999,7,'delivery error full é '' " \',1774749599999999,1774749599999999);
INSERT INTO "delivery" VALUES('delivery id sparse é '' " \','webhook id sparse é '' " \',1099511627776,'RUNNING',8,NULL,NULL,NULL,1774749599999999,NULL);
CREATE TABLE duty (
	name TEXT NOT NULL, 
	next_at FLOAT NOT NULL, 
	CONSTRAINT pk_duty PRIMARY KEY (name)
);
INSERT INTO "duty" VALUES('duty name full é '' " \',1.5);
INSERT INTO "duty" VALUES('duty name sparse é '' " \',1.5);
CREATE TABLE event (
	sequence BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	project_id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	service_id TEXT, 
	data JSON, 
	CONSTRAINT pk_event PRIMARY KEY (sequence)
);
INSERT INTO "event" VALUES(1,1774749599999999,'event project_id full é '' " \','event type full é '' " \','event service_id full é '' " \','{"a":[1,null,"ü"]}');
INSERT INTO "event" VALUES(2,1774749599999999,'event project_id sparse é '' " \','event type sparse é '' " \',NULL,NULL);
CREATE TABLE hold (
	service_id TEXT NOT NULL, 
	operation_id TEXT NOT NULL, 
	CONSTRAINT pk_hold PRIMARY KEY (service_id, operation_id), 
	CONSTRAINT fk_hold_service_id FOREIGN KEY(service_id) REFERENCES service (id), 
	CONSTRAINT fk_hold_operation_id FOREIGN KEY(operation_id) REFERENCES operation (id)
);
INSERT INTO "hold" VALUES('service id full é '' " \','operation id full é '' " \');
INSERT INTO "hold" VALUES('service id sparse é '' " \','operation id sparse é '' " \');
CREATE TABLE idempotency (
	project_id TEXT NOT NULL, 
	key_digest TEXT NOT NULL, 
	body_digest TEXT NOT NULL, 
	service_id TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency PRIMARY KEY (project_id, key_digest), 
	CONSTRAINT fk_idempotency_project_id FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_idempotency_service_id FOREIGN KEY(service_id) REFERENCES service (id)
);
INSERT INTO "idempotency" VALUES('project id full é '' " \','idempotency key_digest full é '' " \','idempotency body_digest full é '' " \','service id full é '' " \',1774749599999999);
INSERT INTO "idempotency" VALUES('project id sparse é '' " \','idempotency key_digest sparse é '' " \','idempotency body_digest sparse é '' " \','service id sparse é '' " \',1774749599999999);
CREATE TABLE installation (
	number INTEGER NOT NULL, 
	digest TEXT NOT NULL, 
	CONSTRAINT pk_installation PRIMARY KEY (number)
);
INSERT INTO "installation" VALUES(1,'installation digest full é '' " \');
INSERT INTO "installation" VALUES(2,'installation digest sparse é '' " \');
CREATE TABLE last_usage (
	subject TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	cpu_millis INTEGER, 
	memory_mb INTEGER, 
	storage_mb INTEGER, own_bytes BIGINT, own_at BIGINT, 
	CONSTRAINT pk_last_usage PRIMARY KEY (subject)
);
INSERT INTO "last_usage" VALUES('last_usage subject full é '' " \',1774749599999999,7,7,7,1099511627776,1774749599999999);
INSERT INTO "last_usage" VALUES('last_usage subject sparse é '' " \',1774749599999999,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE login (
	role TEXT NOT NULL, 
	service_id TEXT NOT NULL, 
	public_key TEXT NOT NULL, 
	read_only BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT pk_login PRIMARY KEY (role), 
	CONSTRAINT fk_login_service_id FOREIGN KEY(service_id) REFERENCES service (id), 
	CONSTRAINT fk_login_public_key FOREIGN KEY(public_key) REFERENCES api_key (public_key)
);
INSERT INTO "login" VALUES('login role full é '' " \','service id full é '' " \','api_key public_key full é '' " \',0,1774749599999999,1774749599999999);
INSERT INTO "login" VALUES('login role sparse é '' " \','service id sparse é '' " \','api_key public_key sparse é '' " \',0,1774749599999999,1774749599999999);
CREATE TABLE metric_sample (
	subject TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	measured JSON NOT NULL, 
	CONSTRAINT pk_metric_sample PRIMARY KEY (subject, at)
);
INSERT INTO "metric_sample" VALUES('metric_sample subject full é '' " \',1774749599999999,'{"a":[1,null,"ü"]}');
INSERT INTO "metric_sample" VALUES('metric_sample subject sparse é '' " \',1774749599999999,'{"a":[1,null,"ü"]}');
CREATE TABLE operation (
	id TEXT NOT NULL, 
	procedure TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	step TEXT NOT NULL, 
	status TEXT NOT NULL, 
	state JSON NOT NULL, 
	done_steps JSON NOT NULL, 
	attempt INTEGER NOT NULL, 
	started BOOLEAN NOT NULL, 
	cancelled BOOLEAN NOT NULL, 
	run_at FLOAT NOT NULL, 
	fence INTEGER NOT NULL, 
	worker TEXT, 
	progress TEXT NOT NULL, 
	step_started_at FLOAT NOT NULL, 
	error TEXT, 
	created_at BIGINT NOT NULL, 
	finished_at BIGINT, run_set_at FLOAT DEFAULT '0' NOT NULL, idle_seconds FLOAT DEFAULT '0' NOT NULL, actor JSON, 
	CONSTRAINT pk_operation PRIMARY KEY (id)
);
INSERT INTO "operation" VALUES('operation id full é '' " \','operation procedure full é '' " \','operation subject full é '' " \','operation step full é '' " \','RUNNING','{"a":[1,null,"ü"]}','{"a":[1,null,"ü"]}',7,0,0,1.5,7,'operation worker full é '' " \','operation progress full é '' " \',1.5,'operation error full é '' " \',1774749599999999,1774749599999999,1.5,1.5,'{"a":[1,null,"ü"]}');
INSERT INTO "operation" VALUES('operation id sparse é '' " \','operation procedure sparse é '' " \','operation subject sparse é '' " \','operation step sparse é '' " \','RUNNING','{"a":[1,null,"ü"]}','{"a":[1,null,"ü"]}',8,0,0,1.5,8,NULL,'operation progress sparse é '' " \',1.5,NULL,1774749599999999,NULL,1.5,1.5,NULL);
CREATE TABLE operation_event (
	id INTEGER NOT NULL, 
	operation_id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	outcome TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	seconds FLOAT NOT NULL, 
	error TEXT, 
	CONSTRAINT pk_operation_event PRIMARY KEY (id), 
	CONSTRAINT fk_operation_event_operation_id FOREIGN KEY(operation_id) REFERENCES operation (id)
);
INSERT INTO "operation_event" VALUES(1,'operation id full é '' " \','operation_event step full é '' " \','operation_event outcome full é '' " \',1774749599999999,1.5,'operation_event error full é '' " \');
INSERT INTO "operation_event" VALUES(2,'operation id sparse é '' " \','operation_event step sparse é '' " \','operation_event outcome sparse é '' " \',1774749599999999,1.5,NULL);
CREATE TABLE project (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at BIGINT NOT NULL, limits JSON, 
	CONSTRAINT pk_project PRIMARY KEY (id)
);
INSERT INTO "project" VALUES('project id full é '' " \','project name full é '' " \',1774749599999999,'{"a":[1,null,"ü"]}');
INSERT INTO "project" VALUES('project id sparse é '' " \','project name sparse é '' " \',1774749599999999,NULL);
CREATE TABLE replica_set (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	service_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	environment TEXT NOT NULL, 
	cpu_millis INTEGER NOT NULL, 
	memory_gbs INTEGER NOT NULL, 
	nodes JSON NOT NULL, 
	host TEXT NOT NULL, 
	port INTEGER NOT NULL, 
	pooler_port INTEGER, 
	created_at BIGINT NOT NULL, 
	ready_at BIGINT, 
	failed_at BIGINT, 
	failure TEXT, 
	deleted_at BIGINT, 
	down_reason TEXT, 
	operation_id TEXT, 
	CONSTRAINT pk_replica_set PRIMARY KEY (id), 
	CONSTRAINT fk_replica_set_project_id FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_replica_set_service_id FOREIGN KEY(service_id) REFERENCES service (id)
);
INSERT INTO "replica_set" VALUES('replica_set id full é '' " \','project id full é '' " \','service id full é '' " \','replica_set name full é '' " \','PROD',7,7,'[["node123456",5433]]','replica_set host full é '' " \',7,7,1774749599999999,1774749599999999,1774749599999999,'replica_set failure full é '' " \',1774749599999999,'replica_set down_reason full é '' " \','replica_set operation_id full é '' " \');
INSERT INTO "replica_set" VALUES('replica_set id sparse é '' " \','project id sparse é '' " \','service id sparse é '' " \','replica_set name sparse é '' " \','PROD',8,8,'[["node123456",5433]]','replica_set host sparse é '' " \',8,NULL,1774749599999999,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE service (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	region_code TEXT NOT NULL, 
	service_type TEXT NOT NULL, 
	environment TEXT NOT NULL, 
	cpu_millis INTEGER, 
	memory_gbs INTEGER, 
	volume_type TEXT NOT NULL, 
	host TEXT NOT NULL, 
	port INTEGER NOT NULL, 
	pooler_port INTEGER, 
	pg_major INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	verifier TEXT NOT NULL, 
	paused BOOLEAN NOT NULL, 
	ready_at BIGINT, 
	failed_at BIGINT, 
	failure TEXT, 
	deleted_at BIGINT, 
	down_reason TEXT, 
	last_verified_at BIGINT, 
	drilled_at BIGINT, 
	drill_failure TEXT, 
	archive_delay TEXT, 
	storage_warning TEXT, 
	parent_project_id TEXT, 
	parent_service_id TEXT, 
	parent_name TEXT, 
	fork_strategy TEXT, 
	fork_target_time TEXT, 
	origin_snapshot_id TEXT, 
	data_time BIGINT, 
	settings JSON NOT NULL, 
	report JSON, 
	operation_id TEXT, archived_until BIGINT, archive_base_at BIGINT, archive_problem TEXT, archive_from BIGINT, archive_verified_at BIGINT, archive_drilled_at BIGINT, archive_drill_failure TEXT, archive_gaps JSON, upstream JSON, following JSON, archived_as TEXT, protected BOOLEAN DEFAULT 0 NOT NULL, labels JSON, life_span JSON, sleep_after_seconds INTEGER, server_port INTEGER, asleep BOOLEAN DEFAULT 0 NOT NULL, made_by TEXT, unclaimed BOOLEAN DEFAULT 0 NOT NULL, half_promoted BOOLEAN DEFAULT 0 NOT NULL, recovered BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_service PRIMARY KEY (id), 
	CONSTRAINT fk_service_project_id FOREIGN KEY(project_id) REFERENCES project (id)
);
INSERT INTO "service" VALUES('service id full é '' " \','project id full é '' " \','service name full é '' " \','service region_code full é '' " \','VECTOR','PROD',7,7,'service volume_type full é '' " \','service host full é '' " \',7,7,7,1774749599999999,'service verifier full é '' " \',0,1774749599999999,NULL,'service failure full é '' " \',NULL,'service down_reason full é '' " \',1774749599999999,1774749599999999,'service drill_failure full é '' " \','service archive_delay full é '' " \','service storage_warning full é '' " \','service parent_project_id full é '' " \','service parent_service_id full é '' " \','service parent_name full é '' " \','PITR','service fork_target_time full é '' " \','service origin_snapshot_id full é '' " \',1774749599999999,'{"a":[1,null,"ü"]}','{"a":[1,null,"ü"]}',NULL,1774749599999999,1774749599999999,'service archive_problem full é '' " \',1774749599999999,1774749599999999,1774749599999999,'service archive_drill_failure full é '' " \','[{"begins_at":"2026-03-29T01:59:59.999999+00:00","ends_at":null,"reason":"WAL was lost"}]','{"method":"PHYSICAL","host":"db.example","port":5432,"database":"shop","user":"app","sslmode":"require","system_identifier":"7","bootstrap_role":"postgres"}','{"observed_at":"2026-03-29T01:59:59Z"}','service archived_as full é '' " \',0,'{"a":[1,null,"ü"]}','{"a":[1,null,"ü"]}',7,7,0,'service made_by full é '' " \',0,0,0);
INSERT INTO "service" VALUES('service id sparse é '' " \','project id sparse é '' " \','service name sparse é '' " \','service region_code sparse é '' " \','VECTOR','PROD',NULL,NULL,'service volume_type sparse é '' " \','service host sparse é '' " \',9,NULL,8,1774749599999999,'service verifier sparse é '' " \',0,NULL,NULL,NULL,1774749599999999,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"a":[1,null,"ü"]}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,0,NULL,0,0,0);
CREATE TABLE session (
	digest TEXT NOT NULL, 
	public_key TEXT NOT NULL, 
	expires_at BIGINT NOT NULL, secret_digest TEXT, 
	CONSTRAINT pk_session PRIMARY KEY (digest), 
	CONSTRAINT fk_session_public_key FOREIGN KEY(public_key) REFERENCES api_key (public_key)
);
INSERT INTO "session" VALUES('session digest full é '' " \','api_key public_key full é '' " \',1774749599999999,'session secret_digest full é '' " \');
INSERT INTO "session" VALUES('session digest sparse é '' " \','api_key public_key sparse é '' " \',1774749599999999,NULL);
CREATE TABLE sign_in_link (
	digest TEXT NOT NULL, 
	public_key TEXT NOT NULL, 
	secret_digest TEXT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT pk_sign_in_link PRIMARY KEY (digest), 
	CONSTRAINT fk_sign_in_link_public_key FOREIGN KEY(public_key) REFERENCES api_key (public_key)
);
INSERT INTO "sign_in_link" VALUES('sign_in_link digest full é '' " \','api_key public_key full é '' " \','sign_in_link secret_digest full é '' " \',1774749599999999);
INSERT INTO "sign_in_link" VALUES('sign_in_link digest sparse é '' " \','api_key public_key sparse é '' " \','sign_in_link secret_digest sparse é '' " \',1774749599999999);
CREATE TABLE snapshot (
	id TEXT NOT NULL, 
	service_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT, 
	taken_at BIGINT NOT NULL, 
	start_lsn TEXT NOT NULL, 
	end_lsn TEXT NOT NULL, 
	timeline INTEGER NOT NULL, 
	next_xid BIGINT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	CONSTRAINT pk_snapshot PRIMARY KEY (id), 
	CONSTRAINT fk_snapshot_service_id FOREIGN KEY(service_id) REFERENCES service (id)
);
INSERT INTO "snapshot" VALUES('snapshot id full é '' " \','service id full é '' " \','MANUAL','snapshot name full é '' " \',1774749599999999,'snapshot start_lsn full é '' " \','snapshot end_lsn full é '' " \',7,1099511627776,1099511627776);
INSERT INTO "snapshot" VALUES('snapshot id sparse é '' " \','service id sparse é '' " \','MANUAL',NULL,1774749599999999,'snapshot start_lsn sparse é '' " \','snapshot end_lsn sparse é '' " \',8,1099511627776,1099511627776);
CREATE TABLE spent_form (
	public_key TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT pk_spent_form PRIMARY KEY (public_key, digest), 
	CONSTRAINT fk_spent_form_public_key FOREIGN KEY(public_key) REFERENCES api_key (public_key)
);
INSERT INTO "spent_form" VALUES('api_key public_key full é '' " \','spent_form digest full é '' " \',1774749599999999);
INSERT INTO "spent_form" VALUES('api_key public_key sparse é '' " \','spent_form digest sparse é '' " \',1774749599999999);
CREATE TABLE webhook (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	url TEXT NOT NULL, 
	description TEXT NOT NULL, 
	types JSON NOT NULL, 
	enabled BOOLEAN NOT NULL, 
	disabled_reason TEXT, 
	sealed_secret TEXT NOT NULL, 
	sealed_previous TEXT, 
	previous_until BIGINT, 
	failing_since BIGINT, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_webhook PRIMARY KEY (id)
);
INSERT INTO "webhook" VALUES('webhook id full é '' " \','webhook project_id full é '' " \','webhook url full é '' " \','webhook description full é '' " \','{"a":[1,null,"ü"]}',0,'webhook disabled_reason full é '' " \','webhook sealed_secret full é '' " \','webhook sealed_previous full é '' " \',1774749599999999,1774749599999999,1774749599999999);
INSERT INTO "webhook" VALUES('webhook id sparse é '' " \','webhook project_id sparse é '' " \','webhook url sparse é '' " \','webhook description sparse é '' " \','{"a":[1,null,"ü"]}',0,NULL,'webhook sealed_secret sparse é '' " \',NULL,NULL,NULL,1774749599999999);
CREATE INDEX ix_audit_entry_listing ON audit_entry (project_id, sequence);
CREATE INDEX ix_delivery_due ON delivery (next_at) WHERE status = 'PENDING';
CREATE INDEX ix_delivery_event_sequence ON delivery (event_sequence);
CREATE INDEX ix_delivery_listing ON delivery (webhook_id, created_at);
CREATE INDEX ix_event_at ON event (at);
CREATE INDEX ix_event_listing ON event (project_id, sequence);
CREATE INDEX ix_hold_operation_id ON hold (operation_id);
CREATE INDEX ix_idempotency_created_at ON idempotency (created_at);
CREATE UNIQUE INDEX uq_service_port ON service (port) WHERE deleted_at IS NULL AND failed_at IS NULL;
CREATE INDEX ix_idempotency_service_id ON idempotency (service_id);
CREATE INDEX ix_login_service_id ON login (service_id);
CREATE INDEX ix_operation_by_age ON operation (subject, procedure, created_at);
CREATE INDEX ix_operation_by_status ON operation (subject, procedure, status);
CREATE INDEX ix_operation_due ON operation (run_at) WHERE status IN ('RUNNING', 'UNDOING');
CREATE INDEX ix_operation_event_operation_id ON operation_event (operation_id);
CREATE INDEX ix_operation_listing ON operation (created_at, id);
CREATE INDEX ix_operation_over ON operation (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_replica_set_project_id ON replica_set (project_id);
CREATE INDEX ix_replica_set_service_id ON replica_set (service_id);
CREATE INDEX ix_service_child ON service (parent_service_id);
CREATE INDEX ix_service_in_archive ON service (id, name) WHERE deleted_at IS NOT NULL AND (archive_base_at IS NOT NULL OR recovered = 1);
CREATE INDEX ix_service_listing ON service (project_id, created_at, id);
CREATE INDEX ix_service_made_by ON service (made_by) WHERE deleted_at IS NULL AND failed_at IS NULL;
CREATE INDEX ix_service_parent ON service (parent_service_id, ready_at) WHERE ready_at IS NOT NULL AND fork_strategy = 'NOW';
CREATE INDEX ix_service_present ON service (project_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX ix_session_expires_at ON session (expires_at);
CREATE INDEX ix_sign_in_link_expires_at ON sign_in_link (expires_at);
CREATE INDEX ix_snapshot_service_id ON snapshot (service_id);
CREATE INDEX ix_spent_form_expires_at ON spent_form (expires_at);
CREATE INDEX ix_webhook_project_id ON webhook (project_id);
COMMIT;
