/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watchmisses: requests that this guest's plugin, if there is one, starts counting misses, and
 * waits until it has started. The layout is that of lab/plugin/counters.h. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>

#include "common.h"

#define DEVICES "/sys/bus/pci/devices"
/* ivshmem: Red Hat's vendor number and the device's. */
#define VENDOR "0x1af4"
#define DEVICE "0x1110"
/* Words of the counters' header. */
enum { WANTED = 5, WATCHING = 6 };

/* True if a file of the device holds this text. */
static int file_contains(const char *device, const char *file, const char *text)
{
    char path[512], found[32] = "";
    snprintf(path, sizeof path, DEVICES "/%s/%s", device, file);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    ssize_t length = read(descriptor, found, sizeof found - 1);
    close(descriptor);
    return length > 0 && strncmp(found, text, strlen(text)) == 0;
}

static void enable(const char *device)
{
    char path[512];
    snprintf(path, sizeof path, DEVICES "/%s/enable", device);
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0 || write(descriptor, "1", 1) != 1)
        fail("%s: %s", path, strerror(errno));
    close(descriptor);
}

static volatile uint64_t *counters_of(const char *device)
{
    char path[512];
    snprintf(path, sizeof path, DEVICES "/%s/resource2", device);
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        fail("%s: %s", path, strerror(errno));
    void *memory = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED)
        fail("%s: %s", path, strerror(errno));
    close(descriptor);
    return memory;
}

int main(void)
{
    DIR *devices = opendir(DEVICES);
    if (!devices)
        fail("%s: %s", DEVICES, strerror(errno));
    for (struct dirent *entry; (entry = readdir(devices));) {
        if (!file_contains(entry->d_name, "vendor", VENDOR) ||
            !file_contains(entry->d_name, "device", DEVICE))
            continue;
        enable(entry->d_name);
        volatile uint64_t *counters = counters_of(entry->d_name);
        counters[WANTED] = 1;
        while (!counters[WATCHING])
            sched_yield();
    }
    closedir(devices);
    return 0;
}
