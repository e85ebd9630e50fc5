"""pysaml2 as an identity provider: saml_idp.py FOLDER-OF-KEY-AND-PEM ACS AUDIENCE REQUEST SLO [CIPHER KEY] prints JSON: its metadata, a response
whose assertion is signed, one that is signed itself, one with both, and a signed LogoutRequest. With CIPHER, the name of an algorithm, and KEY,
as xmlsec1 names the type of its key, also encrypted_assertion and encrypted_both, for the certificate in the folder's file encryption."""
import json
import sys

from saml2 import entity as saml2_entity
from saml2 import BINDING_HTTP_POST, BINDING_HTTP_REDIRECT
from saml2.config import IdPConfig
from saml2.metadata import entity_descriptor
from saml2.saml import NAMEID_FORMAT_EMAILADDRESS, NameID
from saml2.server import Server
from saml2.xmldsig import DIGEST_SHA256, SIG_RSA_SHA256

folder, acs, audience, request, slo = sys.argv[1:6]
cipher, cipher_key = sys.argv[6:8] if len(sys.argv) > 6 else (None, None)
entity = "https://pysaml2.example.com/metadata"
consumer = (f'<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="{audience}"><md:SPSSODescriptor protocolSupportEnumeration='
            f'"urn:oasis:names:tc:SAML:2.0:protocol"><md:AssertionConsumerService Binding="{BINDING_HTTP_POST}" Location="{acs}" index="0"/></md:SPSSODescriptor>'
            '</md:EntityDescriptor>')
settings = {
    "entityid": entity,
    "service": {"idp": {
        "endpoints": {"single_sign_on_service": [("https://pysaml2.example.com/sso", BINDING_HTTP_REDIRECT)],
                      "single_logout_service": [("https://pysaml2.example.com/slo", BINDING_HTTP_POST)]},
        "policy": {"default": {"lifetime": {"minutes": 15}, "name_form": "urn:oasis:names:tc:SAML:2.0:attrname-format:basic"}},
    }},
    "key_file": f"{folder}/key", "cert_file": f"{folder}/pem", "debug": 0, "metadata": {"inline": [consumer]},
}
config = IdPConfig().load(settings)
server = Server(config=config)
name = NameID(format=NAMEID_FORMAT_EMAILADDRESS, text="user@example.test")
authn = {"class_ref": "urn:oasis:names:tc:SAML:2.0:ac:classes:Password", "authn_auth": entity}


def response(sign_assertion, sign_response, **more):
    return str(server.create_authn_response(
        {"mail": "user@example.test"}, in_response_to=request, destination=acs, sp_entity_id=audience, name_id=name, authn=authn,
        sign_assertion=sign_assertion, sign_response=sign_response, sign_alg=SIG_RSA_SHA256, digest_alg=DIGEST_SHA256, **more))


def encrypted(sign_response):
    """pysaml2 has 3DES built in: its template and the type of xmlsec1's key are those that were asked for instead."""
    template, run = saml2_entity.pre_encryption_part, server.sec.crypto.encrypt_assertion
    saml2_entity.pre_encryption_part = lambda **more: template(msg_enc=cipher, **more)
    server.sec.crypto.encrypt_assertion = lambda statement, key, part, _type, xpath=None: run(statement, key, part, cipher_key, xpath)
    with open(f"{folder}/encryption", encoding="ascii") as file:
        certificate = "".join(line for line in file.read().splitlines() if "-----" not in line)
    made = response(True, sign_response, encrypt_assertion=True, encrypt_cert_assertion=certificate)
    saml2_entity.pre_encryption_part, server.sec.crypto.encrypt_assertion = template, run
    return made


_, logout = server.create_logout_request(slo, entity, name_id=name, sign=True, sign_alg=SIG_RSA_SHA256, digest_alg=DIGEST_SHA256)
also = {"encrypted_assertion": encrypted(False), "encrypted_both": encrypted(True)} if cipher else {}
print(json.dumps({**also, "metadata": str(entity_descriptor(config)), "entity": entity, "assertion": response(True, False), "response": response(False, True),
                  "both": response(True, True), "logout": str(logout)}))
