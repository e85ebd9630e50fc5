/* The header of the PROXY protocol, versions 1 and 2, with which a load balancer begins a
 * connection: whose connection it passes on
 * (https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt). Who may send one, and when it is
 * read, is up to edge_proxy.c. No nginx in here. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    PROXY_HEADER_MAX = 4096 /* bytes; a longer one, by its TLVs, is refused */
};

typedef enum {
    PROXY_HEADER_WHOLE,
    PROXY_HEADER_CUT,   /* so far it is one: the rest is to come */
    PROXY_HEADER_BROKEN /* it is none, whatever comes */
} proxy_header_state_t;

typedef struct proxy_header {
    size_t length;     /* bytes; what follows is the client's */
    bool names_client; /* no: LOCAL, UNKNOWN, AF_UNSPEC, AF_UNIX. The peer's own address counts */
    socklen_t client_len; /* of client, where it names one */
    union {
        struct sockaddr any;
        struct sockaddr_in v4; /* also where the header has ::ffff:192.0.2.1 */
        struct sockaddr_in6 v6;
    } client;
} proxy_header_t;

/* Read the header at the beginning of what a connection has sent. *ret_header is set where it is
 * whole. What begins no header is broken at once: nothing more is waited for. */
proxy_header_state_t proxy_header_read(const uint8_t *data, size_t len, proxy_header_t *ret_header);
