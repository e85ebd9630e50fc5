#include "common/codec/regex.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <re2/re2.h>
#include <re2/set.h>
#include <string>

struct re2_regex {
    explicit re2_regex(const char *pattern, const RE2::Options &options) : re(pattern, options)
    {
    }
    RE2 re;
};

struct re2_set {
    explicit re2_set(const RE2::Options &options) : set(options, RE2::UNANCHORED)
    {
    }
    RE2::Set set;
    size_t text_max = 0;
};

/* RE2 bounds what an expression may take when it is compiled, not what it takes to read: a class
 * of nearly all characters is gone through once for each time it is named, with its upper and
 * lower case. Sixteen expressions of 4 KiB took 3.3 s, and came to nothing. So what may name
 * such a class is counted: \p, \P, \W, \D, \S, [:^x:], and a range that ends beyond ASCII. */
static size_t count_wide(const char *pattern)
{
    size_t wide = 0;

    for (const char *c = pattern; *c; c++) {
        if (*c == '\\' && c[1] && strchr("pPWDS", c[1]))
            wide++;
        else if (!strncmp(c, "[:^", 3))
            wide++;
        else if (*c == '-' && (!strncmp(c + 1, "\\x", 2) || (unsigned char)c[1] >= 0x80))
            wide++;
    }
    return wide;
}

static int check_wide(const char *const *patterns, size_t count, char *why, size_t why_size)
{
    size_t wide = 0;

    for (size_t i = 0; i < count; i++)
        wide += count_wide(patterns[i]);
    if (wide <= REGEX_SET_WIDE)
        return 0;
    snprintf(why, why_size,
             "has more than %d of \\p, \\P, \\W, \\D, \\S, [:^x:] and ranges beyond ASCII",
             REGEX_SET_WIDE);
    return -EINVAL;
}

int regex_new(regex_t **ret_regex, const char *pattern, char *why, size_t why_size)
{
    RE2::Options options;

    if (check_wide(&pattern, 1, why, why_size))
        return -EINVAL;
    options.set_log_errors(false);
    options.set_max_mem(REGEX_SET_BYTES); /* compiling takes as long as it may take memory */
    auto regex = std::make_unique<re2_regex>(pattern, options);
    if (!regex->re.ok()) {
        snprintf(why, why_size, "is no expression that RE2 takes: '%s'", regex->re.error().c_str());
        return -EINVAL;
    }
    *ret_regex = regex.release();
    return 0;
}

bool regex_search(const regex_t *self, const char *text, size_t len)
{
    return RE2::PartialMatch(re2::StringPiece(text, len), self->re);
}

void regex_destroy(regex_t **self_p)
{
    delete *self_p;
    *self_p = nullptr;
}

/* Add an expression; *program grows by its instructions, which are those that it brings into the
 * set's program: RE2 does not say how long that one is. */
static int add_pattern(re2_set *set, const char *pattern, const RE2::Options &options,
                       size_t *program, char *why, size_t why_size)
{
    RE2 alone(pattern, options);

    if (!alone.ok() || set->set.Add(pattern, nullptr) < 0) {
        snprintf(why, why_size, "is no expression that RE2 takes: '%s'", alone.error().c_str());
        return -EINVAL;
    }
    *program += (size_t)alone.ProgramSize();
    return 0;
}

/* How long a text may be for a program of so many instructions. */
static size_t text_max_of(size_t program)
{
    size_t bytes = REGEX_SET_WORK / (program ? program : 1);

    return std::max(bytes, (size_t)REGEX_SET_SURE);
}

int regex_set_new(regex_set_t **ret_set, const char *const *patterns, size_t count, char *why,
                  size_t why_size)
{
    RE2::Options options;
    size_t text = 0, program = 0;

    options.set_log_errors(false);
    options.set_max_mem(REGEX_SET_BYTES);
    for (size_t i = 0; i < count; i++)
        text += strlen(patterns[i]) + 1;
    if (text > REGEX_SET_TEXT) {
        snprintf(why, why_size, "the expressions are longer than %d bytes", REGEX_SET_TEXT);
        return -EINVAL;
    }
    if (check_wide(patterns, count, why, why_size))
        return -EINVAL;
    auto set = std::make_unique<re2_set>(options);
    for (size_t i = 0; i < count; i++)
        if (add_pattern(set.get(), patterns[i], options, &program, why, why_size))
            return -EINVAL;
    if (!set->set.Compile()) {
        snprintf(why, why_size, "the expressions take more than %d bytes when compiled",
                 REGEX_SET_BYTES);
        return -EINVAL;
    }
    set->text_max = text_max_of(program);
    *ret_set = set.release();
    return 0;
}

size_t regex_set_text_max(const regex_set_t *self)
{
    return self->text_max;
}

/* A set has its automaton only, nothing to fall back on: without memory for it the answer of RE2 is
 * the same as where nothing matches. */
regex_found_t regex_set_search(const regex_set_t *self, const char *text, size_t len)
{
    RE2::Set::ErrorInfo info;

    if (len > self->text_max)
        return REGEX_FOUND_UNKNOWN;
    if (self->set.Match(re2::StringPiece(text, len), nullptr, &info))
        return REGEX_FOUND_ONE;
    return info.kind == RE2::Set::kNoError ? REGEX_FOUND_NONE : REGEX_FOUND_UNKNOWN;
}

void regex_set_destroy(regex_set_t **self_p)
{
    delete *self_p;
    *self_p = nullptr;
}
