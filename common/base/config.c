#include "common/base/memory.h"
#include "common/base/invariant.h"
#include "common/base/config.h"
#include "common/base/quote.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void config_env_name(const char *name, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "POSTERN_");

    for (; *name && n + 1 < size; name++)
        out[n++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
    out[n] = '\0';
}

static void print_help(const setting_t *rows, const char *about, const char *program)
{
    char env[80];

    printf("%s\n\nUsage: %s [--name=value ...]\n\n", about, program);
    for (const setting_t *row = rows; row->name; row++) {
        config_env_name(row->name, env, sizeof(env));
        printf("  --%-22s %s\n  %-24s %s; %s%s", row->name, row->meaning, "", env,
               !row->fallback   ? "required"
               : *row->fallback ? "default "
                                : "empty by default",
               row->fallback ? row->fallback : "");
        if (row->type == SETTING_INT)
            printf("; %ld to %ld", row->min, row->max);
        printf("\n");
    }
}

static int find_row(const setting_t *rows, const char *name, size_t len)
{
    for (int i = 0; rows[i].name; i++)
        if (strlen(rows[i].name) == len && !strncmp(rows[i].name, name, len))
            return i;
    return -1;
}

static int check_value(const setting_t *row, const char *value)
{
    char *end, env[80];
    long number;

    config_env_name(row->name, env, sizeof(env));
    if (!value) {
        fprintf(stderr, "error: %s is required: set it, or give --%s=VALUE\n", env, row->name);
        return -EINVAL;
    }
    if (row->type != SETTING_INT)
        return 0;
    errno = 0;
    number = strtol(value, &end, 10);
    if (errno || *end || end == value || number < row->min || number > row->max) {
        fprintf(stderr, "error: %s (--%s) must be a number from %ld to %ld, not %s\n", env,
                row->name, row->min, row->max, quote(value).text);
        return -EINVAL;
    }
    return 0;
}

int config_parse(config_t *self, const setting_t *rows, const char *about, int argc, char **argv)
{
    char env[80];

    memset(self, 0, sizeof(*self));
    self->rows = rows;
    for (int i = 0; rows[i].name; i++)
        INVARIANT(i < CONFIG_MAX); /* before an argument is stored */
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *equals = strchr(arg, '=');
        int row;

        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            print_help(rows, about, argv[0]);
            return 1;
        }
        row = !strncmp(arg, "--", 2) && equals ? find_row(rows, arg + 2, (size_t)(equals - arg - 2))
                                               : -1;
        if (row < 0) {
            fprintf(stderr, "error: unknown argument '%s': see %s --help\n", arg, argv[0]);
            return -EINVAL;
        }
        free(self->values[row]);
        self->values[row] = memory_copy(equals + 1, "a setting");
    }
    for (int i = 0; rows[i].name; i++) {
        if (!self->values[i]) {
            const char *value;

            config_env_name(rows[i].name, env, sizeof(env));
            value = getenv(env);
            if (!value)
                value = rows[i].fallback;
            self->values[i] = value ? memory_copy(value, "a setting") : NULL;
        }
        if (check_value(&rows[i], self->values[i]))
            return -EINVAL;
    }
    return 0;
}

const char *config_str(const config_t *self, const char *name)
{
    int row = find_row(self->rows, name, strlen(name));

    INVARIANT(row >= 0);
    return self->values[row];
}

long config_int(const config_t *self, const char *name)
{
    return strtol(config_str(self, name), NULL, 10);
}

void config_done(config_t *self)
{
    for (int i = 0; i < CONFIG_MAX; i++) {
        free(self->values[i]);
        self->values[i] = NULL;
    }
}
