"""pysaml2 as an identity provider that is sent an AuthnRequest, or a LogoutRequest, by POST: saml_authn.py reads JSON, {folder: of key and pem,
sp: metadata of the service provider, authn or logout: base64 of the request}, and prints what it says, if its signature holds."""
import json
import sys

from saml2 import BINDING_HTTP_POST
from saml2.config import IdPConfig
from saml2.server import Server

asked = json.load(sys.stdin)
entity = "https://pysaml2.example.com/metadata"
settings = {
    "entityid": entity,
    "service": {"idp": {"endpoints": {"single_sign_on_service": [("https://idp.example.com/sso", BINDING_HTTP_POST)],
                                      "single_logout_service": [("https://idp.example.com/slo", BINDING_HTTP_POST)]},
                        "want_authn_requests_signed": True}},
    "key_file": f"{asked['folder']}/key", "cert_file": f"{asked['folder']}/pem", "debug": 0, "metadata": {"inline": [asked["sp"]]},
}
server = Server(config=IdPConfig().load(settings))
came = server.parse_authn_request(asked["authn"], BINDING_HTTP_POST) if "authn" in asked else server.parse_logout_request(asked["logout"], BINDING_HTTP_POST)
print(json.dumps({"id": came.message.id, "issuer": came.message.issuer.text, "signed": came.message.signature is not None}))
