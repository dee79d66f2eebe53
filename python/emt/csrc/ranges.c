#include "ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line without its name has about 50 bytes, and a name has at most the length of a path
 * (4096). */
#define LINE_BYTES 4608

static int add(struct ranges *ranges, uintptr_t start, uintptr_t end)
{
    if (ranges->count > 0 && ranges->all[ranges->count - 1].end == start) {
        ranges->all[ranges->count - 1].end = end;
        return 0;
    }
    if (ranges->count == ranges->room) {
        size_t room = ranges->room ? ranges->room * 2 : 256;
        struct range *all = realloc(ranges->all, room * sizeof *all);
        if (all == NULL) {
            return ENOMEM;
        }
        ranges->all = all;
        ranges->room = room;
    }
    ranges->all[ranges->count++] = (struct range){start, end};
    return 0;
}

/* True if a line describes memory whose pages can be tiered: private, readable, writable, of no
 * file. Stacks that the kernel made are excluded; they are small and always in use. */
static bool wanted(const char *permissions, const char *inode, const char *name)
{
    if (strncmp(permissions, "rw-p", 4) != 0 || strncmp(inode, "0", 1) != 0 || inode[1] != ' ') {
        return false;
    }
    return *name == '\0' || strcmp(name, "[heap]") == 0 || strncmp(name, "[anon:", 6) == 0;
}

/* "start-end perms offset dev inode   name" */
static int take_line(struct ranges *ranges, const char *line)
{
    char *rest;
    uintptr_t start = strtoull(line, &rest, 16);
    uintptr_t end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
    if (*rest != ' ' || end <= start) {
        return 0;
    }
    const char *permissions = rest + 1;
    const char *field = permissions;
    for (int skipped = 0; skipped < 3 && field != NULL; skipped++) {
        field = strchr(field, ' ');
        field = field ? field + 1 : NULL;
    }
    if (field == NULL) {
        return 0;
    }
    const char *name = strchr(field, ' ');
    name = name ? name + strspn(name, " ") : "";
    return wanted(permissions, field, name) ? add(ranges, start, end) : 0;
}

/* Parses the whole lines of a buffer, and returns their number of bytes. */
static size_t take_lines(struct ranges *ranges, char *buffer, size_t filled, int *error)
{
    size_t done = 0;
    for (char *end; *error == 0 && (end = memchr(buffer + done, '\n', filled - done)) != NULL;) {
        *end = '\0';
        *error = take_line(ranges, buffer + done);
        done = (size_t)(end - buffer) + 1;
    }
    return done;
}

int ranges_read(struct ranges *ranges)
{
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return errno;
    }
    char buffer[4 * LINE_BYTES];
    size_t filled = 0;
    int error = 0;
    ranges->count = 0;
    while (error == 0) {
        ssize_t got = read(file, buffer + filled, sizeof buffer - filled);
        if (got <= 0) {
            error = got < 0 && errno != EINTR ? errno : 0;
            if (got == 0 || error != 0) {
                break;
            }
            continue;
        }
        filled += (size_t)got;
        size_t done = take_lines(ranges, buffer, filled, &error);
        if (done == 0 && filled == sizeof buffer) {
            error = EOVERFLOW;
        }
        memmove(buffer, buffer + done, filled - done);
        filled -= done;
    }
    close(file);
    return error;
}

void ranges_clear(struct ranges *ranges)
{
    free(ranges->all);
    memset(ranges, 0, sizeof *ranges);
}
