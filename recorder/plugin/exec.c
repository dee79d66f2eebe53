/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE
#include "exec.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "grow.h"
#include "qemu_api.h"

/* Bytes of a script's first line that the kernel reads (BINPRM_BUF_SIZE). */
#define HEAD_BYTES 256
/* Limit of scripts whose interpreter is a script: the kernel stops after four
 * (BINPRM_MAX_RECURSION). */
#define MAX_INTERPRETERS 4

static char *plugin_option;
static const char *architecture;
static void (*before_refusal)(void);

/* A growing list of strings that ends with NULL. */
struct list {
    char **entries;
    size_t length, capacity;
};

static void push(struct list *list, char *entry)
{
    GROW(list->entries, list->capacity, list->length + 2);
    list->entries[list->length++] = entry;
    list->entries[list->length] = NULL;
}

static char *copy_of(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        fatal("out of memory");
    return copy;
}

/* Appends a value; QEMU reads a doubled comma as a comma of the value. */
static void append_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == ',')
            fputc(',', out);
        fputc(*text, out);
    }
}

void exec_init(int argc, char **argv, const char *target, void (*on_refusal)(void))
{
    Dl_info self;
    size_t bytes;
    FILE *out = open_memstream(&plugin_option, &bytes);
    if (!out || dladdr(&plugin_option, &self) == 0)
        fatal("cannot find the plugin's own file");
    append_escaped(out, self.dli_fname);
    for (int i = 0; i < argc; i++) {
        fputc(',', out);
        append_escaped(out, argv[i]);
    }
    if (fclose(out) != 0)
        fatal("out of memory");
    architecture = target;
    before_refusal = on_refusal;
}

/* Reads guest memory, which is the host's. The kernel does the read, because the pointer may be
 * invalid; false if it refuses. */
static bool read_guest(void *to, uint64_t from, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)from, bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* Reads a guest's string; NULL if it is not readable. */
static char *read_string(uint64_t at)
{
    char *text = NULL;
    size_t length = 0, capacity = 0;
    do {
        GROW(text, capacity, length + 1);
        if (!read_guest(text + length, at + length, 1)) {
            free(text);
            return NULL;
        }
    } while (text[length++] != '\0');
    return text;
}

/* Reads a guest's list of strings. A null pointer is an empty list, as for the kernel. */
static bool read_strings(struct list *list, uint64_t at)
{
    push(list, NULL);
    list->length = 0;
    for (uint64_t entry; at != 0; at += sizeof entry) {
        if (!read_guest(&entry, at, sizeof entry))
            return false;
        if (entry == 0)
            break;
        char *text = read_string(entry);
        if (!text)
            return false;
        push(list, text);
    }
    return true;
}

/* Returns a path that stays valid after the exec, when links in /proc name QEMU or are closed. */
static char *lasting(char *path)
{
    char own[64];
    snprintf(own, sizeof own, "/proc/%d/exe", getpid());
    if (strcmp(path, "/proc/self/exe") == 0 || strcmp(path, own) == 0)
        return copy_of(qemu_plugin_path_to_binary());
    if (strncmp(path, "/proc/", 6) != 0)
        return path;
    char *real = realpath(path, NULL);
    return real ? real : path;
}

static char *joined(int directory, char *path, int flags)
{
    char *whole;
    if (path[0] == '/' || (directory == AT_FDCWD && path[0] != '\0'))
        return lasting(path);
    if (path[0] == '\0' && !(flags & AT_EMPTY_PATH))
        return NULL;
    if (asprintf(&whole, "/proc/self/fd/%d%s%s", directory, path[0] ? "/" : "", path) < 0)
        fatal("out of memory");
    return lasting(whole);
}

/* Ends the guest: the kernel would run this program, and the recorder cannot. */
static _Noreturn void refuse(const char *path, const char *reason)
{
    before_refusal();
    fatal("the program executes %s, %s", path, reason);
}

/* Reads the start of an executable file; -1 if the kernel would refuse to run it. */
static ssize_t head_of(const char *path, char *head)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || access(path, X_OK) != 0)
        return -1;
    bool other_user = (status.st_mode & S_ISUID) && status.st_uid != geteuid();
    bool other_group = (status.st_mode & S_ISGID) && status.st_gid != getegid();
    if (other_user || other_group)
        refuse(path, "which would change its user or group; such a program cannot be recorded");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        refuse(path, "which cannot be read; QEMU must read what it runs");
    ssize_t bytes = read(file, head, HEAD_BYTES);
    close(file);
    return bytes;
}

/* Splits "#! INTERPRETER ARGUMENT"; false if it names no interpreter. */
static bool interpreter_of(char *line, char **interpreter, char **argument)
{
    line[strcspn(line, "\n")] = '\0';
    char *start = line + 2 + strspn(line + 2, " \t");
    for (size_t end = strlen(start); end > 0 && strchr(" \t", start[end - 1]); end--)
        start[end - 1] = '\0';
    if (*start == '\0')
        return false;
    char *gap = strpbrk(start, " \t");
    *interpreter = start;
    *argument = NULL;
    if (gap) {
        *gap = '\0';
        *argument = gap + 1 + strspn(gap + 1, " \t");
    }
    return true;
}

static void check_elf(const char *path, const char *head, size_t bytes)
{
    Elf64_Ehdr elf;
    if (bytes < sizeof elf)
        return;
    memcpy(&elf, head, sizeof elf);
    unsigned machine = strcmp(architecture, "x86_64") == 0 ? EM_X86_64 : EM_AARCH64;
    if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != machine)
        refuse(path,
               "which is no 64-bit program of this machine's own architecture; only such can be "
               "recorded");
}

/* Puts the interpreter, its argument and the script in front of the script's own arguments. */
static void interpret(struct list *arguments, char *interpreter, char *argument, char *script)
{
    struct list longer = {0};
    push(&longer, copy_of(interpreter));
    if (argument)
        push(&longer, copy_of(argument));
    push(&longer, script);
    for (size_t i = 1; i < arguments->length; i++)
        push(&longer, arguments->entries[i]);
    free(arguments->entries);
    *arguments = longer;
}

/* Follows interpreters to the ELF file; NULL if the kernel would refuse. */
static char *elf_behind(char *path, struct list *arguments)
{
    for (int depth = 0; depth <= MAX_INTERPRETERS; depth++) {
        char head[HEAD_BYTES + 1], *interpreter, *argument;
        ssize_t bytes = head_of(path, head);
        if (bytes < 0)
            return NULL;
        head[bytes] = '\0';
        if (bytes >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0) {
            check_elf(path, head, (size_t)bytes);
            return path;
        }
        if (strncmp(head, "#!", 2) != 0 || !interpreter_of(head, &interpreter, &argument))
            return NULL;
        interpret(arguments, interpreter, argument, path);
        path = copy_of(interpreter);
    }
    return NULL;
}

static char *own_emulator(void)
{
    char *path = realpath("/proc/self/exe", NULL);
    if (!path)
        fatal("cannot find QEMU's own file: %s", strerror(errno));
    return path;
}

bool exec_resolve(struct exec *exec, int directory, uint64_t path, uint64_t arguments,
                  uint64_t environment, int flags)
{
    struct list given = {0}, variables = {0}, all = {0};
    char *name = read_string(path);
    char *file = name ? joined(directory, name, flags) : NULL;
    if (!file || !read_strings(&given, arguments) || !read_strings(&variables, environment))
        return false;
    char *program = elf_behind(file, &given);
    if (!program)
        return false;
    push(&all, own_emulator());
    push(&all, "-plugin");
    push(&all, plugin_option);
    push(&all, "-0");
    push(&all, given.length > 0 ? given.entries[0] : "");
    /* QEMU would read a name that starts with a dash as an option. */
    char *plain = program;
    if (program[0] == '-' && asprintf(&plain, "./%s", program) < 0)
        fatal("out of memory");
    push(&all, plain);
    for (size_t i = 1; i < given.length; i++)
        push(&all, given.entries[i]);
    *exec = (struct exec){program, all.entries, variables.entries};
    return true;
}

void exec_run(const struct exec *exec)
{
    execve(exec->arguments[0], exec->arguments, exec->environment);
    fatal("cannot follow the program to %s: %s", exec->program, strerror(errno));
}
