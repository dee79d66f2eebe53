/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program without a C library, so that it behaves the same under any emulator: it writes 64
 * pages, reads them in strides, modifies them in place and crosses lines and pages. Build with gcc
 * -O1 -static -nostdlib -fno-stack-protector -mno-sse.
 */
#define PAGE 4096UL

static volatile unsigned long area[64 * PAGE / 8] __attribute__((aligned(4096)));

static void leave(void)
{
#if defined(__x86_64__)
    __asm__ volatile("syscall" : : "a"(231L), "D"(0L)); /* exit_group */
#else
    register long number __asm__("x8") = 94;
    __asm__ volatile("svc 0" : : "r"(number));
#endif
}

void _start(void)
{
    unsigned long sum = 0;
    for (unsigned long i = 0; i < 64 * PAGE / 8; i += 3)
        area[i] = i;
    for (int round = 0; round < 20; round++) {
        for (unsigned long i = 0; i < 64 * PAGE / 8; i += 29)
            sum += area[i];
    }
    for (unsigned long i = 0; i < 64 * PAGE / 8; i += 101)
        area[i] += sum;
    volatile char *bytes = (volatile char *)area;
    for (unsigned long i = 60; i + 8 < 64 * PAGE; i += 1000)
        *(volatile unsigned long *)(bytes + i) = i;
    leave();
}
