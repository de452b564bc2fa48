/* A file's bytes: read in pieces, hashed as stored, unpacked where they are
 * gzip (one member or several). */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"
#include "text/documents_internal.h"

#define PIECE_BYTES ((size_t)128 << 10)

struct twp_input {
    int fd;
    const char *path; /* the caller's */
    bool is_regular, is_gzip, is_inflating, is_in_member, at_end;
    z_stream stream;       /* in: what is stored and not unpacked yet */
    unsigned char *stored; /* PIECE_BYTES */
    unsigned char *plain;  /* PIECE_BYTES, of gzip only */
    const unsigned char *bytes;
    size_t size; /* of bytes, not taken yet */
    struct tw_sha256 hash;
};

static bool has_suffix(const char *path, const char *suffix)
{
    size_t a = strlen(path), b = strlen(suffix);
    return a > b && strcmp(path + a - b, suffix) == 0;
}

/* Fills stored from `have` on; at_end once the file gives no more. */
static enum tw_status read_piece(struct twp_input *input, size_t have,
                                 size_t *got, struct tw_error *err)
{
    ssize_t count;
    do
        count = read(input->fd, input->stored + have, PIECE_BYTES - have);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return tw_error_errno(err, errno, "%s", input->path);
    input->at_end = count == 0;
    tw_sha256_update(&input->hash, input->stored + have, (size_t)count);
    *got = (size_t)count;
    return TW_OK;
}

static enum tw_status start_gzip(struct twp_input *input, struct tw_error *err)
{
    input->plain = tw_alloc(PIECE_BYTES, 1);
    if (!input->plain || inflateInit2(&input->stream, 16 + MAX_WBITS) != Z_OK)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                            input->path);
    input->is_inflating = input->is_in_member = true;
    return TW_OK;
}

/* The first piece tells what the file is. */
static enum tw_status start(struct twp_input *input, struct tw_error *err)
{
    size_t have = 0, got = 0;
    enum tw_status status = TW_OK;
    while (status == TW_OK && have < 2 && !input->at_end) {
        status = read_piece(input, have, &got, err);
        have += got;
    }
    if (status != TW_OK)
        return status;
    bool is_magic = have >= 2 && input->stored[0] == 0x1f &&
                    input->stored[1] == 0x8b;
    input->is_gzip = is_magic || has_suffix(input->path, ".gz");
    if (input->is_gzip && !is_magic && have > 0)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: not a gzip file",
                            input->path);
    if (!input->is_gzip) {
        input->bytes = input->stored;
        input->size = have;
        return TW_OK;
    }
    input->stream.next_in = input->stored;
    input->stream.avail_in = (uInt)have;
    return start_gzip(input, err);
}

enum tw_status twp_input_open(const char *path, struct twp_input **out,
                              struct tw_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    struct stat info;
    struct twp_input *input = tw_calloc(1, sizeof *input);
    if (!input)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    *input = (struct twp_input){.path = path, .fd = -1};
    enum tw_status status = TW_OK;
    input->stored = tw_alloc(PIECE_BYTES, 1);
    if (!input->stored)
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    else if ((input->fd = is_stdin ? STDIN_FILENO
                                   : open(path, O_RDONLY | O_CLOEXEC)) < 0)
        status = tw_error_errno(err, errno, "%s", path);
    if (status == TW_OK) {
        input->is_regular = !is_stdin && fstat(input->fd, &info) == 0 &&
                            S_ISREG(info.st_mode);
        tw_sha256_init(&input->hash);
        status = start(input, err);
    }
    if (status == TW_OK)
        *out = input;
    else
        twp_input_close(input);
    return status;
}

/* Another piece of stored bytes for zlib; the file may end between members
 * only. */
static enum tw_status refill(struct twp_input *input, struct tw_error *err)
{
    size_t got = 0;
    enum tw_status status = read_piece(input, 0, &got, err);
    input->stream.next_in = input->stored;
    input->stream.avail_in = (uInt)got;
    if (status == TW_OK && input->at_end && input->is_in_member)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: ends early",
                            input->path);
    return status;
}

static enum tw_status inflate_some(struct twp_input *input,
                                   struct tw_error *err)
{
    z_stream *stream = &input->stream;
    if (!input->is_in_member) { /* another member follows */
        if (inflateReset(stream) != Z_OK)
            return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                                input->path);
        input->is_in_member = true;
    }
    stream->next_out = input->plain;
    stream->avail_out = (uInt)PIECE_BYTES;
    int rc = inflate(stream, Z_NO_FLUSH);
    input->bytes = input->plain;
    input->size = PIECE_BYTES - stream->avail_out;
    if (rc == Z_STREAM_END)
        input->is_in_member = false;
    else if (rc == Z_MEM_ERROR)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                            input->path);
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: not valid gzip: %s",
                            input->path, stream->msg ? stream->msg : "?");
    return TW_OK;
}

enum tw_status twp_input_peek(struct twp_input *input, const char **bytes,
                              size_t *size, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    while (status == TW_OK && input->size == 0) {
        if (!input->is_gzip) {
            if (input->at_end)
                break;
            input->bytes = input->stored;
            status = read_piece(input, 0, &input->size, err);
            continue;
        }
        if (input->stream.avail_in == 0)
            status = refill(input, err);
        if (status == TW_OK && input->stream.avail_in == 0)
            break;
        if (status == TW_OK)
            status = inflate_some(input, err);
    }
    *bytes = (const char *)input->bytes;
    *size = input->size;
    return status;
}

void twp_input_take(struct twp_input *input, size_t size)
{
    input->bytes += size;
    input->size -= size;
}

bool twp_input_hash(struct twp_input *input, char sha256[65])
{
    size_t got;
    while (input->is_regular && !input->at_end)
        if (read_piece(input, 0, &got, NULL) != TW_OK)
            return false;
    if (input->at_end)
        tw_sha256_hex(&input->hash, sha256);
    return input->at_end;
}

void twp_input_close(struct twp_input *input)
{
    if (!input)
        return;
    if (input->is_inflating)
        inflateEnd(&input->stream);
    if (input->fd > STDIN_FILENO)
        close(input->fd);
    tw_free(input->stored);
    tw_free(input->plain);
    tw_free(input);
}
