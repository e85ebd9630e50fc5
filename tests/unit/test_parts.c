#include "services/edge/control/parts.h"

#include "common/codec/pack.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Frames with "|" between; what passes is written the same way, with ">" before it. */
static const char *take(parts_t *parts, const char *text)
{
    static char copy[512], said[512];
    merge_frame_t frames[MERGE_FRAMES_MAX];
    size_t n = 0, len = 0;
    parts_step_t step;

    snprintf(copy, sizeof(copy), "%s", text);
    for (char *at = copy, *word; (word = strsep(&at, "|"));)
        frames[n++] = (merge_frame_t){word, strlen(word)};
    step = parts_take(parts, frames, &n);
    if (step != PARTS_PASS)
        return step == PARTS_WAIT ? "wait" : "lost";
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(said + len, sizeof(said) - len, "%c%.*s", i ? '|' : '>',
                                (int)frames[i].len, frames[i].data);
    return said;
}

typedef struct said {
    const char *message, *becomes;
} said_t;

static const struct {
    const char *what;
    said_t said[6];
} rows[] = {
    {"a whole message passes as it is",
     {{"delta|L|5|6|abc", ">delta|L|5|6|abc"},
      {"delta|L|5|6|abc|7,8", ">delta|L|5|6|abc|7,8"},
      {"beat|L|0|6", ">beat|L|0|6"},
      {"who", ">who"}}},
    {"parts become one body",
     {{"part|L|5|6|abc|0", "wait"},
      {"part|L|5|6|de|3", "wait"},
      {"delta|L|5|6|f||6", ">delta|L|5|6|abcdef"},
      {"part|L|0|9|gh|0", "wait"},
      {"more|L|0|9|i||3", ">more|L|0|9|ghi"}}},
    {"with the revisions between",
     {{"part|L|5|9|abc|0", "wait"}, {"delta|L|5|9|d|7,8|4", ">delta|L|5|9|abcd|7,8"}}},
    {"what comes between them passes",
     {{"part|L|5|6|abc|0", "wait"},
      {"beat|L|0|6", ">beat|L|0|6"},
      {"delta|L|5|6|d||4", ">delta|L|5|6|abcd"}}},
    {"the first part begins anew",
     {{"part|L|5|6|abc|0", "wait"},
      {"part|L|5|7|xy|0", "wait"},
      {"delta|L|5|7|z||3", ">delta|L|5|7|xyz"}}},
    {"a part that is missing is missed",
     {{"part|L|5|6|abc|0", "wait"},
      {"part|L|5|6|ghi|6", "lost"},
      {"delta|L|5|6|j||10", "lost"},
      {"delta|L|5|6|k", ">delta|L|5|6|k"}}},
    {"the end of a body whose beginning did not come is nothing",
     {{"delta|L|5|6|d||4", "lost"},
      {"part|L|5|6|abc|3", "lost"},
      {"part|L|5|6|abc|0", "wait"},
      {"delta|L|5|6|d||5", "lost"},
      {"delta|L|5|6|d||4", "lost"}}},
    {"a body is told once",
     {{"part|L|5|6|abc|0", "wait"},
      {"delta|L|5|6|d||4", ">delta|L|5|6|abcd"},
      {"delta|L|5|6|d||4", "lost"}}},
    {"an offset is a number as it is written",
     {{"part|L|5|6|abc|", "lost"},
      {"part|L|5|6|abc|00", "lost"},
      {"part|L|5|6|abc|-0", "lost"},
      {"part|L|5|6|abc|0", "wait"},
      {"delta|L|5|6|d||04", "lost"}}},
};

Test(parts, make_a_message_whole_or_leave_it)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        parts_t parts = {0};

        for (const said_t *said = rows[i].said; said < rows[i].said + 6 && said->message; said++)
            cr_expect_str_eq(take(&parts, said->message), said->becomes, "%s: %s", rows[i].what,
                             said->message);
        parts_clear(&parts);
    }
}

Test(parts, are_no_more_than_a_message_may_have)
{
    static char bytes[1 << 20];
    parts_t parts = {0};

    for (size_t at = 0; at <= PACK_BYTES_MAX; at += sizeof(bytes)) {
        char offset[24];
        merge_frame_t frames[] = {{"part", 4}, {"L", 1}, {"5", 1}, {"6", 1}, {bytes, sizeof(bytes)},
                                  {offset, 0}};
        size_t n = 6;

        frames[5].len = (size_t)snprintf(offset, sizeof(offset), "%zu", at);
        cr_expect_eq(parts_take(&parts, frames, &n), at < PACK_BYTES_MAX ? PARTS_WAIT : PARTS_LOST);
    }
    cr_expect_null(parts.data, "and nothing of it is kept");
}
