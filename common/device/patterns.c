/* Reads uap-core's regexes.yaml: a map of three lists of maps of texts. Other lists and other texts
 * of a map are passed over (brand and model of a device are not asked for); whatever has another
 * shape is refused, and so are aliases. */
#include "common/base/cleanup.h"
#include "common/device/patterns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

enum { DEPTH_MAX = 16 };

static const char *const section_names[] = {"user_agent_parsers", "os_parsers", "device_parsers"};

/* Names of the replacements of each part, by kind. */
static const char *const part_names[DEVICE_SECTIONS][DEVICE_PARTS] = {
    {"family_replacement", "v1_replacement", "v2_replacement", "v3_replacement", NULL},
    {"os_replacement", "os_v1_replacement", "os_v2_replacement", "os_v3_replacement",
     "os_v4_replacement"},
    {"device_replacement", NULL, NULL, NULL, NULL},
};

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the last that was read */
    bool has_event;
    device_patterns_t *out;
    char *why;
    size_t why_size;
} reader_t;

static int refuse_file(reader_t *self, const char *what)
{
    snprintf(self->why, self->why_size, "line %zu: %s", self->parser.mark.line + 1, what);
    return -EINVAL;
}

static void drop_event(reader_t *self)
{
    if (self->has_event)
        yaml_event_delete(&self->event);
    self->has_event = false;
}

static int next_event(reader_t *self)
{
    drop_event(self);
    if (!yaml_parser_parse(&self->parser, &self->event)) {
        if (self->parser.error == YAML_MEMORY_ERROR)
            return -ENOMEM;
        return refuse_file(self, "is not YAML");
    }
    self->has_event = true;
    return 0;
}

static int expect_event(reader_t *self, yaml_event_type_t type, const char *what)
{
    int r = next_event(self);

    return r || self->event.type == type ? r : refuse_file(self, what);
}

/* The scalar that was read; texts with NUL characters are cut there, and match less. */
static const char *scalar(const reader_t *self)
{
    return (const char *)self->event.data.scalar.value;
}

static int keep(char **at)
{
    return *at ? 0 : -ENOMEM;
}

/* One pair of a pattern's map, whose name was read. */
static int read_pair(reader_t *self, int section, device_row_t *row)
{
    char name[32];
    int r;

    snprintf(name, sizeof(name), "%s", scalar(self));
    r = expect_event(self, YAML_SCALAR_EVENT, "a text is expected");
    if (r)
        return r;
    if (!strcmp(name, "regex")) {
        free(row->pattern);
        row->pattern = strdup(scalar(self));
        return keep(&row->pattern);
    }
    if (!strcmp(name, "regex_flag")) {
        row->ignores_case = !strcmp(scalar(self), "i");
        return row->ignores_case ? 0 : refuse_file(self, "the flag is not known");
    }
    for (int part = 0; part < DEVICE_PARTS; part++)
        if (part_names[section][part] && !strcmp(name, part_names[section][part])) {
            free(row->instead[part]);
            row->instead[part] = strdup(scalar(self));
            return keep(&row->instead[part]);
        }
    return 0;
}

static void free_row(device_row_t *row)
{
    free(row->pattern);
    for (int part = 0; part < DEVICE_PARTS; part++)
        free(row->instead[part]);
}

static int add_row(reader_t *self, device_rows_t *section, device_row_t **ret_row)
{
    if (section->count == DEVICE_PATTERNS_MAX)
        return refuse_file(self, "there are too many patterns");
    if (section->count == section->room) {
        size_t room = section->room ? 2 * section->room : 64;
        device_row_t *grown = reallocarray(section->rows, room, sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        section->rows = grown;
        section->room = room;
    }
    *ret_row = &section->rows[section->count++];
    memset(*ret_row, 0, sizeof(**ret_row));
    return 0;
}

/* One pattern, whose map has begun. */
static int read_row(reader_t *self, int section)
{
    device_row_t *row = NULL;
    int r = add_row(self, &self->out->sections[section], &row);

    while (!r && !(r = next_event(self)) && self->event.type != YAML_MAPPING_END_EVENT)
        r = self->event.type == YAML_SCALAR_EVENT ? read_pair(self, section, row)
                                                  : refuse_file(self, "a name is expected");
    if (!r && !row->pattern)
        r = refuse_file(self, "a pattern has no regex");
    return r;
}

/* Compile what was read; names the line of an expression that is none by its text. */
static int compile_section(reader_t *self, device_rows_t *section)
{
    regex_row_t *rows = calloc(section->count + 1, sizeof(*rows));
    char reason[160];
    size_t bad = 0;
    int r;

    if (!rows)
        return -ENOMEM;
    for (size_t i = 0; i < section->count; i++)
        rows[i] = (regex_row_t){section->rows[i].pattern, section->rows[i].ignores_case};
    r = regex_list_new(&section->list, rows, section->count, &bad, reason, sizeof(reason));
    free(rows);
    if (r)
        snprintf(self->why, self->why_size, "expression %zu of %s: %s", bad + 1,
                 section_names[section - self->out->sections], reason);
    return r;
}

/* Pass over a value that nobody asked for. libyaml's work for each token grows with the depth. */
static int skip_value(reader_t *self)
{
    size_t depth = 0;
    int r;

    do {
        r = next_event(self);
        if (r)
            return r;
        if (self->event.type == YAML_ALIAS_EVENT)
            return refuse_file(self, "aliases are not taken");
        if (depth == DEPTH_MAX)
            return refuse_file(self, "is nested too deeply");
        if (self->event.type == YAML_SEQUENCE_START_EVENT
            || self->event.type == YAML_MAPPING_START_EVENT)
            depth++;
        else if (self->event.type == YAML_SEQUENCE_END_EVENT
                 || self->event.type == YAML_MAPPING_END_EVENT)
            depth--;
    } while (depth);
    return 0;
}

/* One list, whose name was read. */
static int read_section(reader_t *self)
{
    int section = 0, r;

    while (section < DEVICE_SECTIONS && strcmp(scalar(self), section_names[section]))
        section++;
    if (section == DEVICE_SECTIONS)
        return skip_value(self);
    if (self->out->sections[section].list)
        return refuse_file(self, "a list comes twice");
    r = expect_event(self, YAML_SEQUENCE_START_EVENT, "a list is expected");
    while (!r && !(r = next_event(self)) && self->event.type != YAML_SEQUENCE_END_EVENT)
        r = self->event.type == YAML_MAPPING_START_EVENT
                ? read_row(self, section)
                : refuse_file(self, "a pattern is expected");
    return r ? r : compile_section(self, &self->out->sections[section]);
}

static int read_all(reader_t *self)
{
    int r = expect_event(self, YAML_STREAM_START_EVENT, "is not YAML");

    if (!r)
        r = expect_event(self, YAML_DOCUMENT_START_EVENT, "is empty");
    if (!r)
        r = expect_event(self, YAML_MAPPING_START_EVENT, "a map is expected");
    while (!r && !(r = next_event(self)) && self->event.type != YAML_MAPPING_END_EVENT)
        r = self->event.type == YAML_SCALAR_EVENT ? read_section(self)
                                                  : refuse_file(self, "a name is expected");
    for (int i = 0; !r && i < DEVICE_SECTIONS; i++)
        if (!self->out->sections[i].list) {
            snprintf(self->why, self->why_size, "has no %s", section_names[i]);
            r = -EINVAL;
        }
    return r;
}

int device_patterns_parse(device_patterns_t **ret_patterns, const char *text, size_t len, char *why,
                          size_t why_size)
{
    _cleanup_(device_patterns_destroy) device_patterns_t *out = calloc(1, sizeof(*out));
    reader_t reader = {.out = out, .why = why, .why_size = why_size};
    int r;

    snprintf(why, why_size, "out of memory");
    if (!out || !yaml_parser_initialize(&reader.parser))
        return -ENOMEM;
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, len);
    r = read_all(&reader);
    drop_event(&reader);
    yaml_parser_delete(&reader.parser);
    if (r)
        return r;
    *ret_patterns = take(out);
    return 0;
}

static int read_file(const char *path, char **ret_text, size_t *ret_len)
{
    _cleanup_(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    _cleanup_(free_mem) char *text = NULL;
    struct stat st;
    size_t len = 0;

    if (fd < 0 || fstat(fd, &st))
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EISDIR;
    if (st.st_size > DEVICE_FILE_MAX)
        return -EFBIG;
    text = malloc((size_t)st.st_size + 1);
    if (!text)
        return -ENOMEM;
    while (len < (size_t)st.st_size) {
        ssize_t n = read(fd, text + len, (size_t)st.st_size - len);

        if (n < 0)
            return -errno;
        if (!n)
            break;
        len += (size_t)n;
    }
    *ret_text = take(text);
    *ret_len = len;
    return 0;
}

int device_patterns_load(device_patterns_t **ret_patterns, const char *path, char *why,
                         size_t why_size)
{
    _cleanup_(free_mem) char *text = NULL;
    size_t len = 0;
    int r = read_file(path, &text, &len);

    if (r) {
        snprintf(why, why_size, "%s", strerror(-r));
        return r;
    }
    return device_patterns_parse(ret_patterns, text, len, why, why_size);
}

void device_patterns_destroy(device_patterns_t **self_p)
{
    if (!*self_p)
        return;
    for (int i = 0; i < DEVICE_SECTIONS; i++) {
        device_rows_t *section = &(*self_p)->sections[i];

        for (size_t n = 0; n < section->count; n++)
            free_row(&section->rows[n]);
        free(section->rows);
        regex_list_destroy(&section->list);
    }
    free(*self_p);
    *self_p = NULL;
}
