#include "common/device/patterns.h"

#include <string.h>

enum { GROUPS = 10 /* the match, and $1 to $9 */ };

typedef struct text {
    char *at;
    size_t size, len;
} text_t;

/* Append, and cut between two characters where there is no more room. */
static void text_put(text_t *self, const char *bytes, size_t len)
{
    size_t room = self->size - 1 - self->len;

    if (!bytes)
        return;
    if (len > room) {
        len = room;
        while (len && ((unsigned char)bytes[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(self->at + self->len, bytes, len);
    self->len += len;
    self->at[self->len] = '\0';
}

/* One part of a match: the replacement with its groups put in, else the group. Spaces around it are
 * those of groups that took no part. */
static void put_part(text_t *out, const device_row_t *row, const regex_part_t *groups, int part)
{
    const char *instead = row->instead[part];
    size_t start = out->len;

    if (!instead)
        text_put(out, groups[part + 1].text, groups[part + 1].len);
    for (; instead && *instead; instead++) {
        if (*instead == '$' && instead[1] >= '1' && instead[1] <= '9') {
            instead++;
            text_put(out, groups[*instead - '0'].text, groups[*instead - '0'].len);
        } else {
            size_t n = 1 + strcspn(instead + 1, "$");

            text_put(out, instead, n);
            instead += n - 1;
        }
    }
    while (out->len > start && out->at[out->len - 1] == ' ')
        out->at[--out->len] = '\0';
    while (out->len > start && out->at[start] == ' ')
        memmove(out->at + start, out->at + start + 1, out->len-- - start);
}

/* The version: its numbers up to the first that is not there, with dots between. */
static void put_version(text_t *out, const device_row_t *row, const regex_part_t *groups,
                        int numbers)
{
    for (int part = 1; part <= numbers; part++) {
        size_t before = out->len;

        if (before)
            text_put(out, ".", 1);
        put_part(out, row, groups, part);
        if (out->len == before + (before > 0)) {
            out->at[out->len = before] = '\0';
            return;
        }
    }
}

/* Name and version by one kind of patterns; both are empty where none matches. uap-core's word for
 * what is not known, "Other", is no name. */
static void find_names(const device_rows_t *section, const char *agent, size_t len, text_t name,
                       text_t version, int numbers)
{
    regex_part_t groups[GROUPS];
    int found = regex_list_first(section->list, agent, len, groups, GROUPS);

    *name.at = *version.at = '\0';
    if (found < 0)
        return;
    put_part(&name, &section->rows[found], groups, 0);
    if (!strcmp(name.at, "Other"))
        *name.at = '\0';
    if (*name.at)
        put_version(&version, &section->rows[found], groups, numbers);
}

#define TEXT(array) ((text_t){.at = (array), .size = sizeof(array)})

void device_find(const device_patterns_t *patterns, const char *agent, size_t len,
                 device_t *ret_device)
{
    device_t *out = ret_device;
    char no_version[DEVICE_VERSION_MAX];

    memset(out, 0, sizeof(*out));
    out->type = "other";
    if (!patterns || !agent)
        return;
    if (len > DEVICE_AGENT_MAX)
        len = DEVICE_AGENT_MAX;
    find_names(&patterns->sections[DEVICE_BROWSERS], agent, len, TEXT(out->browser),
               TEXT(out->browser_version), 3);
    find_names(&patterns->sections[DEVICE_SYSTEMS], agent, len, TEXT(out->os),
               TEXT(out->os_version), 4);
    find_names(&patterns->sections[DEVICE_DEVICES], agent, len, TEXT(out->family), TEXT(no_version),
               0);
    out->type = device_type(out->family, out->os, agent, len);
}
