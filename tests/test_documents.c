/* Claims about documents: separator lines cut a text as DESIGN says, .gz is
 * unpacked whole or refused, errors name the file and the place, and the hash
 * is that of the stored bytes even where reading stops early. */
#include <config.h>

#include <string.h>
#include <zlib.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "test_text.h"
#include "text/documents.h"
#include "tw_check.h"

#define SEP "<|endoftext|>"

static const struct {
    const char *name, *text, *separator;
    const char *documents[5]; /* up to NULL */
} texts[] = {
    {"a.txt", "A\n\n" SEP "\nB\n", SEP, {"A\n", "B\n"}},
    {"a.txt", "A\n" SEP "\nB", SEP, {"A", "B"}},
    {"a.txt", SEP "\nA\n" SEP "\n" SEP "\n\n" SEP "\nB\n" SEP, SEP,
     {"A", "B"}},
    {"a.txt", "A " SEP "\n " SEP "\n" SEP " \n", SEP,
     {"A " SEP "\n " SEP "\n" SEP " \n"}},
    {"a.txt", "A\r\n" SEP "\r\nB\r\n", SEP, {"A", "B\r\n"}},
    {"a.txt", "A\r\n" SEP "\nB", SEP, {"A\r", "B"}},
    {"a.txt", "A\r\n" SEP, SEP, {"A"}},
    {"a.txt", "A\n" SEP "\nB", NULL, {"A\n" SEP "\nB"}},
    {"a.txt", "\n", SEP, {"\n"}},
    {"a.txt", "a\n\nb", "", {"a", "b"}},
    {"a.json", "{\"text\":\"x\"}\n", SEP, {"{\"text\":\"x\"}\n"}},
    {"a.jsonl", "{\"text\":\"x\"}\n\n \t\r\n{\"n\":1,\"text\":\"y\\n\"}", SEP,
     {"x", "y\n"}},
    {"a.jsonl", "{\"text\":\"\"}\n{\"text\":\"" SEP "\"}\n", SEP, {SEP}},
};

static enum tw_status open_one(const char *path, const char *separator,
                               struct tw_document_file *file,
                               struct tw_documents *documents,
                               struct tw_error *err)
{
    struct tw_document_options options = {.separator = separator,
                                          .field = "text"};
    return tw_documents_open(&path, 1, &options, file, documents, err);
}

/* Reads to the end, or to the first error. */
static enum tw_status read_all(const char *path, const char *separator,
                               const char *const *wanted,
                               struct tw_document_file *file,
                               struct tw_error *err)
{
    struct tw_documents documents;
    struct tw_document document;
    bool has_document = true;
    enum tw_status status = open_one(path, separator, file, &documents, err);
    if (status != TW_OK)
        return status;
    while (status == TW_OK && has_document) {
        status = documents.next(documents.state, &document, &has_document,
                                err);
        if (status != TW_OK || !has_document || !wanted)
            continue;
        ck_assert_ptr_nonnull(*wanted);
        ck_assert_uint_eq(document.size, strlen(*wanted));
        ck_assert_int_eq(memcmp(document.text, *wanted, document.size), 0);
        ck_assert_ptr_null(document.ids);
        wanted++;
    }
    if (status == TW_OK && wanted)
        ck_assert_ptr_null(*wanted);
    documents.close(documents.state);
    return status;
}

static void check_hash(const struct tw_document_file *file, const void *bytes,
                       size_t size)
{
    struct tw_sha256 hash;
    char hex[65];
    tw_sha256_init(&hash);
    tw_sha256_update(&hash, bytes, size);
    tw_sha256_hex(&hash, hex);
    ck_assert_str_eq(file->sha256, hex);
}

START_TEST(texts_are_cut_at_separators)
{
    struct tw_error err = {0};
    struct tw_document_file file = {0};
    const char *path = test_write_text(texts[_i].name, texts[_i].text);
    TW_OK_OR_FAIL(read_all(path, texts[_i].separator, texts[_i].documents,
                           &file, &err), err);
    int64_t count = 0, bytes = 0;
    for (; texts[_i].documents[count]; count++)
        bytes += (int64_t)strlen(texts[_i].documents[count]);
    ck_assert_int_eq(file.documents, count);
    ck_assert_int_eq(file.bytes, bytes);
    ck_assert_str_eq(file.name, path);
    ck_assert(file.is_done);
    check_hash(&file, texts[_i].text, strlen(texts[_i].text));
}
END_TEST

/* gzip of text, appended to out. */
static size_t pack(const char *text, unsigned char *out, size_t room)
{
    z_stream stream = {0};
    ck_assert_int_eq(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8,
                                  Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (unsigned char *)(uintptr_t)text;
    stream.avail_in = (unsigned)strlen(text);
    stream.next_out = out;
    stream.avail_out = (unsigned)room;
    ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t size = room - stream.avail_out;
    deflateEnd(&stream);
    return size;
}

static const char *const gz_names[] = {"a.txt.gz", "a.bin", "b.jsonl.gz"};
static const char *const gz_wanted[][3] = {
    {"one", "two\n"}, {"one", "two\n"}, {"one", "two"}};
static const char *const gz_parts[][2] = {
    {"on", "e\n" SEP "\ntwo\n"},
    {"one\n<|end", "oftext|>\ntwo\n"},
    {"{\"text\":\"one\"}\n{\"te", "xt\":\"two\"}"}};

START_TEST(members_of_gzip_are_joined)
{
    unsigned char packed[512];
    struct tw_error err = {0};
    struct tw_document_file file = {0};
    size_t first = pack(gz_parts[_i][0], packed, sizeof packed);
    size_t size =
        first + pack(gz_parts[_i][1], packed + first, sizeof packed - first);
    const char *path = test_write(gz_names[_i], packed, size);
    TW_OK_OR_FAIL(read_all(path, SEP, gz_wanted[_i], &file, &err), err);
    check_hash(&file, packed, size);
    /* cut anywhere but between the members */
    for (size_t cut = 2; cut < size; cut++) {
        path = test_write("cut.gz", packed, cut);
        if (cut != first)
            TW_FAILS_WITH(read_all(path, SEP, NULL, &file, &err),
                          TW_ERR_FORMAT, "ends early", err);
    }
    memcpy(packed + size, "garbage", 7);
    path = test_write("cut.gz", packed, size + 7);
    TW_FAILS_WITH(read_all(path, SEP, NULL, &file, &err), TW_ERR_FORMAT,
                  "not valid gzip", err);
}
END_TEST

static const struct {
    const char *name, *text, *words;
} bad[] = {
    {"a.txt", "", "a.txt: no text"},
    {"a.txt", SEP "\n" SEP "\n", "a.txt: no text"},
    {"a.txt", "A\n" SEP "\nB\xff", "a.txt: invalid UTF-8 at byte 17"},
    {"a.txt", "\xc3", "a.txt: invalid UTF-8 at byte 0"},
    {"a.gz", "plain", "a.gz: not a gzip file"},
    {"a.gz", "", "a.gz: ends early"},
    {"a.jsonl", "\n\n", "a.jsonl: no text"},
    {"a.jsonl", "{\"text\":\"\"}\n", "a.jsonl: no text"},
    {"a.jsonl", "{\"text\":\"a\"}\n[1]\n", "a.jsonl:2: not a JSON object"},
    {"a.jsonl", "{\"text\":\"a\"}\n\n{\"x\":1}", "a.jsonl:3: no field 'text'"},
    {"a.jsonl", "{\"text\":7}", "a.jsonl:1: no string in field 'text'"},
    {"a.jsonl", "{\"text\":\"a\"", "a.jsonl:1: not JSON"},
    {"a.jsonl", "{\"text\":\"a\"} x\n", "a.jsonl:1: not JSON"},
    {"a.jsonl", "{}\n", "a.jsonl:1: no field"},
    {"a.jsonl", "{\"text\":\"a\"}\n{\"\xff", "a.jsonl:2: invalid UTF-8 at byte "
                                             "15"},
};

START_TEST(errors_name_file_and_place)
{
    struct tw_error err = {0};
    struct tw_document_file file = {0};
    const char *path = test_write_text(bad[_i].name, bad[_i].text);
    TW_FAILS_WITH(read_all(path, SEP, NULL, &file, &err), TW_ERR_FORMAT,
                  bad[_i].words, err);
    ck_assert(!file.is_done);
}
END_TEST

START_TEST(missing_files_are_known_at_open)
{
    struct tw_error err = {0};
    struct tw_documents documents;
    struct tw_document_file file[2] = {{{0}, {0}, 0, 0, false}};
    struct tw_document_options options = {.separator = SEP};
    const char *paths[] = {test_write_text("a.txt", "A"), "/no/such.txt"};
    TW_FAILS_WITH(tw_documents_open(paths, 2, &options, file, &documents,
                                    &err),
                  TW_ERR_NOT_FOUND, "/no/such.txt", err);
    paths[1] = test_folder();
    TW_FAILS_WITH(tw_documents_open(paths, 2, &options, file, &documents,
                                    &err),
                  TW_ERR_IO, "directory", err);
}
END_TEST

/* Lines and documents across the pieces that files are read in. */
START_TEST(long_documents_come_whole)
{
    enum { SIZE = 700000 };
    struct tw_error err = {0};
    struct tw_document_file file = {0};
    struct tw_documents documents;
    struct tw_document document;
    bool has_document;
    char *text = tw_alloc(SIZE + 64, 1);
    for (int i = 0; i < SIZE; i++)
        text[i] = i % 997 == 0 ? '\n' : (char)('a' + i % 23);
    memcpy(text + SIZE, "\n" SEP "\nend", 18);
    const char *path = test_write("a.txt", text, SIZE + 18);
    TW_OK_OR_FAIL(open_one(path, SEP, &file, &documents, &err), err);
    TW_OK_OR_FAIL(documents.next(documents.state, &document, &has_document,
                                 &err), err);
    ck_assert_uint_eq(document.size, SIZE);
    ck_assert_int_eq(memcmp(document.text, text, SIZE), 0);
    TW_OK_OR_FAIL(documents.next(documents.state, &document, &has_document,
                                 &err), err);
    ck_assert(has_document);
    ck_assert_uint_eq(document.size, 3);
    documents.close(documents.state);
    tw_free(text);
}
END_TEST

/* Closed behind the first document of the first of two files. */
START_TEST(early_ends_still_hash)
{
    static const char first[] = "A\n" SEP "\nB", second[] = "C";
    struct tw_error err = {0};
    struct tw_document_file file[2] = {{{0}, {0}, 0, 0, false}};
    struct tw_document_options options = {.separator = SEP};
    struct tw_documents documents;
    struct tw_document document;
    bool has_document;
    const char *paths[] = {test_write_text("a.txt", first),
                           test_write_text("b.txt", second)};
    TW_OK_OR_FAIL(tw_documents_open(paths, 2, &options, file, &documents,
                                    &err), err);
    TW_OK_OR_FAIL(documents.next(documents.state, &document, &has_document,
                                 &err), err);
    documents.close(documents.state);
    check_hash(&file[0], first, strlen(first));
    check_hash(&file[1], second, strlen(second));
    ck_assert(!file[0].is_done);
    ck_assert_int_eq(file[0].documents, 1);
}
END_TEST

START_TEST(a_prompt_is_one_document)
{
    struct tw_error err = {0};
    struct tw_document_file file = {0};
    struct tw_documents documents;
    struct tw_document document;
    bool has_document;
    TW_OK_OR_FAIL(tw_documents_from_text("Hi", 2, &file, &documents, &err),
                  err);
    TW_OK_OR_FAIL(documents.next(documents.state, &document, &has_document,
                                 &err), err);
    ck_assert(has_document);
    ck_assert_uint_eq(document.size, 2);
    TW_OK_OR_FAIL(documents.next(documents.state, &document, &has_document,
                                 &err), err);
    ck_assert(!has_document);
    documents.close(documents.state);
    ck_assert_str_eq(file.name, "prompt");
    check_hash(&file, "Hi", 2);
    TW_FAILS_WITH(tw_documents_from_text("", 0, &file, &documents, &err),
                  TW_ERR_FORMAT, "no text", err);
    TW_FAILS_WITH(tw_documents_from_text("a\xff", 2, &file, &documents, &err),
                  TW_ERR_FORMAT, "byte 1", err);
}
END_TEST

START_TEST(failing_memory_is_reported)
{
    static const char *const jsonl =
        "{\"text\":\"one\"}\n{\"text\":\"two\"}\n";
    unsigned char packed[256];
    enum tw_status status = TW_ERR_NOMEM;
    size_t size = pack(jsonl, packed, sizeof packed);
    const char *path = test_write("a.jsonl.gz", packed, size);
    for (int count = 0; status == TW_ERR_NOMEM; count++) {
        struct tw_error err = {0};
        struct tw_document_file file = {0};
        tw_alloc_fail_after(count);
        status = read_all(path, SEP, NULL, &file, &err);
        tw_alloc_fail_after(-1);
        ck_assert_int_lt(count, 1000);
    }
    ck_assert_int_eq(status, TW_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("documents");
    TCase *core = tcase_create("core"), *errors = tcase_create("errors");
    tcase_add_checked_fixture(core, test_folder_make, test_folder_remove);
    tcase_add_checked_fixture(errors, test_folder_make, test_folder_remove);
    tcase_add_loop_test(core, texts_are_cut_at_separators, 0,
                        sizeof texts / sizeof *texts);
    tcase_add_loop_test(core, members_of_gzip_are_joined, 0, 3);
    tcase_add_test(core, long_documents_come_whole);
    tcase_add_test(core, early_ends_still_hash);
    tcase_add_test(core, a_prompt_is_one_document);
    tcase_add_loop_test(errors, errors_name_file_and_place, 0,
                        sizeof bad / sizeof *bad);
    tcase_add_test(errors, missing_files_are_known_at_open);
    tcase_add_test(errors, failing_memory_is_reported);
    suite_add_tcase(suite, core);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
