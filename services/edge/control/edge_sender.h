/* A worker's conversation with the event intake (proto/WIRE.md has the frames): batches of the
 * ring are sent, and stay there until they are acknowledged. Those that are not acknowledged are
 * sent again: when the intake asks, when nothing was acknowledged for long, and with another
 * helper. */
#pragma once

#include "services/edge/control/edge_link.h"

/* From here on the ring's events are wanted, and sent. */
void edge_sender_start(ngx_log_t *log);

/* Say the first hello, and count the silence of the intake from now on. */
void edge_sender_begin(void);

/* With another helper: the batches that the old one had may be lost. */
void edge_sender_restart(void);

/* A message of the intake. */
void edge_sender_message(link_message_t *message);

/* From the helper: nobody took a batch. All of them go again, from the oldest, once somebody is
 * heard or at a beat. */
void edge_sender_nobody(void);

/* At each beat: say hello where it is due, and send what is due again. */
void edge_sender_beat(void);

/* Seal what is open, and give all of it to the helper. */
void edge_sender_stop(void);
