/* Moving a file without ever replacing one. A hard link is the name that fails
 * where it is taken on every file system that has them, NFS too; renameat2 is
 * asked where there are none. */
#include <config.h>

#include "base/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/strbuf.h"

/* 0, or the error number. */
static int name_file(const char *from, const char *to)
{
    if (link(from, to) == 0) {
        unlink(from);
        return 0;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS &&
        errno != EMLINK)
        return errno;
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0
               ? 0
               : errno;
}

/* The name survives a power failure once its folder is flushed. */
static void flush_folder(const char *path)
{
    char *folder = tw_strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        slash[slash == folder] = '\0';
    int fd = folder ? open(slash ? folder : ".", O_RDONLY | O_DIRECTORY) : -1;
    if (fd >= 0) {
        fsync(fd); /* some file systems can't: nothing more to do then */
        close(fd);
    }
    tw_free(folder);
}

static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno != EINTR)
            return errno;
        data += done > 0 ? done : 0;
        size -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

static int pour(int in, int out)
{
    enum { BYTES = 1 << 20 };
    char *buffer = tw_alloc(BYTES, 1);
    int error = buffer ? 0 : ENOMEM;
    while (!error) {
        ssize_t got = read(in, buffer, BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            error = got < 0 ? errno : 0;
            break;
        }
        error = write_all(out, buffer, (size_t)got);
    }
    if (!error && fsync(out) != 0)
        error = errno;
    tw_free(buffer);
    return error;
}

static enum tw_status copy_beside(const char *from, const char *beside,
                                  struct tw_error *err)
{
    struct stat info;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &info) != 0) {
        enum tw_status status = tw_error_errno(err, errno, "%s", from);
        if (in >= 0)
            close(in);
        return status;
    }
    int out = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                   info.st_mode & 0777);
    int error = out < 0 ? errno : pour(in, out);
    if (out >= 0 && close(out) != 0 && !error)
        error = errno;
    close(in);
    return error ? tw_error_errno(err, error, "%s", beside) : TW_OK;
}

enum tw_status tw_file_move_new(const char *from, const char *to,
                                struct tw_error *err)
{
    struct tw_strbuf beside = {0};
    enum tw_status status = TW_OK;
    int error = name_file(from, to);
    if (error == EXDEV) {
        tw_strbuf_printf(&beside, "%s.moving-%ld", to, (long)getpid());
        const char *copy = tw_strbuf_text(&beside);
        status = copy_beside(from, copy, err);
        error = status == TW_OK ? name_file(copy, to) : 0;
        if (status != TW_OK || error)
            unlink(copy);
        else
            unlink(from);
    }
    if (error == EEXIST)
        status = tw_error_set(err, TW_ERR_EXISTS, "%s is there already", to);
    else if (error)
        status = tw_error_errno(err, error, "%s", to);
    if (status == TW_OK)
        flush_folder(to);
    tw_strbuf_fini(&beside);
    return status;
}
