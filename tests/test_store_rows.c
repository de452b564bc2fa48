/* Claims about db/store's rows of counts: one by one or many at once they come
 * back as they were put, in the order of their keys; of a failed call nothing
 * stays. */
#include <config.h>

#include "db/store_internal.h"
#include "store_fixture.h"

struct seen {
    int64_t rows, last[16];
    int stop_at;
};

static enum tw_status see(void *arg, const int64_t *values,
                          struct tw_error *err)
{
    struct seen *seen = arg;
    memcpy(seen->last, values, sizeof seen->last);
    if (++seen->rows == seen->stop_at)
        return tw_error_set(err, TW_ERR_OVERFLOW, "stop");
    return TW_OK;
}

/* Each table, with NULL where the schema allows it. */
START_TEST(rows_come_back_as_put)
{
    enum tw_table table = (enum tw_table)_i;
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    int columns = tw_store_columns(table);
    struct seen seen = {0};
    int64_t values[16] = {1};
    for (int c = 1; c < columns; c++)
        values[c] = INT64_MAX - c;
    if (table == TW_TABLE_NEURON) {
        double largest = 0.1;
        memcpy(&values[columns - 1], &largest, sizeof largest);
        values[7] = values[13] = TW_NULL;
    }
    TW_OK_OR_FAIL(tw_store_begin(store, &err), err);
    TW_OK_OR_FAIL(tw_store_put(store, table, values, &err), err);
    TW_OK_OR_FAIL(tw_store_put(store, table, values, &err), err);
    values[0] = 2;
    TW_OK_OR_FAIL(tw_store_put(store, table, values, &err), err);
    values[0] = 1;
    TW_OK_OR_FAIL(tw_store_commit(store, &err), err);
    TW_OK_OR_FAIL(tw_store_scan(store, table, 1, see, &seen, &err), err);
    ck_assert_int_eq(seen.rows, 1);
    ck_assert_mem_eq(seen.last, values, (size_t)columns * sizeof *values);
    seen = (struct seen){.stop_at = 1};
    TW_FAILS_WITH(tw_store_scan(store, table, 1, see, &seen, &err),
                  TW_ERR_OVERFLOW, "stop", err);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_store_run_clear(store, 1, &err), err);
    seen = (struct seen){0};
    TW_OK_OR_FAIL(tw_store_scan(store, table, 1, see, &seen, &err), err);
    ck_assert_int_eq(seen.rows, 0);
    TW_OK_OR_FAIL(tw_store_scan(store, table, 2, see, &seen, &err), err);
    ck_assert_int_eq(seen.rows, 1);
    TW_OK_OR_FAIL(tw_store_run_clear(store, 2, &err), err);
    seen = (struct seen){0};
    TW_OK_OR_FAIL(tw_store_scan(store, table, 2, see, &seen, &err), err);
    ck_assert_int_eq(seen.rows, 0);
    tw_store_close(store);
}
END_TEST

/* Makes rows 0 .. count-1 of a table: the last key column counts, behind the
 * row's keys all values are its own. */
struct maker {
    int columns, keys;
    int64_t at, count;
    bool has_null; /* where the schema forbids it, in the last row */
};

static bool make(void *arg, int64_t *values)
{
    struct maker *m = arg;
    if (m->at == m->count)
        return false;
    for (int c = 0; c < m->columns; c++)
        values[c] = c < m->keys ? 1 : m->at * 100 + c;
    values[m->keys - 1] = m->at++;
    if (m->has_null && m->at == m->count)
        values[m->columns - 1] = TW_NULL;
    return true;
}

/* As many puts of one row would leave it, over rows that are there already. */
START_TEST(many_rows_come_back_as_put)
{
    enum tw_table table = (enum tw_table)_i;
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    int columns = tw_store_columns(table);
    struct maker maker = {columns, twp_table(table)->keys, 0, 1000, false};
    struct maker same = maker, none = {columns, 0, 0, 0, false};
    struct seen seen = {0};
    int64_t values[TWP_MAX_COLUMNS];
    double real = 0.1;
    TW_OK_OR_FAIL(tw_store_begin(store, &err), err);
    TW_OK_OR_FAIL(tw_store_put_rows(store, table, make, &maker, &err), err);
    for (int c = 0; c < columns; c++)
        values[c] = c < maker.keys ? 1 : 7;
    values[maker.keys - 1] = 999;
    if (twp_table(table)->has_real_last)
        memcpy(&values[columns - 1], &real, sizeof real);
    TW_OK_OR_FAIL(tw_store_put(store, table, values, &err), err);
    same.count = 999;
    TW_OK_OR_FAIL(tw_store_put_rows(store, table, make, &same, &err), err);
    TW_OK_OR_FAIL(tw_store_put_rows(store, table, make, &none, &err), err);
    TW_OK_OR_FAIL(tw_store_commit(store, &err), err);
    TW_OK_OR_FAIL(
        tw_store_scan(store, table, maker.keys > 1 ? 1 : 999, see, &seen, &err),
        err);
    ck_assert_int_eq(seen.rows, 1000);
    ck_assert_mem_eq(seen.last, values, (size_t)columns * sizeof *values);
    tw_store_close(store);
}
END_TEST

/* Nothing of a failed call stays, and the next one is served. */
START_TEST(many_rows_or_none)
{
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    struct maker maker = {5, 4, 0, 1000, true};
    struct seen seen = {0};
    TW_OK_OR_FAIL(tw_store_begin(store, &err), err);
    TW_FAILS_WITH(tw_store_put_rows(store, TW_TABLE_HIST, make, &maker, &err),
                  TW_ERR_DB, "NOT NULL constraint failed: hist_.tokens", err);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_store_scan(store, TW_TABLE_HIST, 1, see, &seen, &err),
                  err);
    ck_assert_int_eq(seen.rows, 0);
    maker = (struct maker){5, 4, 0, 10, false};
    TW_OK_OR_FAIL(tw_store_put_rows(store, TW_TABLE_HIST, make, &maker, &err),
                  err);
    TW_OK_OR_FAIL(tw_store_commit(store, &err), err);
    TW_OK_OR_FAIL(tw_store_scan(store, TW_TABLE_HIST, 1, see, &seen, &err),
                  err);
    ck_assert_int_eq(seen.rows, 10);
    tw_store_close(store);
}
END_TEST

START_TEST(scan_goes_in_key_order)
{
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    struct seen seen = {0};
    for (int64_t nnz = 9; nnz >= 0; nnz--)
        TW_OK_OR_FAIL(tw_store_put(store, TW_TABLE_HIST,
                                   (int64_t[]){1, 0, 2, nnz, 5}, &err),
                      err);
    TW_OK_OR_FAIL(
        tw_store_put(store, TW_TABLE_HIST, (int64_t[]){1, 0, 1, 77, 5}, &err),
        err);
    TW_OK_OR_FAIL(tw_store_scan(store, TW_TABLE_HIST, 1, see, &seen, &err),
                  err);
    ck_assert_int_eq(seen.rows, 11);
    ck_assert_int_eq(seen.last[3], 9);
    tw_store_close(store);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_rows");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_loop_test(core, rows_come_back_as_put, 0, TW_TABLES);
    tcase_add_loop_test(core, many_rows_come_back_as_put, 0, TW_TABLES);
    tcase_add_test(core, many_rows_or_none);
    tcase_add_test(core, scan_goes_in_key_order);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
