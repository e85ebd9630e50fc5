/* Settings: one row each. The value is that of --name=V, else of the environment variable
 * POSTERN_NAME, else the row's default. --help prints the table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum setting_type { SETTING_STR, SETTING_INT } setting_type_t;

typedef struct setting {
    /* lower case with '-'; the variable is POSTERN_ and the name in upper case with '_' */
    const char *name;
    setting_type_t type;
    const char *fallback; /* default; NULL: the setting is required */
    long min, max;        /* range of an INT */
    const char *meaning;
} setting_t;

enum { CONFIG_MAX = 96 };

typedef struct config {
    const setting_t *rows;
    char *values[CONFIG_MAX];
} config_t;

/* Read the settings; rows end with a NULL name. 0 | 1: help was printed, stop with success |
 * -EINVAL: what is wrong was printed on standard error. */
int config_parse(config_t *self, const setting_t *rows, const char *about, int argc, char **argv);

/* The variable of a setting, for messages: POSTERN_ and the name in upper case with '_'. */
void config_env_name(const char *name, char *out, size_t size);

/* Value of a setting; borrowed. An unknown name is our own mistake and aborts. */
const char *config_str(const config_t *self, const char *name);
long config_int(const config_t *self, const char *name);

/* Free the values; also after config_parse failed. */
void config_done(config_t *self);
