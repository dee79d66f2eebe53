/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Writes and reads pages at strides: a program of a few thousand instructions. */
static char memory[64 * 4096];
static void quit(void)
{
    __asm__ volatile("syscall" : : "a"(60), "D"(0));
}
void _start(void)
{
    for (int round = 0; round < 6; round++)
        for (int page = 0; page < 64; page += 1 + round)
            memory[page * 4096 + round * 64] += (char)page;
    quit();
}
