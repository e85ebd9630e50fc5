/* oauth: only who has signed in goes upstream (edge_sign_in.h). */
#include "services/edge/modules/edge_sign_in_module.h"

SIGN_IN_MODULE(oauth, MODULE_OAUTH,
    .zone_bytes = edge_sign_in_zone_size,   /* one for all three */
    .zone = edge_sign_in_zone,
    .start = edge_sign_in_start,
    .metrics = edge_sign_in_metrics
);
