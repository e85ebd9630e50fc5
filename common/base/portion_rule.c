#include "common/base/portion_rule.h"

enum { FRACTION = 4096 }; /* what is left of all, in parts of this */

bool portion_allows(size_t has, size_t more, size_t all, size_t left, size_t percent)
{
    size_t then, most;

    if (more > left || left > all)
        return false;
    then = left - more;
    most = all ? then * (then * FRACTION / all) * percent / 100 / FRACTION : 0;
    return has <= most && more <= most - has;
}

bool portion_allows_one(size_t has, size_t all, size_t left, size_t percent)
{
    return left && (!has || portion_allows(has, 1, all, left, percent));
}
