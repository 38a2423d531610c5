/* Records what a process writes below a folder, and what it syncs, in the order in which it happens.
 *
 *     LD_PRELOAD=written_and_synced.so WATCHED=/folder WATCHED_LOG=/log python workload.py
 *
 * Every call is done first and recorded after, each record at once:
 *
 *     int32 operation, descriptor, flags   int64 offset, size   int32 path length, second path length
 *     path, second path, size bytes of data (writes only)
 *
 * tests/power_cut.py reads the log and tells what a disk would hold if the power
 * went at any point of it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, UNKNOWN };

struct record {
    int32_t operation, descriptor, flags;
    int64_t offset, size;
    int32_t path_length, second_length;
} __attribute__((packed));

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int log_descriptor = -1;
static const char *watched;

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void put(const void *data, size_t size) {
    static ssize_t (*real_write)(int, const void *, size_t);
    if (!real_write) real_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    for (size_t done = 0; done < size;) {
        ssize_t some = real_write(log_descriptor, (const char *)data + done, size - done);
        if (some < 0) { perror("written_and_synced"); _exit(99); }
        done += (size_t)some;
    }
}

static int ready(void) {
    if (log_descriptor >= 0) return 1;
    const char *log = getenv("WATCHED_LOG");
    watched = getenv("WATCHED");
    if (!log || !watched) return 0;
    static int (*real_open)(const char *, int, ...);
    if (!real_open) real_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    log_descriptor = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return log_descriptor >= 0;
}

/* The full path, without following its last part; 0 where it lies elsewhere. */
static int below(int folder, const char *path, char *full) {
    char base[PATH_MAX] = "";
    if (!ready()) return 0;
    if (path[0] != '/') {
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t length = readlink(link, base, sizeof base - 1);
            if (length < 0) return 0;
            base[length] = 0;
        }
        if (snprintf(full, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
    } else if (snprintf(full, PATH_MAX, "%s", path) >= PATH_MAX) {
        return 0;
    }
    return strncmp(full, watched, strlen(watched)) == 0;
}

/* Where a descriptor leads; 0 where that is not below the folder. */
static int leads_below(int descriptor) {
    char link[64], full[PATH_MAX];
    if (!ready() || descriptor == log_descriptor) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, full, sizeof full - 1);
    if (length < 0) return 0;
    full[length] = 0;
    return strncmp(full, watched, strlen(watched)) == 0;
}

static void record(int operation, int descriptor, int flags, int64_t offset, const void *data, int64_t size,
                   const char *path, const char *second) {
    int saved = errno;
    struct record head = {operation, descriptor, flags, offset, size, (int32_t)strlen(path), (int32_t)strlen(second)};
    pthread_mutex_lock(&one_at_a_time);
    put(&head, sizeof head);
    put(path, strlen(path));
    put(second, strlen(second));
    if (operation == WRITE) put(data, (size_t)size);
    pthread_mutex_unlock(&one_at_a_time);
    errno = saved;
}

static int opened(int descriptor, int folder, const char *path, int flags) {
    char full[PATH_MAX];
    if (descriptor >= 0 && below(folder, path, full)) record(OPEN, descriptor, flags, 0, NULL, 0, full, "");
    return descriptor;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE_OF(flags)
    return opened(real(path, flags, mode), AT_FDCWD, path, flags);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    MODE_OF(flags)
    return opened(real(path, flags, mode), AT_FDCWD, path, flags);
}

int openat(int folder, const char *path, int flags, ...) {
    REAL(openat);
    MODE_OF(flags)
    return opened(real(folder, path, flags, mode), folder, path, flags);
}

int openat64(int folder, const char *path, int flags, ...) {
    REAL(openat64);
    MODE_OF(flags)
    return opened(real(folder, path, flags, mode), folder, path, flags);
}

static int64_t position(int descriptor) {
    struct stat about;
    if ((fcntl(descriptor, F_GETFL) & O_APPEND) && fstat(descriptor, &about) == 0) return about.st_size;
    return lseek(descriptor, 0, SEEK_CUR);
}

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL(write);
    int ours = leads_below(descriptor);
    int64_t offset = ours ? position(descriptor) : 0;
    ssize_t done = real(descriptor, data, size);
    if (ours && done > 0) record(WRITE, descriptor, 0, offset, data, done, "", "");
    return done;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    REAL(pwrite);
    ssize_t done = real(descriptor, data, size, offset);
    if (done > 0 && leads_below(descriptor)) record(WRITE, descriptor, 0, offset, data, done, "", "");
    return done;
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
    REAL(pwrite64);
    ssize_t done = real(descriptor, data, size, offset);
    if (done > 0 && leads_below(descriptor)) record(WRITE, descriptor, 0, offset, data, done, "", "");
    return done;
}

int ftruncate(int descriptor, off_t size) {
    REAL(ftruncate);
    int result = real(descriptor, size);
    if (result == 0 && leads_below(descriptor)) record(TRUNCATE, descriptor, 0, size, NULL, 0, "", "");
    return result;
}

int ftruncate64(int descriptor, off64_t size) {
    REAL(ftruncate64);
    int result = real(descriptor, size);
    if (result == 0 && leads_below(descriptor)) record(TRUNCATE, descriptor, 0, size, NULL, 0, "", "");
    return result;
}

int fsync(int descriptor) {
    REAL(fsync);
    int result = real(descriptor);
    if (result == 0 && leads_below(descriptor)) record(SYNC, descriptor, 0, 0, NULL, 0, "", "");
    return result;
}

int fdatasync(int descriptor) {
    REAL(fdatasync);
    int result = real(descriptor);
    if (result == 0 && leads_below(descriptor)) record(SYNC, descriptor, 0, 0, NULL, 0, "", "");
    return result;
}

int rename(const char *old, const char *new) {
    char from[PATH_MAX], to[PATH_MAX];
    REAL(rename);
    int result = real(old, new);
    if (result == 0 && below(AT_FDCWD, old, from) && below(AT_FDCWD, new, to))
        record(RENAME, 0, 0, 0, NULL, 0, from, to);
    return result;
}

int unlink(const char *path) {
    char full[PATH_MAX];
    REAL(unlink);
    int result = real(path);
    if (result == 0 && below(AT_FDCWD, path, full)) record(UNLINK, 0, 0, 0, NULL, 0, full, "");
    return result;
}

int unlinkat(int folder, const char *path, int flags) {
    char full[PATH_MAX];
    REAL(unlinkat);
    int ours = below(folder, path, full);
    int result = real(folder, path, flags);
    if (result == 0 && ours) record(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, 0, 0, NULL, 0, full, "");
    return result;
}

int mkdir(const char *path, mode_t mode) {
    char full[PATH_MAX];
    REAL(mkdir);
    int result = real(path, mode);
    if (result == 0 && below(AT_FDCWD, path, full)) record(MKDIR, 0, 0, 0, NULL, 0, full, "");
    return result;
}

int mkdirat(int folder, const char *path, mode_t mode) {
    char full[PATH_MAX];
    REAL(mkdirat);
    int result = real(folder, path, mode);
    if (result == 0 && below(folder, path, full)) record(MKDIR, 0, 0, 0, NULL, 0, full, "");
    return result;
}

int rmdir(const char *path) {
    char full[PATH_MAX];
    REAL(rmdir);
    int result = real(path);
    if (result == 0 && below(AT_FDCWD, path, full)) record(RMDIR, 0, 0, 0, NULL, 0, full, "");
    return result;
}

/* What the log has no words for must not be used unseen. */
static void unknown(const char *name) {
    if (ready()) record(UNKNOWN, 0, 0, 0, NULL, 0, name, "");
}

ssize_t writev(int descriptor, const struct iovec *parts, int n) {
    REAL(writev);
    if (leads_below(descriptor)) unknown("writev");
    return real(descriptor, parts, n);
}

int link(const char *old, const char *new) {
    char full[PATH_MAX];
    REAL(link);
    if (below(AT_FDCWD, new, full)) unknown("link");
    return real(old, new);
}

int linkat(int old_folder, const char *old, int folder, const char *new, int flags) {
    char full[PATH_MAX];
    REAL(linkat);
    if (below(folder, new, full)) unknown("linkat");
    return real(old_folder, old, folder, new, flags);
}
