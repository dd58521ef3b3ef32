/*
 * Keep sessions read-only that begin with tsdb_admin.read_only_connection or tsdb_admin.read_only_role.
 *
 * PostgreSQL loads this from session_preload_libraries at the end of a session's start, when all settings of the
 * client, the role and the database are known. In other sessions it does nothing. In these, default_transaction_read_only
 * is on, and neither it nor transaction_read_only can be set to off, so that each transaction is PostgreSQL's own
 * read-only transaction until the session ends.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/objectaccess.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "This module knows PostgreSQL 15 to 18."
#endif

PG_MODULE_MAGIC;

void _PG_init(void);

static GucBoolCheckHook check_transaction;
#if PG_VERSION_NUM < 160000
static object_access_hook_type next_access_hook;
#endif

static bool
is_on(const char *name)
{
	const char *text = GetConfigOption(name, true, false);
	bool on;

	return text != NULL && *text != '\0' && (!parse_bool(text, &on) || on);
}

/* Other sources than the session's own statements are files that are read again, and values that are only tried. */
static bool
refuse_off(bool *newval, void **extra, GucSource source)
{
	if (*newval || source != PGC_S_SESSION)
		return true;
	GUC_check_errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION);
	GUC_check_errmsg("cannot set transaction read-write mode in a read-only session");
	return false;
}

static bool
refuse_transaction_off(bool *newval, void **extra, GucSource source)
{
	return refuse_off(newval, extra, source) && check_transaction(newval, extra, source);
}

static struct config_bool *
setting(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return (struct config_bool *) find_option(name, false, false, FATAL);
#else
	struct config_generic **all = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
		if (pg_strcasecmp(all[i]->name, name) == 0)
			return (struct config_bool *) all[i];
	elog(FATAL, "unrecognized configuration parameter \"%s\"", name);
#endif
}

/* What the client sends wins over its role's mark: who sends anything is taken for marked. */
static bool
is_marked(void)
{
	const char *name = "tsdb_admin.read_only_role";

	return GetConfigOption(name, true, false) != NULL && (is_on(name) || setting(name)->gen.source == PGC_S_CLIENT);
}

#if PG_VERSION_NUM < 160000
/* Before PostgreSQL 16 these functions do not look whether the transaction is read-only. */
static void
refuse_large_objects(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (next_access_hook)
		next_access_hook(access, classId, objectId, subId, arg);
	if (access != OAT_FUNCTION_EXECUTE)
		return;
	switch (objectId)
	{
		case F_LO_CREAT:
		case F_LO_CREATE:
		case F_LO_FROM_BYTEA:
		case F_LO_IMPORT_TEXT:
		case F_LO_IMPORT_TEXT_OID:
		case F_LO_PUT:
		case F_LO_TRUNCATE:
		case F_LO_TRUNCATE64:
		case F_LO_UNLINK:
		case F_LOWRITE:
			PreventCommandIfReadOnly("a function that writes large objects");
	}
}
#endif

void
_PG_init(void)
{
	struct config_bool *transaction;

	if (IsParallelWorker())
		return;
	if (!is_on("tsdb_admin.read_only_connection") && !is_marked())
		return;
	SetConfigOption("default_transaction_read_only", "on", PGC_SUSET, PGC_S_OVERRIDE);
	setting("default_transaction_read_only")->check_hook = refuse_off;
	transaction = setting("transaction_read_only");
	transaction->reset_val = true;	/* PostgreSQL 15 lets it be RESET */
	check_transaction = transaction->check_hook;
	transaction->check_hook = refuse_transaction_off;
#if PG_VERSION_NUM < 160000
	next_access_hook = object_access_hook;
	object_access_hook = refuse_large_objects;
#endif
}
