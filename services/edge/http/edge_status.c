/* What the edge says of itself on the operator's port: /healthz, /readyz and /metrics. */
#include "services/edge/http/edge_status.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_tally.h"
#include "services/edge/http/edge_text.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_vitals.h"

enum {
    STATUS_BYTES = 224 * 1024,  /* 64 workers, 3 KB each, and what is said once */
    RECENT_S = 60,
    BEHIND_S = 5   /* of silence; the config log's heartbeat comes each quarter of a second */
};


/* Ready means that all workers serve. Other problems are listed below and do not change the status:
 * a worker without a helper, for example, goes on serving its last configuration. */
static ngx_int_t
send_ready(ngx_http_request_t *r, ngx_uint_t workers, u_char *text, u_char *end)
{
    u_char           *p;
    ngx_uint_t        i;
    edge_vitals_t    *vitals;
    edge_counters_t  *one;

    for (i = 0; i < workers; i++) {
        one = edge_ring_counters(i);
        if (one == NULL || one->ready == 0) {
            return edge_text_send(r, 503, "text/plain",
                             (u_char *) "no configuration yet\n", 21);
        }
    }
    p = ngx_slprintf(text, end, "ready\n");
    for (i = 0; i < workers; i++) {
        vitals = edge_vitals(i);
        if (vitals->helper_absent) {
            p = ngx_slprintf(p, end, "worker %ui has no helper that answers: "
                             "changes do not reach it\n", i);
        } else if (vitals->helper_restarted
                   && ngx_time() - vitals->helper_restarted < RECENT_S)
        {
            p = ngx_slprintf(p, end, "worker %ui lost its helper %T seconds "
                             "ago and has another\n", i,
                             ngx_time() - vitals->helper_restarted);
        }
        if (ngx_time() - vitals->config_current > BEHIND_S) {
            p = ngx_slprintf(p, end, "worker %ui serves revision %uL: the "
                             "config log has not said for %d seconds that it "
                             "is the last\n", i,
                             edge_ring_counters(i)->revision, BEHIND_S);
        }
        if (vitals->state_behind) {
            p = ngx_slprintf(p, end, "the state file does not hold what is "
                             "in force: no change is confirmed, and a restart "
                             "without the config log serves what it holds\n");
        }
        if (vitals->entries_refused) {
            p = ngx_slprintf(p, end, "worker %ui cannot apply %uL entries: "
                             "they answer 503\n", i, vitals->entries_refused);
        }
    }
    return edge_text_send(r, 200, "text/plain", text, p - text);
}


/* What one worker has asked identity, and what it did not let through for sign-in's sake. */
static u_char *
write_identity(u_char *p, u_char *end, ngx_uint_t i)
{
    const edge_vitals_t  *vitals = edge_vitals(i);

    return ngx_slprintf(p, end,
        "postern_edge_identity_there{worker=\"%ui\"} %uL\n"
        "postern_edge_identity_questions_total{worker=\"%ui\"} %uL\n"
        "postern_edge_identity_unanswered_total{worker=\"%ui\"} %uL\n"
        "postern_edge_logout_tokens_unheard_total{worker=\"%ui\"} %uL\n"
        "postern_edge_cookies_kept_back_total{worker=\"%ui\"} %uL\n",
        i, vitals->identity_there, i, vitals->asks, i, vitals->asks_unanswered,
        i, vitals->logouts_unheard, i, vitals->cookies_kept_back);
}


/* What /metrics has of one worker. */
static u_char *
write_worker(u_char *p, u_char *end, ngx_uint_t i, const edge_counters_t *one)
{
    const edge_vitals_t  *vitals = edge_vitals(i);

    p = ngx_slprintf(p, end,
        "postern_edge_entries_refused{worker=\"%ui\"} %uL\n"
        "postern_edge_helper_restarts_total{worker=\"%ui\"} %uL\n"
        "postern_edge_helper_absent{worker=\"%ui\"} %uL\n"
        "postern_edge_config_current_timestamp_seconds{worker=\"%ui\"} "
        "%T\n"
        "postern_edge_state_behind{worker=\"%ui\"} %uL\n",
        i, vitals->entries_refused, i, vitals->helper_restarts,
        i, vitals->helper_absent, i, vitals->config_current,
        i, vitals->state_behind);
    p = ngx_slprintf(p, end,
        "postern_edge_session_log_revision{worker=\"%ui\"} %L\n"
        "postern_edge_session_log_current{worker=\"%ui\"} %ui\n"
        "postern_edge_sessions_ended_total{worker=\"%ui\"} %uL\n",
        i, vitals->sessions_revision, i, edge_session_log_has_touch(i),
        i, vitals->sessions_ended);
    p = ngx_slprintf(p, end,
        "postern_edge_request_memory_bytes{worker=\"%ui\"} %uL\n"
        "postern_edge_read_memory_bytes{worker=\"%ui\"} %uL\n"
        "postern_edge_encoder_memory_bytes{worker=\"%ui\"} %uL\n"
        "postern_edge_requests_crowded_total{worker=\"%ui\"} %uL\n"
        "postern_edge_clients_slow_total{worker=\"%ui\"} %uL\n"
        "postern_edge_bodies_slow_total{worker=\"%ui\"} %uL\n"
        "postern_edge_clients_resetting_total{worker=\"%ui\"} %uL\n"
        "postern_edge_clients_slivering_total{worker=\"%ui\"} %uL\n"
        "postern_edge_clients_flooding_total{worker=\"%ui\"} %uL\n"
        "postern_edge_connections{worker=\"%ui\"} %uL\n"
        "postern_edge_connections_refused_total{worker=\"%ui\",reason=\"client\"} %uL\n"
        "postern_edge_connections_refused_total{worker=\"%ui\",reason=\"reserve\"} %uL\n"
        "postern_edge_upstreams_given_up_total{worker=\"%ui\"} %uL\n",
        i, vitals->request_bytes, i, vitals->lent_bytes, i, vitals->encoder_bytes,
        i, vitals->crowded,
        i, vitals->slow_clients, i, vitals->slow_bodies, i, vitals->resetting_clients,
        i, vitals->slivering_clients, i, vitals->flooding_clients,
        i, vitals->connections, i, vitals->clients_refused, i, vitals->clients_out_of_room,
        i, vitals->kept_given_up);
    p = write_identity(p, end, i);
    return ngx_slprintf(p, end,
        "postern_edge_requests_total{worker=\"%ui\"} %uL\n"
        "postern_edge_events_total{worker=\"%ui\"} %uL\n"
        "postern_edge_events_dropped_total{worker=\"%ui\"} %uL\n"
        "postern_edge_events_over_share_total{worker=\"%ui\"} %uL\n"
        "postern_edge_events_lost_total{worker=\"%ui\"} %uL\n"
        "postern_edge_events_spooled_total{worker=\"%ui\"} %uL\n"
        "postern_edge_events_unacknowledged_bytes{worker=\"%ui\"} %uL\n"
        "postern_edge_revision{worker=\"%ui\"} %uL\n"
        "postern_edge_streams_ended_total{worker=\"%ui\"} %uL\n"
        "postern_edge_upstreams_denied_total{worker=\"%ui\"} %uL\n"
        "postern_edge_requests_over_share_total{worker=\"%ui\"} %uL\n"
        "postern_edge_config_turn_seconds_max{worker=\"%ui\"} %uL.%06uL\n"
        "postern_edge_proxy_protocol_refused_total{worker=\"%ui\",reason=\"address\"} %uL\n"
        "postern_edge_proxy_protocol_refused_total{worker=\"%ui\",reason=\"header\"} %uL\n",
        i, one->requests, i, one->events, i, one->dropped,
        i, vitals->events_over_share, i, one->lost, i, one->spooled,
        i, one->unacknowledged, i, one->revision,
        i, one->streams_ended, i, one->upstreams_denied, i, vitals->over_share,
        i, one->config_turn_us / 1000000, one->config_turn_us % 1000000,
        i, vitals->proxy_strangers, i, vitals->proxy_headers);
}


ngx_int_t
edge_status_handler(ngx_http_request_t *r)
{
    size_t            size;
    u_char           *text, *p, *end;
    ngx_uint_t        i;
    edge_counters_t  *one;
    ngx_core_conf_t  *core;
    edge_seat_info_t  seat;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;   /* read-only, like the status ports of the services */
    }
    core = (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                            ngx_core_module);
    edge_body_discard(r, NULL);
    size = STATUS_BYTES + edge_tally_bytes();
    text = ngx_pnalloc(r->pool, size);
    if (text == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    p = text;
    end = text + size;
    if (r->uri.len == 8 && ngx_strncmp(r->uri.data, "/healthz", 8) == 0) {
        return edge_text_send(r, 200, "text/plain", (u_char *) "ok\n", 3);
    }
    if (r->uri.len == 7 && ngx_strncmp(r->uri.data, "/readyz", 7) == 0) {
        return send_ready(r, core->worker_processes, text, end);
    }
    if (r->uri.len != 8 || ngx_strncmp(r->uri.data, "/metrics", 8) != 0) {
        return NGX_HTTP_NOT_FOUND;
    }
    seat = edge_seat_info();
    p = ngx_slprintf(p, end,
        "postern_edge_info{build=\"%s\",generation=\"%uL\",master=\"%P\"} 1\n"
        "postern_edge_ready{master=\"%P\"} %ui\n",
        seat.build, seat.generation, seat.master, seat.master, seat.ready);
    for (i = 0; i < (ngx_uint_t) core->worker_processes; i++) {
        one = edge_ring_counters(i);
        if (one == NULL) {
            break;
        }
        p = write_worker(p, end, i, one);
    }
    p = edge_modules_metrics(p, end);
    p = edge_failover_metrics(p, end);
    p = edge_tally_metrics(p, end);
    return edge_text_send(r, 200, "text/plain; version=0.0.4", text, p - text);
}
