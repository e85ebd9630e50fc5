/* OpenSSL works off any number of messages that come behind a handshake within one SSL_read. A
 * KeyUpdate (RFC 8446 4.6.3) has 27 bytes and costs 10 us, so that some 20 Mbit/s of them hold a
 * worker. An honest peer sends one for each 2^24 records, as many as a key may protect (5.5), and a
 * server some tickets. */
#include "services/edge/tls/edge_tls_messages.h"

#include <stdint.h>

enum {
    MESSAGES = 32,          /* of a connection's handshake and behind it */
    RECORDS_EACH = 1 << 10, /* of data, which allow for one more */
    MESSAGE_BITS = 16
};

static int  ended = -1;   /* index of what an SSL has that was ended by this */

_Static_assert(sizeof(void *) == 8, "the argument has both counts");


/* How many came: messages in the low bits of the callback's argument, records of data above. */
static void
on_message(int written, int version, int type, const void *bytes, size_t len, SSL *ssl,
    void *argument)
{
    uintptr_t  counts = (uintptr_t) argument;

    (void) version;
    if (written) {
        return;
    }
    if (type == SSL3_RT_INNER_CONTENT_TYPE && len == 1
        && *(const unsigned char *) bytes == SSL3_RT_APPLICATION_DATA)
    {
        counts += (uintptr_t) 1 << MESSAGE_BITS;
    } else if (type == SSL3_RT_HANDSHAKE) {
        counts++;
        if ((counts & 0xffff) > MESSAGES + (counts >> MESSAGE_BITS) / RECORDS_EACH) {
            SSL_set_ex_data(ssl, ended, &ended);
            SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);   /* the end */
        }
    } else {
        return;
    }
    SSL_set_msg_callback_arg(ssl, (void *) counts);
}


int
edge_tls_messages_install(void)
{
    if (ended == -1) {
        ended = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    }
    return ended != -1;
}


void
edge_tls_messages_bound(SSL_CTX *ctx)
{
    SSL_CTX_set_msg_callback(ctx, on_message);
}


void
edge_tls_messages_bound_one(SSL *ssl)
{
    SSL_set_msg_callback(ssl, on_message);
}


int
edge_tls_messages_were_too_many(const SSL *ssl)
{
    return SSL_get_ex_data(ssl, ended) != NULL;
}
