"""Reads base64 of SAML responses, a line each, and says of each what lasso says: "accepted NAMEID" or "refused ERROR".

Arguments: metadata of the service provider, its private key, and metadata of the identity provider, each a file.
"""
import sys

import lasso

service, key, provider = sys.argv[1:]
for line in sys.stdin:
    server = lasso.Server(service, key, None, None)
    server.addProvider(lasso.PROVIDER_ROLE_IDP, provider, None, None)
    login = lasso.Login(server)
    try:
        login.processAuthnResponseMsg(line.strip())
        login.acceptSso()
        print('accepted', login.nameIdentifier.content, flush=True)
    except (lasso.Error, AttributeError) as error:
        print('refused', repr(str(error)), flush=True)
