/* saml: only who has signed in goes upstream (edge_sign_in.h). */
#include "services/edge/modules/edge_sign_in_module.h"

SIGN_IN_MODULE(saml, MODULE_SAML);
