/* A program with a socket for its standard input, over which it is given files. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

typedef struct program {
    pid_t pid;  /* 0: it does not run */
    int socket; /* readable when the program has ended; -1: none */
} program_t;

#define PROGRAM_NONE ((program_t){0, -1})

/* Start the program of that path. It inherits no other file, and of the environment only what
 * sanitizers are told. 0 | fault. */
int program_start(program_t *self, const char *path);

/* End it at once. */
void program_end(program_t *self);

/* Was it started, and not ended? */
bool program_runs(const program_t *self);

/* Give it a byte with two files, which stay the caller's too. 0 | fault; never waits. */
int program_pass(program_t *self, int one, int other);
