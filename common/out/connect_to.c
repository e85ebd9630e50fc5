#include "common/out/connect_to.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* host:port:to-host:to-port, where a host may be an IPv6 address in brackets. */
static bool is_item(const char *item)
{
    unsigned parts = 0;

    while (*item) {
        size_t len = *item == '[' ? strcspn(item, "]") + 1 : strcspn(item, ":");

        if (!len || (item[0] == '[' && item[len - 1] != ']')
            || (parts % 2 && strspn(item, "0123456789") != len))
            return false;
        item += len;
        parts++;
        if (*item == ':' && !*++item)
            return false;
    }
    return parts == 4;
}

int connect_to_read(struct curl_slist **ret_list, const char *text, char **ret_bad)
{
    static const char separators[] = " ,";
    struct curl_slist *longer;
    int r = 0;

    for (text = text ? text : ""; !r && *(text += strspn(text, separators));) {
        size_t len = strcspn(text, separators);
        char *item = strndup(text, len);

        if (!item)
            return -ENOMEM;
        text += len;
        if (!is_item(item)) {
            *ret_bad = item;
            return -EINVAL;
        }
        longer = curl_slist_append(*ret_list, item);
        free(item);
        *ret_list = longer ? longer : *ret_list;
        r = longer ? 0 : -ENOMEM;
    }
    return r;
}
