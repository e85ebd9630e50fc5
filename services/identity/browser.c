#include "services/identity/browser.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/quote.h"
#include "common/bus/bus.h"
#include "common/device/device.h"
#include "common/place/place.h"
#include "services/identity/sign_in_words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

/* Set once, before the workers start. */
static device_patterns_t *patterns;
static place_bases_t *bases;

/* A file that a setting names must be one at the start. Where Debian puts its patterns there may be
 * none: that is no setting of anybody's. */
static int load_patterns(const char *path)
{
    char why[200];

    if (!*path || !device_patterns_load(&patterns, path, why, sizeof(why)))
        return 0;
    if (!strcmp(path, DEVICE_PATTERNS)) {
        log_warn("browsers of sessions are not known by name: %s", why);
        return 0;
    }
    log_error("POSTERN_DEVICE_PATTERNS: %s cannot be used (%s): name a file of uap-core's patterns "
              "that this user can read, or leave it empty for none",
              quote(path).text, quote(why).text);
    return fault(-EINVAL, "read the file of POSTERN_DEVICE_PATTERNS");
}

int browser_setup(const config_t *config)
{
    const char *unread;

    bases =
        place_bases_new(config_str(config, "place-cities"), config_str(config, "place-networks"));
    place_bases_look(bases, bus_mono_ms());
    unread = place_bases_unread(bases);
    if (!unread)
        return load_patterns(config_str(config, "device-patterns"));
    log_error(
        "POSTERN_PLACE_CITIES, POSTERN_PLACE_NETWORKS: %s is no MaxMind DB that this user can "
        "read (above): name one, or leave the setting empty for none",
        quote(unread).text);
    return fault(-EINVAL, "read the MaxMind DBs of the settings");
}

/* The text as an address, and its canonical form. False: it is none. */
static bool read_address(const char *text, struct sockaddr_storage *out,
                         char canonical[INET6_ADDRSTRLEN])
{
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

    memset(out, 0, sizeof(*out));
    canonical[0] = '\0';
    if (!text)
        return false;
    if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        return inet_ntop(AF_INET, &in->sin_addr, canonical, INET6_ADDRSTRLEN);
    }
    if (inet_pton(AF_INET6, text, &in6->sin6_addr) != 1)
        return false;
    in6->sin6_family = AF_INET6;
    return inet_ntop(AF_INET6, &in6->sin6_addr, canonical, INET6_ADDRSTRLEN);
}

/* null where nothing is known. */
static json_t *describe_place(const place_t *place)
{
    if (!*place->country_code && !place->has_point)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "country_code",
                     *place->country_code ? json_string(place->country_code) : json_null(),
                     "latitude", place->has_point ? json_real(place->latitude) : json_null(),
                     "longitude", place->has_point ? json_real(place->longitude) : json_null(),
                     "lat_long_radius_km",
                     place->has_radius ? json_integer(place->radius_km) : json_null());
}

static json_t *describe_network(const place_t *place)
{
    if (!place->as_number)
        return json_null();
    return json_pack("{s:I, s:s}", "as_number", (json_int_t)place->as_number, "organization",
                     place->organization);
}

json_t *browser_describe(const char *address, const char *agent)
{
    json_t *raw = words_agent(agent);
    struct sockaddr_storage socket_address; /* of no family where there is none */
    char canonical[INET6_ADDRSTRLEN];
    device_t device;
    place_t place;

    (void)read_address(address, &socket_address, canonical);
    place_bases_look(bases, bus_mono_ms());
    place_find(bases, (const struct sockaddr *)&socket_address, &place);
    device_find(patterns, json_string_value(raw), json_string_length(raw), &device);
    return json_pack("{s:{s:o, s:s, s:s, s:s, s:s, s:s}, s:s, s:o, s:o}", "user_agent", "raw", raw,
                     "browser_name", device.browser, "browser_version", device.browser_version,
                     "device_type", device.type, "os_name", device.os, "os_version",
                     device.os_version, "ip_address", canonical, "location", describe_place(&place),
                     "network", describe_network(&place));
}
