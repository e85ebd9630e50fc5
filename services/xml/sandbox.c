#include "services/xml/sandbox.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the numbers of system calls of this processor are not known here"
#endif

enum { FILTER_MAX = 160 };

static rlim_t memory_max = RLIM_INFINITY;

/* ---- system calls ---- */

static const int allowed[] = {
    __NR_brk,          __NR_munmap,         __NR_mremap,          __NR_madvise,
    __NR_futex,        __NR_exit,           __NR_exit_group,      __NR_clock_gettime,
    __NR_gettimeofday, __NR_getrandom,      __NR_rt_sigreturn,    __NR_getpid,
    __NR_gettid,       __NR_rt_sigprocmask, __NR_restart_syscall,
};

/* What a sanitizer's runtime calls while it watches and reports. */
static const int allowed_to_sanitizers[] = {
    __NR_read,       __NR_write,       __NR_openat,       __NR_close,       __NR_fstat,
    __NR_newfstatat, __NR_lseek,       __NR_pread64,      __NR_mmap,        __NR_mprotect,
    __NR_prctl,      __NR_sigaltstack, __NR_rt_sigaction, __NR_sched_yield, __NR_readlinkat,
    __NR_getrlimit,  __NR_prlimit64,   __NR_tgkill,       __NR_ioctl,
#ifdef __NR_readlink
    __NR_readlink,
#endif
};

typedef struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short len;
} filter_t;

static void filter_add(filter_t *self, struct sock_filter one)
{
    if (self->len < FILTER_MAX)
        self->code[self->len++] = one;
}

static void filter_load(filter_t *self, size_t offset)
{
    filter_add(self, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void filter_return(filter_t *self, uint32_t what)
{
    filter_add(self, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

/* Unless what is loaded is value, pass over so many instructions. */
static void filter_unless_equal(filter_t *self, uint32_t value, uint8_t over)
{
    filter_add(self, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, over));
}

static void filter_allow(filter_t *self, const int *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        filter_unless_equal(self, (uint32_t)calls[i], 1);
        filter_return(self, SECCOMP_RET_ALLOW);
    }
}

/* The lower half of an argument: files and flags have no more (all processors above store it
 * first). */
static size_t argument(int i)
{
    return offsetof(struct seccomp_data, args) + 8 * (size_t)i;
}

static void filter_allow_on_file(filter_t *self, int call, int file)
{
    filter_unless_equal(self, (uint32_t)call, 4);
    filter_load(self, argument(0));
    filter_unless_equal(self, (uint32_t)file, 1);
    filter_return(self, SECCOMP_RET_ALLOW);
    filter_return(self, SECCOMP_RET_KILL_PROCESS);
}

/* Memory, but none that can be executed. */
static void filter_allow_memory(filter_t *self, int call)
{
    filter_unless_equal(self, (uint32_t)call, 4);
    filter_load(self, argument(2));
    filter_add(self, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0));
    filter_return(self, SECCOMP_RET_ALLOW);
    filter_return(self, SECCOMP_RET_KILL_PROCESS);
}

static void filter_make(filter_t *self)
{
    filter_load(self, offsetof(struct seccomp_data, arch));
    filter_unless_equal(self, ARCHITECTURE, 1);
    filter_add(self, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
    filter_return(self, SECCOMP_RET_KILL_PROCESS);
    filter_load(self, offsetof(struct seccomp_data, nr));
    filter_allow(self, allowed, LEN(allowed));
    if (SANITIZED)
        filter_allow(self, allowed_to_sanitizers, LEN(allowed_to_sanitizers));
    filter_allow_on_file(self, __NR_read, STDIN_FILENO);
    filter_allow_on_file(self, __NR_write, STDOUT_FILENO);
    filter_allow_memory(self, __NR_mmap);
    filter_allow_memory(self, __NR_mprotect);
    filter_return(self, SECCOMP_RET_KILL_PROCESS);
}

/* ---- bounds ---- */

int sandbox_measure(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    int n = file ? fscanf(file, "%lu", &pages) : 0; /* NOLINT(cert-err34-c): the kernel wrote it */

    if (file)
        fclose(file);
    if (n != 1)
        return fault(-EIO, "read /proc/self/statm");
    if (!SANITIZED)
        memory_max = pages * (rlim_t)sysconf(_SC_PAGESIZE) + SANDBOX_MEMORY;
    return 0;
}

static int set_bounds(void)
{
    const struct itimerval processor = {.it_value = {.tv_usec = 1000 * SANDBOX_CPU_MS}};
    const struct {
        __rlimit_resource_t what;
        rlim_t max;
    } bounds[] = {{RLIMIT_AS, memory_max}, {RLIMIT_CPU, SANDBOX_CPU_SECONDS},
                  {RLIMIT_CORE, 0},        {RLIMIT_NPROC, 0},
                  {RLIMIT_FSIZE, 0},       {RLIMIT_NOFILE, SANITIZED ? 16 : 0}};

    for (size_t i = 0; i < LEN(bounds); i++) {
        const struct rlimit limit = {bounds[i].max, bounds[i].max};

        if (setrlimit(bounds[i].what, &limit))
            return fault(-errno, "set a limit");
    }
    /* RLIMIT_CPU counts whole seconds. This timer counts what the process has used of a processor,
     * so a machine that is busy ends nobody. */
    if (!SANITIZED && setitimer(ITIMER_PROF, &processor, NULL))
        return fault(-errno, "set a timer");
    return 0;
}

int sandbox_enter(void)
{
    filter_t filter = {.len = 0};
    struct sock_fprog program = {.filter = filter.code};
    int r;

    filter_make(&filter);
    program.len = filter.len;
    if (filter.len == FILTER_MAX)
        return fault(-ENOSPC, "make a filter of system calls");
    if (close_range(SANITIZED ? 3 : 2, ~0U, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return fault(-errno, "close files");
    r = set_bounds();
    if (!r && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        r = fault(-errno, "filter system calls");
    return r;
}
