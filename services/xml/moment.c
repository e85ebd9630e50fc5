#include "services/xml/moment.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static bool read_number(const char **at, int digits, int low, int high, int *ret_number)
{
    int number = 0;

    for (int i = 0; i < digits; i++) {
        if (!isdigit((unsigned char)**at))
            return false;
        number = 10 * number + *(*at)++ - '0';
    }
    *ret_number = number;
    return number >= low && number <= high;
}

static bool read_mark(const char **at, char mark)
{
    return *(*at)++ == mark;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

static int64_t days_since_1970(int year, int month, int day)
{
    int64_t before = year - 1;
    int64_t days = 365 * before + before / 4 - before / 100 + before / 400 - 719162;

    for (int i = 1; i < month; i++)
        days += days_of_month(year, i);
    return days + day - 1;
}

/* Digits beyond milliseconds are dropped; there are at most nine. */
static bool read_fraction(const char **at, int *ret_ms)
{
    int digits = 0, ms = 0;

    if (**at != '.') {
        *ret_ms = 0;
        return true;
    }
    for ((*at)++; isdigit((unsigned char)**at); (*at)++, digits++)
        if (digits < 3)
            ms = 10 * ms + **at - '0';
    for (int i = digits; i < 3; i++)
        ms *= 10;
    *ret_ms = ms;
    return digits >= 1 && digits <= 9;
}

bool moment_parse(const char *text, int64_t *ret_ms)
{
    int year, month, day, hour, minute, second, ms;
    bool is_time = read_number(&text, 4, 1970, 9999, &year) && read_mark(&text, '-')
                   && read_number(&text, 2, 1, 12, &month) && read_mark(&text, '-')
                   && read_number(&text, 2, 1, 31, &day) && day <= days_of_month(year, month)
                   && read_mark(&text, 'T') && read_number(&text, 2, 0, 23, &hour)
                   && read_mark(&text, ':') && read_number(&text, 2, 0, 59, &minute)
                   && read_mark(&text, ':') && read_number(&text, 2, 0, 59, &second)
                   && read_fraction(&text, &ms) && read_mark(&text, 'Z') && !*text;

    if (is_time)
        *ret_ms = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60000
                  + (int64_t)second * 1000 + ms;
    return is_time;
}

int moment_doubt_ms(const char *text)
{
    const char *point = strchr(text, '.');
    size_t digits = point ? strspn(point + 1, "0123456789") : 0;
    int unit = 1000;

    for (; digits && unit > 1; digits--)
        unit /= 10;
    return unit - 1;
}
