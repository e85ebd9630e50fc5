#include "services/edge/modules/webhook_header.h"

#include <string.h>

bool webhook_text_is(webhook_text_t text, const char *other)
{
    return text.len == strlen(other) && !memcmp(text.at, other, text.len);
}

bool webhook_text_begins(webhook_text_t text, const char *mark)
{
    size_t len = strlen(mark);

    return text.len >= len && !memcmp(text.at, mark, len);
}

/* Takes the next item off rest, without the blanks around it. */
static webhook_text_t take_item(webhook_text_t *rest, char separator)
{
    webhook_text_t item = *rest;
    const char *end = separator ? memchr(rest->at, separator, rest->len) : NULL;

    if (end)
        item.len = (size_t)(end - rest->at);
    rest->at += item.len + (end ? 1 : 0);
    rest->len -= item.len + (end ? 1 : 0);
    while (separator && item.len && *item.at == ' ') {
        item.at++;
        item.len--;
    }
    while (separator && item.len && item.at[item.len - 1] == ' ')
        item.len--;
    return item;
}

bool webhook_header_marked(webhook_text_t value, char separator, const char *mark,
                           webhook_text_t *out, size_t *count)
{
    while (value.len) {
        webhook_text_t item = take_item(&value, separator);

        if (!webhook_text_begins(item, mark))
            continue;
        if (*count == WEBHOOK_SIGNATURES_MAX)
            return false;
        item.at += strlen(mark);
        item.len -= strlen(mark);
        out[(*count)++] = item;
    }
    return true;
}

bool webhook_header_item(webhook_text_t value, char separator, const char *name,
                         webhook_text_t *out)
{
    bool found = false;

    while (value.len) {
        webhook_text_t item = take_item(&value, separator);

        if (!webhook_text_begins(item, name))
            continue;
        if (found)
            return false;
        found = true;
        out->at = item.at + strlen(name);
        out->len = item.len - strlen(name);
    }
    return found;
}

bool webhook_header_only(const webhook_request_t *request, webhook_text_t name, webhook_text_t *out)
{
    return request->headers(request->arg, name, out, 1) == 1;
}

/* Takes from min to max digits off text; -1: there are others. */
static int64_t take_digits(webhook_text_t *text, size_t min, size_t max)
{
    int64_t number = 0;
    size_t n = 0;

    while (n < max && n < text->len && text->at[n] >= '0' && text->at[n] <= '9')
        number = number * 10 + (text->at[n++] - '0');
    text->at += n;
    text->len -= n;
    return n < min ? -1 : number;
}

static bool take_one_of(webhook_text_t *text, const char *characters, char *ret)
{
    if (!text->len || !*text->at || !strchr(characters, *text->at))
        return false;
    *ret = *text->at;
    text->at++;
    text->len--;
    return true;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t era, of_era;

    year -= month <= 2;
    era = year / 400;
    of_era = year - era * 400;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100
           + (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1 - 719468;
}

static int64_t days_in(int64_t year, int64_t month)
{
    return month == 12 ? 31 : days_of(year, month + 1, 1) - days_of(year, month, 1);
}

static bool take_fraction(webhook_text_t *text, int64_t *ret_ms)
{
    char point;
    int64_t digits;
    size_t before;

    *ret_ms = 0;
    if (!take_one_of(text, ".", &point))
        return true;
    before = text->len;
    digits = take_digits(text, 1, 9);
    if (digits < 0)
        return false;
    for (size_t n = before - text->len; n < 9; n++)
        digits *= 10;
    *ret_ms = digits / 1000000;
    return true;
}

static bool take_zone(webhook_text_t *text, int64_t *ret_s)
{
    char sign, colon;
    int64_t hours, minutes;

    *ret_s = 0;
    if (take_one_of(text, "Z", &sign))
        return !text->len;
    if (!take_one_of(text, "+-", &sign))
        return false;
    hours = take_digits(text, 2, 2);
    take_one_of(text, ":", &colon);
    minutes = take_digits(text, 2, 2);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || text->len)
        return false;
    *ret_s = (hours * 60 + minutes) * (sign == '-' ? -60 : 60);
    return true;
}

/* has_zone: its end says which zone it is of; else it has to end without one, and is UTC. */
static bool parse_iso(webhook_text_t text, bool has_zone, int64_t *ret_ms)
{
    static const char after[] = {'-', '-', 'T', ':', ':', '\0'};
    static const int64_t most[] = {9999, 12, 31, 23, 59, 59};
    int64_t parts[6], ms, zone_s = 0;

    for (int i = 0; i < 6; i++) {
        char mark;

        parts[i] = take_digits(&text, i ? 2 : 4, i ? 2 : 4);
        if (parts[i] < 0 || parts[i] > most[i])
            return false;
        if (after[i] && !take_one_of(&text, (char[]){after[i], '\0'}, &mark))
            return false;
    }
    if (parts[0] < 1970 || parts[1] < 1 || parts[2] < 1 || parts[2] > days_in(parts[0], parts[1])
        || !take_fraction(&text, &ms) || (has_zone ? !take_zone(&text, &zone_s) : text.len > 0))
        return false;
    *ret_ms = ((days_of(parts[0], parts[1], parts[2]) * 24 + parts[3]) * 60 + parts[4]) * 60
              + parts[5] - zone_s;
    *ret_ms = *ret_ms * 1000 + ms;
    return true;
}

bool webhook_time_parse(webhook_text_t text, webhook_unit_t unit, int64_t *ret_ms)
{
    int64_t number;

    if (unit == WEBHOOK_ISO || unit == WEBHOOK_ISO_UTC)
        return parse_iso(text, unit == WEBHOOK_ISO, ret_ms);
    if (text.len > 1 && text.at[0] == '0')
        return false; /* a zero could be the end of what is signed before the time */
    number = take_digits(&text, 1, 14);
    if (number < 0 || text.len)
        return false;
    *ret_ms = unit == WEBHOOK_S ? number * 1000 : number;
    return true;
}
