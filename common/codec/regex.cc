#include "common/codec/regex.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <re2/re2.h>

struct re2_regex {
    explicit re2_regex(const char *pattern, const RE2::Options &options) : re(pattern, options)
    {
    }
    RE2 re;
};

int regex_new(regex_t **ret_regex, const char *pattern, char *why, size_t why_size)
{
    RE2::Options options;

    options.set_log_errors(false);
    options.set_max_mem(1 << 20);
    auto regex = std::make_unique<re2_regex>(pattern, options);
    if (!regex->re.ok()) {
        snprintf(why, why_size, "%s", regex->re.error().c_str());
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
