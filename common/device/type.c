/* The type of a device. uap-core names devices (thousands of models) and systems, but not what they
 * are; users expect one of five words. Rules, the first that holds:
 * 1. Words of television sets: "other", because sets and boxes run the systems of telephones.
 * 2. The device's family, where it says what the device is: "Spider" (uap-core's word for what no
 *    person uses) is a bot, iPads, Kindles and "Generic Tablet" are tablets, and so on.
 * 3. The system: those of desktops, of telephones, of tablets. Android is on both: browsers on
 *    telephones say "Mobile", those on tablets do not (as Android's own browser and Chrome have
 *    it).
 * 4. Anything else, such as a program that fetches a URL: "other". */
#include "common/base/cleanup.h"
#include "common/device/device.h"

#include <string.h>

typedef struct rule {
    const char *word, *type;
} rule_t;

static const char *const television[] = {"SMART-TV", "SmartTV",  "Smart TV", "Android TV",
                                         "GoogleTV", "Apple TV", "AppleTV",  "HbbTV",
                                         "BRAVIA",   "Roku/",    "CrKey"};

static const rule_t families[] = {
    /* beginnings */
    {"Spider", "bot"},
    {"iPad", "tablet"},
    {"Generic Tablet", "tablet"},
    {"Kindle", "tablet"},
    {"BlackBerry Playbook", "tablet"},
    {"HP TouchPad", "tablet"},
    {"Microsoft Surface RT", "tablet"},
    {"Medion Lifetab", "tablet"},
    {"Lenovo Ideapad K1", "tablet"},
    {"iPhone", "mobile"},
    {"iPod", "mobile"},
    {"Generic Smartphone", "mobile"},
    {"Generic Feature Phone", "mobile"},
    {"Apple Watch", "other"},
    {"Nintendo", "other"},
    {"PlayStation", "other"},
    {"Tesla", "other"},
};

static const rule_t systems[] = {
    {"Windows", "desktop"},
    {"Mac OS X", "desktop"},
    {"Mac OS", "desktop"},
    {"Chrome OS", "desktop"},
    {"Linux", "desktop"},
    {"Ubuntu", "desktop"},
    {"Kubuntu", "desktop"},
    {"Lubuntu", "desktop"},
    {"Debian", "desktop"},
    {"Fedora", "desktop"},
    {"Red Hat", "desktop"},
    {"CentOS", "desktop"},
    {"openSUSE", "desktop"},
    {"SUSE", "desktop"},
    {"Arch Linux", "desktop"},
    {"Gentoo", "desktop"},
    {"Slackware", "desktop"},
    {"Mageia", "desktop"},
    {"Mandriva", "desktop"},
    {"Linux Mint", "desktop"},
    {"PCLinuxOS", "desktop"},
    {"Puppy", "desktop"},
    {"BackTrack", "desktop"},
    {"FreeBSD", "desktop"},
    {"OpenBSD", "desktop"},
    {"NetBSD", "desktop"},
    {"BSD", "desktop"},
    {"Solaris", "desktop"},
    {"SerenityOS", "desktop"},
    {"iOS", "mobile"},
    {"Windows Phone", "mobile"},
    {"Windows Mobile", "mobile"},
    {"BlackBerry OS", "mobile"},
    {"KaiOS", "mobile"},
    {"Firefox OS", "mobile"},
    {"Tizen", "mobile"},
    {"Bada", "mobile"},
    {"Sailfish", "mobile"},
    {"MeeGo", "mobile"},
    {"Maemo", "mobile"},
    {"BREW", "mobile"},
    {"Brew MP", "mobile"},
    {"webOS", "mobile"},
    {"Symbian OS", "mobile"},
    {"Symbian^3", "mobile"},
    {"Symbian^3 Anna", "mobile"},
    {"Symbian^3 Belle", "mobile"},
    {"Nokia Series 40", "mobile"},
    {"Nokia Series 30 Plus", "mobile"},
    {"BlackBerry Tablet OS", "tablet"},
    {"WeTab", "tablet"},
    {"Kindle", "tablet"},
};

static bool has_word(const char *agent, size_t len, const char *word)
{
    return memmem(agent, len, word, strlen(word)) != NULL;
}

const char *device_type(const char *family, const char *os, const char *agent, size_t len)
{
    for (size_t i = 0; i < LEN(television); i++)
        if (has_word(agent, len, television[i]))
            return strcmp(family, "Spider") ? "other" : "bot";
    for (size_t i = 0; i < LEN(families); i++)
        if (!strncmp(family, families[i].word, strlen(families[i].word)))
            return families[i].type;
    if (!strcmp(os, "Android"))
        return has_word(agent, len, "Mobile") ? "mobile" : "tablet";
    for (size_t i = 0; i < LEN(systems); i++)
        if (!strcmp(os, systems[i].word))
            return systems[i].type;
    return "other";
}
