/* Claims about src/cmd/output and options: integers and reals are exact where
 * a program reads, nothing reaches a terminal that moves its cursor, -o picks
 * by name or ending, sizes take suffixes. */
#include <config.h>

#include <stdio.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "cmd/utf8.h"
#include "tw_check.h"

static char path[64];
static struct tw_store *store;

static void setup(void)
{
    struct tw_error err = {0};
    strcpy(path, "/tmp/tw_outputXXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    TW_OK_OR_FAIL(tw_store_open(path, TW_STORE_WRITE, &store, &err), err);
}

static void teardown(void)
{
    tw_store_close(store);
    unlink(path);
}

#define NUMBERS \
    "SELECT 9223372036854775807 AS big, 0.1 AS real, NULL AS none," \
    " 2.0 AS whole, 1e-300 AS tiny"
#define TEXTS \
    "SELECT 'a,\"b' || char(10) AS t, x'00ff' AS b, '' AS e UNION ALL" \
    " SELECT 'it''s', NULL, char(27) || '[2J' || char(8238) || '|_%\\'"

static const struct {
    const char *format, *sql, *want;
} rows[] = {
    {"csv", NUMBERS,
     "big,real,none,whole,tiny\n9223372036854775807,0.1,,2.0,1e-300\n"},
    {"json", NUMBERS,
     "[\n{\"big\":9223372036854775807,\"real\":0.1,\"none\":null,"
     "\"whole\":2.0,\"tiny\":1e-300}\n]\n"},
    {"jsonl", "SELECT 1 AS a UNION ALL SELECT 0.1 + 0.2",
     "{\"a\":1}\n{\"a\":0.30000000000000004}\n"},
    {"json", "SELECT 1 AS a WHERE 0", "[]\n"},
    {"json", "SELECT 9e999 AS a, 'x' || x'ff' AS b",
     "[\n{\"a\":null,\"b\":\"x\\ufffd\"}\n]\n"},
    {"csv", TEXTS,
     "t,b,e\n\"a,\"\"b\n\",00ff,\"\"\nit's,,\x1b[2J\xe2\x80\xae|_%\\\n"},
    {"jsonl", TEXTS,
     "{\"t\":\"a,\\\"b\\n\",\"b\":\"00ff\",\"e\":\"\"}\n"
     "{\"t\":\"it's\",\"b\":null,\"e\":\"\\u001b[2J\xe2\x80\xae|_%\\\\\"}\n"},
    {"sql", TEXTS,
     "BEGIN;\nCREATE TABLE IF NOT EXISTS \"n\"\"n\"(\"t\", \"b\", \"e\");\n"
     "INSERT INTO \"n\"\"n\" VALUES('a,\"b\n',X'00ff','');\n"
     "INSERT INTO \"n\"\"n\" VALUES('it''s',NULL,'\x1b[2J\xe2\x80\xae|_%\\');"
     "\nCOMMIT;\n"},
    {"sql", "SELECT 9e999 AS a, 2.0 AS b",
     "BEGIN;\nCREATE TABLE IF NOT EXISTS \"n\"\"n\"(\"a\", \"b\");\n"
     "INSERT INTO \"n\"\"n\" VALUES(9e999,2.0);\nCOMMIT;\n"},
    {"table", TEXTS,
     "t       b     e\n------  ----  -------------------\n"
     "a,\"b\\n  00ff  \n"
     "it's          \\x1b[2J\\u{202e}|_%\\\n"},
    {"table", "SELECT 'x' AS name, 1 AS n, 1048576.0 AS r UNION ALL"
              " SELECT '\xe6\x97\xa5\xcc\x81', -20, NULL",
     "name    n          r\n----  ---  ---------\nx       1  1048576.0\n"
     "\xe6\x97\xa5\xcc\x81    -20           \n"},
    {"md", TEXTS,
     "| t       | b    | e                        |\n"
     "| ------- | ---- | ------------------------ |\n"
     "| a,\"b\\\\n | 00ff |                          |\n"
     "| it's    |      | \\\\x1b[2J\\\\u{202e}\\|\\_%\\\\ |\n"},
    {"md", "SELECT 1 AS n", "|   n |\n| --: |\n|   1 |\n"},
    {"latex", "SELECT 'a_b' AS \"x%\", 5 AS n",
     "\\begin{tabular}{lr}\n\\toprule\nx\\%  & n \\\\\n\\midrule\n"
     "a\\_b & 5 \\\\\n\\bottomrule\n\\end{tabular}\n"},
    {"table", "SELECT 1 AS a WHERE 0", "a\n-\n"},
};

START_TEST(formats)
{
    struct tw_error err = {0};
    struct tw_query *query;
    enum tw_format format;
    char *got = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&got, &size);
    ck_assert(tw_format_find(rows[_i].format, &format));
    TW_OK_OR_FAIL(tw_query_open(store, rows[_i].sql, &query, &err), err);
    TW_OK_OR_FAIL(tw_output_query(query, format, "n\"n", out, &err), err);
    fclose(out);
    ck_assert_str_eq(got, rows[_i].want);
    free(got);
    tw_query_close(query);
}
END_TEST

START_TEST(full_disk_is_reported)
{
    struct tw_error err = {0};
    struct tw_query *query;
    FILE *out = fopen("/dev/full", "w");
    if (!out)
        return;
    setvbuf(out, NULL, _IONBF, 0);
    TW_OK_OR_FAIL(tw_query_open(store, "SELECT 1", &query, &err), err);
    TW_FAILS_WITH(tw_output_query(query, TW_FORMAT_CSV, "n", out, &err),
                  TW_ERR_FULL, "cannot write", err);
    tw_query_close(query);
    fclose(out);
    struct tw_output output = {.path = "/dev/full"};
    TW_OK_OR_FAIL(tw_output_open(&output, &(struct tw_error){0}), err);
    fputs("x", output.file);
    TW_FAILS_WITH(tw_output_close(&output, &err), TW_ERR_FULL, "/dev/full",
                  err);
}
END_TEST

static const struct {
    const char *text;
    int format; /* -1: refused */
    bool is_file;
} outputs[] = {
    {"csv", TW_FORMAT_CSV, false},     {"table", TW_FORMAT_TABLE, false},
    {"a/b.csv", TW_FORMAT_CSV, true},  {"x.tex", TW_FORMAT_LATEX, true},
    {"./csv", -1, true},               {"x.foo", -1, true},
    {"a.csv/b", -1, true},             {"jsonl", TW_FORMAT_JSONL, false},
    {"x.txt", TW_FORMAT_TABLE, true},  {"", -1, true},
};

START_TEST(output_is_a_format_or_a_file)
{
    struct tw_error err = {0};
    struct tw_output output;
    if (outputs[_i].format < 0) {
        TW_FAILS_WITH(tw_output_parse(outputs[_i].text, &output, &err),
                      TW_ERR_USAGE, outputs[_i].text, err);
        return;
    }
    TW_OK_OR_FAIL(tw_output_parse(outputs[_i].text, &output, &err), err);
    ck_assert_int_eq((int)output.format, outputs[_i].format);
    ck_assert_int_eq(output.path != NULL, outputs[_i].is_file);
}
END_TEST

static const struct {
    const char *text;
    int64_t value; /* -1: refused */
} sizes[] = {
    {"0", 0},      {"4096", 4096}, {"4Ki", 4096},   {"1.5k", 1500},
    {"1Mi", 1048576}, {"2G", 2000000000}, {"1Gi", 1073741824},
    {"1.5", -1},   {"-1", -1},     {"4K", -1},      {"x", -1},
    {"", -1},      {"0x10", -1},   {"1e30", -1},    {"nan", -1},
};

START_TEST(sizes_take_suffixes)
{
    struct tw_error err = {0};
    int64_t value = -1;
    if (sizes[_i].value < 0) {
        TW_FAILS_WITH(tw_parse_size("-b", sizes[_i].text, &value, &err),
                      TW_ERR_USAGE, "-b ", err);
        return;
    }
    TW_OK_OR_FAIL(tw_parse_size("-b", sizes[_i].text, &value, &err), err);
    ck_assert_int_eq(value, sizes[_i].value);
}
END_TEST

START_TEST(bad_utf8_is_none)
{
    static const char *const bad[] = {"\xc0\x80", "\xed\xa0\x80", "\xff",
                                      "\xe2\x82", "\xf4\x90\x80\x80"};
    uint32_t code;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(tw_utf8_next(bad[i], strlen(bad[i]), &code), 0);
    ck_assert_int_eq(tw_utf8_next("\xf0\x9f\x98\x80", 4, &code), 4);
    ck_assert_uint_eq(code, 0x1f600);
}
END_TEST

static const struct {
    const char *arguments[5], *words;
} misuses[] = {
    {{"sql"}, "no SQL statement given"},
    {{"sql", "SELECT 1", "2"}, "one SQL statement"},
    {{"sql", "--no", "SELECT 1"}, "unknown option '--no'"},
    {{"sql", "-z", "SELECT 1"}, "unknown option '-z'"},
    {{"sql", "SELECT 1", "-o"}, "option '-o' needs a value"},
    {{"sql", "SELECT 1", "-o", "x.y"}, "-o x.y"},
};

START_TEST(sql_says_what_is_wrong)
{
    struct tw_error err = {0};
    char *argv[6] = {0};
    int argc = 0;
    while (argc < 5 && misuses[_i].arguments[argc]) {
        argv[argc] = (char *)misuses[_i].arguments[argc];
        argc++;
    }
    TW_FAILS_WITH(tw_command_sql.run(argc, argv, &err), TW_ERR_USAGE,
                  misuses[_i].words, err);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

int main(void)
{
    Suite *suite = suite_create("output");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_loop_test(core, formats, 0, COUNT(rows));
    tcase_add_test(core, full_disk_is_reported);
    tcase_add_loop_test(core, output_is_a_format_or_a_file, 0, COUNT(outputs));
    tcase_add_loop_test(core, sizes_take_suffixes, 0, COUNT(sizes));
    tcase_add_test(core, bad_utf8_is_none);
    tcase_add_loop_test(core, sql_says_what_is_wrong, 0, COUNT(misuses));
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
