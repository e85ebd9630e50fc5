/* Settings: one row each. Value from --name=V, else the environment variable POSTERN_NAME, else
 * the row's default. --help prints the table. */
#pragma once

#include <stdbool.h>

typedef enum setting_type { SETTING_STR, SETTING_INT } setting_type_t;

typedef struct setting {
    const char *name; /* lower case with '-' ; POSTERN_ + upper case with '_' in the environment */
    setting_type_t type;
    const char *fallback; /* NULL: required */
    long min, max;        /* INT: range */
    const char *meaning;
} setting_t;

enum { CONFIG_MAX = 48 };

typedef struct config {
    const setting_t *rows;
    char *values[CONFIG_MAX];
} config_t;

/* Read the settings; rows end with a NULL name. Prints help or what is wrong, then says so:
 * 0 | 1 (help was printed: stop with success) | -EINVAL (told on stderr). */
int config_parse(config_t *self, const setting_t *rows, const char *about, int argc, char **argv);

/* Borrowed. The name must be a row: anything else is our own mistake and aborts. */
const char *config_str(const config_t *self, const char *name);
long config_int(const config_t *self, const char *name);

void config_done(config_t *self);
