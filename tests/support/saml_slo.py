"""pysaml2 as an identity provider that signs out: saml_slo.py reads JSON, {folder: of key and pem, sp: metadata of the service provider,
request?: a LogoutRequest to judge and answer, {message, binding, query, back, relay}, send?: one to make, {name, index, destination, binding, relay},
answer?: a LogoutResponse to unpack}, and prints what came of it. Bindings: "redirect", "post"."""
import json
import sys

from saml2 import BINDING_HTTP_POST, BINDING_HTTP_REDIRECT
from saml2.config import IdPConfig
from saml2.metadata import entity_descriptor
from saml2.saml import NAMEID_FORMAT_EMAILADDRESS, NameID
from saml2.server import Server
from saml2.sigver import verify_redirect_signature
from saml2.xmldsig import DIGEST_SHA256, SIG_RSA_SHA256

BINDINGS = {"redirect": BINDING_HTTP_REDIRECT, "post": BINDING_HTTP_POST}
asked = json.load(sys.stdin)
entity = "https://pysaml2.example.com/metadata"
bindings = [BINDINGS[name] for name in asked.get("bindings", ["redirect", "post"])]
settings = {
    "entityid": entity,
    "service": {"idp": {"endpoints": {"single_sign_on_service": [("https://pysaml2.example.com/sso", one) for one in bindings],
                                      "single_logout_service": [("https://pysaml2.example.com/slo", one) for one in bindings]}}},
    "key_file": f"{asked['folder']}/key", "cert_file": f"{asked['folder']}/pem", "debug": 0,
    "metadata": {"inline": [asked["sp"]] if "sp" in asked else []},
}
config = IdPConfig().load(settings)
server = Server(config=config)
signing = {"sign_alg": SIG_RSA_SHA256, "digest_alg": DIGEST_SHA256}


def delivered(message, binding, destination, relay, response):
    if binding == BINDING_HTTP_POST:
        return {"message": str(message)}
    packed = server.apply_binding(binding, str(message), destination, relay_state=relay, response=response, sign=True, sigalg=SIG_RSA_SHA256)
    return {"url": dict(packed["headers"])["Location"]}


said = {"metadata": str(entity_descriptor(config)), "entity": entity}
if "send" in asked:
    one = asked["send"]
    binding = BINDINGS[one["binding"]]
    name = NameID(format=NAMEID_FORMAT_EMAILADDRESS, text=one["name"])
    by_post = {"sign": True, **signing} if binding == BINDING_HTTP_POST else {"sign": False}
    _, message = server.create_logout_request(one["destination"], entity, name_id=name, session_indexes=[one["index"]] if one.get("index") else None, **by_post)
    said["send"] = delivered(message, binding, one["destination"], one.get("relay", ""), False)
if "request" in asked:
    one = asked["request"]
    binding = BINDINGS[one["binding"]]
    came = server.parse_logout_request(one["message"], binding)
    if binding == BINDING_HTTP_REDIRECT:  # which this version leaves to its caller
        certificates = server.metadata.certs(came.message.issuer.text, "any", "signing")
        assert any(verify_redirect_signature(one["query"], server.sec.sec_backend, pem) for pem in certificates), "the query string is not signed"
    said["request"] = {"id": came.message.id, "name": came.message.name_id.text, "indexes": [index.text for index in came.message.session_index],
                       "issuer": came.message.issuer.text}
    by_post = {"sign": True, **signing} if binding == BINDING_HTTP_POST else {"sign": False}
    answer = server.create_logout_response(came.message, bindings=[binding], **by_post)
    said["response"] = delivered(answer, binding, one["back"], one.get("relay", ""), True)
if "answer" in asked:
    said["answer"] = server.unravel(asked["answer"], BINDING_HTTP_REDIRECT, "SAMLResponse").decode()
print(json.dumps(said))
