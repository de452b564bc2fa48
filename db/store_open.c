/* Opening: strangers' files are looked at before anything may change them.
 * One rule: the first look reads the 100-byte header through SQLite's own file
 * object: no lock is taken, no journal touched, and no second descriptor closed
 * (which would drop this process's locks on the file).
 *
 * R1 Not a database, not ours, a newer schema, an older one for writing:
 *    refused, unchanged.
 * R2 A missing or empty file is created by WRITE, not found by the others.
 * R3 A hot journal is rolled back, also for READ. */
#include <config.h>

#include "db/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/store_internal.h"
#include "db/vtab.h"

enum { HEADER_BYTES = 100, USER_VERSION_AT = 60, APPLICATION_ID_AT = 68 };

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

static enum tw_status too_old(const char *path, int64_t version,
                              struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_MISMATCH,
                        "%s: schema %lld is older than this program's %d: "
                        "twellscope fsck --migrate --db %s",
                        path, (long long)version, TWP_SCHEMA_VERSION, path);
}

static enum tw_status check_identity(const struct tw_store *store, uint32_t id,
                                     int64_t version, struct tw_error *err)
{
    const char *path = store->path;
    if (id != TWP_APPLICATION_ID)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: another program's database", path);
    if (version > TWP_SCHEMA_VERSION)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: schema %lld is newer than this program's %d",
                            path, (long long)version, TWP_SCHEMA_VERSION);
    if (version < 1)
        return tw_error_set(err, TW_ERR_MISMATCH, "%s: schema %lld is unknown",
                            path, (long long)version);
    if (version < TWP_SCHEMA_VERSION && (store->mode == TW_STORE_WRITE ||
                                         store->mode == TW_STORE_CHANGE))
        return too_old(path, version, err);
    return TW_OK;
}

enum tw_status tw_store_check_schema(const struct tw_store *store,
                                     struct tw_error *err)
{
    return store->version < TWP_SCHEMA_VERSION
               ? too_old(store->path, store->version, err)
               : TW_OK;
}

int tw_store_schema(const struct tw_store *store)
{
    return store->version;
}

/* R1, on the file's first bytes. */
static enum tw_status check_header(const struct tw_store *store,
                                   struct tw_error *err)
{
    sqlite3 *db = store->db;
    const char *path = store->path;
    unsigned char head[HEADER_BYTES] = {0};
    sqlite3_file *file = NULL;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (!file || !file->pMethods)
        return tw_error_set(err, TW_ERR_DB, "%s: cannot open", path);
    int code = file->pMethods->xRead(file, head, HEADER_BYTES, 0);
    if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ)
        return tw_error_set(err, TW_ERR_DB, "%s: cannot read", path);
    if (memcmp(head, "SQLite format 3", 16) != 0)
        return tw_error_set(err, TW_ERR_DB, "%s: file is not a database", path);
    return check_identity(store, big_endian(head + APPLICATION_ID_AT),
                          (int32_t)big_endian(head + USER_VERSION_AT), err);
}

static enum tw_status open_flags(struct tw_store *store, int flags,
                                 struct tw_error *err)
{
    int code = sqlite3_open_v2(store->path, &store->db, flags, NULL);
    if (code != SQLITE_OK)
        return twp_fail(store->db, store->path, code, err);
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, TWP_BUSY_MS);
    return TW_OK;
}

static void close_again(struct tw_store *store)
{
    sqlite3_close(store->db);
    store->db = NULL;
}

/* Files come from strangers: their schema may not run functions with side
 * effects, their triggers don't run, cells are checked. */
static enum tw_status harden(struct tw_store *store, struct tw_error *err)
{
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_limit(store->db, SQLITE_LIMIT_ATTACHED, 0);
    if (twp_vtab_register(store->db) != SQLITE_OK)
        return twp_fail(store->db, store->path, SQLITE_NOMEM, err);
    /* A writer appends: a large cache would only make a long run grow. */
    return twp_exec(store,
                    store->mode == TW_STORE_READ
                        ? "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY;"
                          "PRAGMA cache_size=-32768;"
                        : "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY;"
                          "PRAGMA cache_size=-8192;",
                    err);
}

static int64_t pragma(struct tw_store *store, const char *sql, int *code)
{
    sqlite3_stmt *stmt = NULL;
    int64_t value = 0;
    *code = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL);
    if (*code == SQLITE_OK) {
        *code = sqlite3_step(stmt);
        if (*code == SQLITE_ROW)
            value = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    if (*code == SQLITE_ROW || *code == SQLITE_DONE)
        *code = SQLITE_OK;
    return value;
}

/* The file's first use: takes the lock and meets a hot journal. */
static int first_read(struct tw_store *store)
{
    int code;
    pragma(store, "SELECT count(*) FROM sqlite_schema", &code);
    return code;
}

/* R1 again, through the locks and after a roll back. */
static enum tw_status check_opened(struct tw_store *store,
                                   struct tw_error *err)
{
    int code = first_read(store);
    int64_t id = 0, version = 0;
    if (code == SQLITE_OK)
        id = pragma(store, "PRAGMA application_id", &code);
    if (code == SQLITE_OK)
        version = pragma(store, "PRAGMA user_version", &code);
    if (code != SQLITE_OK)
        return twp_fail(store->db, store->path, code, err);
    store->version = (int)version;
    return check_identity(store, (uint32_t)id, version, err);
}

/* A file whose maker was killed in its first commit: R3 empties it. */
static bool is_rolled_back_to_nothing(struct tw_store *store)
{
    int code = first_read(store);
    return code == SQLITE_OK &&
           pragma(store, "PRAGMA page_count", &code) == 0 && code == SQLITE_OK;
}

/* R3: a reader may not roll back, so a writer does, for a moment. */
static enum tw_status roll_back_journal(struct tw_store *store,
                                        struct tw_error *err)
{
    close_again(store);
    enum tw_status status = open_flags(store, SQLITE_OPEN_READWRITE, err);
    if (status == TW_OK) {
        int code = first_read(store);
        if (code != SQLITE_OK)
            status = twp_fail(store->db, store->path, code, err);
    }
    bool is_empty = status == TW_OK && is_rolled_back_to_nothing(store);
    close_again(store);
    if (is_empty)
        return tw_error_set(err, TW_ERR_NOT_FOUND, "%s: an empty file",
                            store->path);
    return status == TW_OK ? open_flags(store, SQLITE_OPEN_READONLY, err)
                           : status;
}

static enum tw_status open_read(struct tw_store *store, struct tw_error *err)
{
    enum tw_status status = open_flags(store, SQLITE_OPEN_READONLY, err);
    if (status == TW_OK)
        status = check_header(store, err);
    if (status == TW_OK && first_read(store) == SQLITE_READONLY_ROLLBACK)
        status = roll_back_journal(store, err);
    if (status == TW_OK)
        status = harden(store, err);
    return status == TW_OK ? check_opened(store, err) : status;
}

/* Another program may have made the schema meanwhile: looked at again inside
 * the transaction. */
static enum tw_status make_schema(struct tw_store *store, struct tw_error *err)
{
    int code;
    enum tw_status status = tw_store_begin(store, err);
    if (status != TW_OK)
        return status;
    bool is_empty =
        pragma(store, "SELECT count(*) FROM sqlite_schema", &code) == 0 &&
        code == SQLITE_OK;
    if (is_empty)
        status = twp_exec(store, twp_schema_sql, err);
    if (status == TW_OK)
        status = tw_store_commit(store, err);
    if (status != TW_OK)
        tw_store_rollback(store);
    return status;
}

static enum tw_status open_write(struct tw_store *store, bool is_new,
                                 struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (!is_new) {
        status = open_flags(store, SQLITE_OPEN_READONLY, err);
        if (status == TW_OK)
            status = check_header(store, err);
        close_again(store);
    }
    if (status == TW_OK)
        status = open_flags(
            store, SQLITE_OPEN_READWRITE | (is_new ? SQLITE_OPEN_CREATE : 0),
            err);
    if (status == TW_OK && sqlite3_db_readonly(store->db, "main") == 1)
        status = tw_error_set(err, TW_ERR_FULL, "%s: read-only", store->path);
    if (status == TW_OK)
        status = harden(store, err);
    if (status == TW_OK)
        status = twp_exec(store, "PRAGMA journal_mode=DELETE", err);
    if (status == TW_OK && store->mode == TW_STORE_WRITE &&
        (is_new || is_rolled_back_to_nothing(store)))
        status = make_schema(store, err);
    return status == TW_OK ? check_opened(store, err) : status;
}

/* *is_new: no file or an empty one (R2). */
static enum tw_status look(const char *path, enum tw_store_mode mode,
                           bool *is_new, bool *is_missing,
                           struct tw_error *err)
{
    struct stat info;
    *is_new = *is_missing = false;
    if (stat(path, &info) != 0) {
        *is_new = *is_missing = errno == ENOENT;
        return *is_missing && mode == TW_STORE_WRITE
                   ? TW_OK
                   : tw_error_errno(err, errno, "%s", path);
    }
    if (!S_ISREG(info.st_mode))
        return tw_error_set(err, TW_ERR_DB, "%s: not a regular file", path);
    *is_new = info.st_size == 0;
    if (*is_new && mode != TW_STORE_WRITE)
        return tw_error_set(err, TW_ERR_NOT_FOUND, "%s: an empty file", path);
    return TW_OK;
}

static void remove_if_empty(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && info.st_size == 0)
        unlink(path);
}

enum tw_status tw_store_open(const char *path, enum tw_store_mode mode,
                             struct tw_store **out, struct tw_error *err)
{
    bool is_new, is_missing;
    enum tw_status status = look(path, mode, &is_new, &is_missing, err);
    if (status != TW_OK)
        return status;
    struct tw_store *store = tw_calloc(1, sizeof *store);
    if (!store || !(store->path = tw_strdup(path))) {
        tw_free(store);
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    }
    store->mode = mode;
    status = mode == TW_STORE_READ ? open_read(store, err)
                                   : open_write(store, is_new, err);
    if (status != TW_OK) {
        tw_store_close(store);
        if (is_missing)
            remove_if_empty(path);
        return status;
    }
    *out = store;
    return TW_OK;
}
