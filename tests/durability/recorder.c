/* Records what a process does to the files below a folder, in order, and makes one call fail.
 *
 * Preloaded with LD_PRELOAD. DURABILITY_ROOT is the folder. DURABILITY_LOG is appended to, one
 * record for each call that succeeded: kind (1 byte), offset (8), lengths of path and data (4, 4),
 * path, data; numbers are little-endian as the machine's. DURABILITY_ORDERS is a file of four
 * int32 that is mapped: how many calls from now the fault comes (0: none), its errno (0: SIGKILL
 * before the call; -1: after it), whether all later calls fail, too, and how many have failed.
 *
 * One lock is held over a call and its record, so that the order recorded is the order done.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static const char *root;
static size_t root_length;
static int record_fd = -1;
static volatile int32_t *orders;

__attribute__((constructor)) static void begin(void) {
    root = getenv("DURABILITY_ROOT");
    const char *log = getenv("DURABILITY_LOG"), *file = getenv("DURABILITY_ORDERS");
    if (!root || !log || !file) return;
    root_length = strlen(root);
    int fd = NEXT(open)(file, O_RDWR | O_CLOEXEC);
    orders = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (orders == MAP_FAILED) abort();
    record_fd = NEXT(open)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

/* The path below the root, or NULL for one that is elsewhere; deleted files are elsewhere. */
static const char *below(const char *path) {
    if (record_fd < 0 || strncmp(path, root, root_length)) return NULL;
    if (path[root_length] && path[root_length] != '/') return NULL;
    size_t length = strlen(path);
    if (length > 10 && !strcmp(path + length - 10, " (deleted)")) return NULL;
    if (length > 4 && !strcmp(path + length - 4, "-shm")) return NULL; /* is made anew */
    return path[root_length] ? path + root_length + 1 : path + root_length;
}

static const char *of_fd(int fd, char *buffer) {
    char link[64];
    if (record_fd < 0) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, buffer, PATH_MAX - 1);
    if (length < 0) return NULL;
    buffer[length] = 0;
    return below(buffer);
}

static const char *of_at(int dir, const char *path, char *buffer) {
    if (record_fd < 0) return NULL;
    if (path[0] == '/') return below(path);
    if (dir == AT_FDCWD) { /* a path that is relative to a folder elsewhere is elsewhere */
        if (!getcwd(buffer, PATH_MAX)) return NULL;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t length = readlink(link, buffer, PATH_MAX - 1);
        if (length < 0) return NULL;
        buffer[length] = 0;
    }
    size_t used = strlen(buffer);
    snprintf(buffer + used, PATH_MAX - used, "/%s", path);
    return below(buffer);
}

static void note(char kind, const char *path, int64_t at, const void *data, size_t size) {
    uint32_t lengths[2] = {(uint32_t)strlen(path), (uint32_t)size};
    struct iovec parts[] = {{&kind, 1}, {&at, 8}, {lengths, 8}, {(void *)path, lengths[0]},
                            {(void *)data, size}};
    int kept = errno;
    if (NEXT(writev)(record_fd, parts, 5) != (ssize_t)(17 + lengths[0] + size)) abort();
    if (orders[0] == -1) raise(SIGKILL);
    errno = kept;
}

/* Whether this call has to fail. */
static int fails(void) {
    if (orders[0] <= 0 || --orders[0] > 0) return 0;
    if (orders[1] == 0) raise(SIGKILL);
    if (orders[1] == -1) { /* after the call: `note` does it */
        orders[0] = -1;
        return 0;
    }
    if (orders[2]) orders[0] = 1;
    orders[3]++;
    errno = orders[1];
    return 1;
}

#define BEGIN(found) \
    char place[PATH_MAX]; \
    const char *name; \
    pthread_mutex_lock(&lock); \
    name = (found); \
    if (name && fails()) { pthread_mutex_unlock(&lock); return -1; }
#define END(kind, at, data, size) \
    if (name && result >= 0) note(kind, name, at, data, size); \
    pthread_mutex_unlock(&lock); \
    return result;

static int opened(int dir, const char *path, int flags, mode_t mode) {
    char place[PATH_MAX];
    struct stat found;
    int (*real)(int, const char *, int, ...) = NEXT(openat);
    const char *name = flags & (O_CREAT | O_TRUNC) ? of_at(dir, path, place) : NULL;
    if (!name) return real(dir, path, flags, mode);
    pthread_mutex_lock(&lock);
    int there = !fstatat(dir, path, &found, 0);
    int changes = !there || flags & O_TRUNC;
    if (changes && fails()) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    int result = real(dir, path, flags, mode);
    if (result >= 0 && !there) note('c', name, 0, "", 0);
    else if (result >= 0 && flags & O_TRUNC) note('t', name, 0, "", 0);
    pthread_mutex_unlock(&lock);
    return result;
}

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE return opened(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) {
    MODE return opened(dir, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t size) {
    BEGIN(of_fd(fd, place))
    int64_t at = name ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t result = NEXT(write)(fd, data, size);
    END('w', at, data, (size_t)result)
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    BEGIN(of_fd(fd, place))
    ssize_t result = NEXT(pwrite)(fd, data, size, at);
    END('w', at, data, (size_t)result)
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    return pwrite(fd, data, size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    BEGIN(of_fd(fd, place))
    int64_t at = name ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t result = NEXT(writev)(fd, parts, count), left = result;
    if (name && result >= 0) {
        char *all = malloc((size_t)result + 1), *end = all;
        for (int i = 0; i < count && left > 0; i++) {
            size_t part = parts[i].iov_len < (size_t)left ? parts[i].iov_len : (size_t)left;
            memcpy(end, parts[i].iov_base, part);
            end += part;
            left -= (ssize_t)part;
        }
        note('w', name, at, all, (size_t)result);
        free(all);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
int ftruncate(int fd, off_t size) {
    BEGIN(of_fd(fd, place))
    int result = NEXT(ftruncate)(fd, size);
    END('t', size, "", 0)
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int fsync(int fd) {
    BEGIN(of_fd(fd, place))
    int result = NEXT(fsync)(fd);
    END('s', 0, "", 0)
}
int fdatasync(int fd) {
    BEGIN(of_fd(fd, place))
    int result = NEXT(fdatasync)(fd);
    END('s', 0, "", 0)
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    char target[PATH_MAX];
    BEGIN(of_at(from_dir, from, place))
    const char *other = of_at(to_dir, to, target);
    int result = NEXT(renameat)(from_dir, from, to_dir, to);
    END('r', 0, other, strlen(other))
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int unlinkat(int dir, const char *path, int flags) {
    BEGIN(of_at(dir, path, place))
    int result = NEXT(unlinkat)(dir, path, flags);
    END('u', 0, "", 0)
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdir(const char *path, mode_t mode) {
    BEGIN(of_at(AT_FDCWD, path, place))
    int result = NEXT(mkdir)(path, mode);
    END('m', 0, "", 0)
}
