/*
 * A stand-in for TimescaleDB where it is not installed: its settings, and its processes in the same order. A launcher
 * starts a scheduler for each database; a scheduler starts a process for each job that is due. It has no hypertables.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

void _PG_init(void);
PGDLLEXPORT void run_launcher(Datum unused);
PGDLLEXPORT void run_scheduler(Datum database);
PGDLLEXPORT void run_job(Datum job);

#define MOST 128
#define TAKE_DUE "UPDATE _timescaledb_config.bgw_job SET last_start = clock_timestamp() WHERE scheduled" \
	" AND coalesce(last_start + schedule_interval <= clock_timestamp(), true)" \
	" AND EXISTS (SELECT FROM pg_extension WHERE extname = 'timescaledb') RETURNING id"
#define IS_THERE "SELECT FROM pg_class WHERE oid = to_regclass('_timescaledb_config.bgw_job')"

static int	max_background_workers;
static char *telemetry_level;
static bool restoring;
static bool disable_load;

typedef struct
{
	Oid			database;
	BackgroundWorkerHandle *handle;
}			Started;

static Started started[MOST];

static bool
is_running(Oid database)
{
	pid_t		pid;

	for (int i = 0; i < MOST; i++)
		if (started[i].handle && started[i].database == database)
			return GetBackgroundWorkerPid(started[i].handle, &pid) != BGWH_STOPPED;
	return false;
}

static BackgroundWorkerHandle *
start(const char *function, Datum argument, Oid database)
{
	BackgroundWorker worker = {0};
	BackgroundWorkerHandle *handle = NULL;

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = argument;
	memcpy(worker.bgw_extra, &database, sizeof(database));
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "timescaledb");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "%s", function);
	snprintf(worker.bgw_name, BGW_MAXLEN, "timescaledb %s", function);
	snprintf(worker.bgw_type, BGW_MAXLEN, "timescaledb %s", function);
	if (max_background_workers == 0 || !RegisterDynamicBackgroundWorker(&worker, &handle))
		elog(LOG, "failed to start a background worker: %s", function);
	return handle;
}

static void
rest(void)
{
	WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 200, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

static void
begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
end(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

void
run_launcher(Datum unused)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	for (;; rest())
	{
		Oid			found[MOST];
		int			count = 0;
		Relation	databases;
		TableScanDesc scan;
		HeapTuple	tuple;

		begin();
		databases = table_open(DatabaseRelationId, AccessShareLock);
		scan = table_beginscan_catalog(databases, 0, NULL);
		while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL && count < MOST)
		{
			Form_pg_database row = (Form_pg_database) GETSTRUCT(tuple);

			if (row->datallowconn && !row->datistemplate)
				found[count++] = row->oid;
		}
		table_endscan(scan);
		table_close(databases, AccessShareLock);
		end();
		for (int i = 0; i < count; i++)
			if (!is_running(found[i]))
			{
				started[i].database = found[i];
				MemoryContextSwitchTo(TopMemoryContext);
				started[i].handle = start("run_scheduler", ObjectIdGetDatum(found[i]), found[i]);
			}
	}
}

void
run_scheduler(Datum database)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(database), InvalidOid, 0);
	for (;; rest())
	{
		begin();
		SPI_connect();
		if (SPI_execute(IS_THERE, true, 0) == SPI_OK_SELECT && SPI_processed > 0
			&& SPI_execute(TAKE_DUE, false, 0) == SPI_OK_UPDATE_RETURNING)
			for (uint64 i = 0; i < SPI_processed; i++)
			{
				bool		is_null;

				start("run_job", SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &is_null),
					  DatumGetObjectId(database));
			}
		SPI_finish();
		end();
	}
}

void
run_job(Datum job)
{
	char		statement[100];
	Oid			database;

	memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(database));
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	snprintf(statement, sizeof(statement), "SELECT _timescaledb_functions.job_execute(%d)", DatumGetInt32(job));
	begin();
	SPI_connect();
	SPI_execute(statement, false, 0);
	SPI_finish();
	end();
}

void
_PG_init(void)
{
	BackgroundWorker launcher = {0};

	if (!process_shared_preload_libraries_in_progress)
		return;
	DefineCustomIntVariable("timescaledb.max_background_workers", "", NULL, &max_background_workers,
							16, 0, 1000, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("timescaledb.telemetry_level", "", NULL, &telemetry_level,
							   "basic", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("timescaledb.restoring", "", NULL, &restoring, false, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("timescaledb.disable_load", "", NULL, &disable_load, false, PGC_USERSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("timescaledb");
	launcher.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	launcher.bgw_start_time = BgWorkerStart_RecoveryFinished;
	launcher.bgw_restart_time = 1;
	snprintf(launcher.bgw_library_name, BGW_MAXLEN, "timescaledb");
	snprintf(launcher.bgw_function_name, BGW_MAXLEN, "run_launcher");
	snprintf(launcher.bgw_name, BGW_MAXLEN, "timescaledb run_launcher");
	snprintf(launcher.bgw_type, BGW_MAXLEN, "timescaledb run_launcher");
	RegisterBackgroundWorker(&launcher);
}
