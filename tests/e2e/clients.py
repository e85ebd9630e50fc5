"""Everything that the Python client can call, as its callers do: create with the least, read every attribute, list, update nothing,
update the description alone, replace and delete modules, delete. Run by clients-python.test.mjs: clients.py URL UNIQUE-NAME."""
import atexit
import inspect
import json
import os
import subprocess
import sys
import tempfile

import ngrok
from ngrok import services
from ngrok.error import Error, NotFoundError

url, unique = sys.argv[1:]
client = ngrok.Client(os.environ["POSTERN_API_KEY"], url)
called, failures = {}, []
calls = 0
atexit.register(lambda: print("\n".join(failures), file=sys.stderr))


class Raw:
    """An argument that is an object: the client's own classes cannot be sent when they hold another one."""

    def __init__(self, **props):
        self._props = props


def attributes(result):
    """A missing key raises KeyError when it is read."""
    for name, _ in inspect.getmembers(type(result), lambda member: isinstance(member, property)):
        getattr(result, name)
    return result


def call(service, method, *args, expect=None, **kwargs):
    global calls
    where = f"{type(service).__name__}.{method}"
    called[where] = True
    calls += 1
    try:
        result = getattr(service, method)(*args, **kwargs)
    except Error as error:
        if expect and error.error_code == f"ERR_POSTERN_{expect}" and error.args[1] and error.operation_id:
            return None
        failures.append(f"{where} {args} {kwargs}: {error.http_status_code} {error.error_code} {error.args}")
        return None
    except Exception as error:  # the client fell over what it was sent
        failures.append(f"{where} {args} {kwargs}: {type(error).__name__} {error}")
        return None
    if expect:
        failures.append(f"{where} {args} {kwargs}: {expect} expected")
    return attributes(result) if result is not None and hasattr(result, "_props") else result


def have(name):
    return getattr(services, name + "Client", None)


def pem():
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", f"/CN={unique}",
                        "-keyout", f"{place}/key", "-out", f"{place}/pem"], check=True, capture_output=True)
        return open(f"{place}/pem").read(), open(f"{place}/key").read()


chain, key = pem()
made = {}


def props(result):
    return {name: getattr(value, "_props", value) for name, value in result._props.items() if name not in ("token", "updated_at", "last_updated_by")}


def same(where, before, after, **changed):
    wanted = {**before, **changed}
    if json.dumps(wanted, default=lambda one: one._props, sort_keys=True) != json.dumps(after, default=lambda one: one._props, sort_keys=True):
        failures.append(f"{where}: {before} became {after}")


def life(name, nothing=None, /, **create):
    """nothing: the error of an update that says nothing. What is made stays until the end."""
    if not have(name):
        return None
    service = have(name)(client)
    result = call(service, "create", **create)
    if result is None:
        return None
    made[name] = (service, result)
    got = call(service, "get", result.id)
    items = call(service, "list", None, "1")
    if not any(item is not None for item in [next(iter(items), None)]):
        failures.append(f"{name}.list is empty")
    parameters = inspect.signature(service.update).parameters
    again = call(service, "update", result.id, expect=nothing)
    if again is not None:
        same(f"{name}.update of nothing", props(got), props(again))
    if "description" in parameters:
        changed = call(service, "update", result.id, description="changed")
        if changed is not None:
            same(f"{name}.update of the description", props(got), props(changed), description="changed")
    return result


def module(name, value, empty, *ids):
    """empty: the error of a replacement with nothing, which the client sends without a body and its type."""
    if not have(name + "Module"):
        return
    service = have(name + "Module")(client)
    if value is None:  # this server does not have it
        call(service, "replace", *ids, Raw(), expect=118)
        call(service, "get", *ids, expect=118)
        call(service, "delete", *ids, expect=118)
        return
    call(service, "delete", *ids)
    call(service, "replace", *ids, None, expect=empty)
    call(service, "replace", *ids, Raw(**value))
    call(service, "get", *ids)
    call(service, "delete", *ids)
    call(service, "get", *ids, expect=140)


domain = life("ReservedDomains", 125, **{"name" if "name" in inspect.signature(services.ReservedDomainsClient.create).parameters else "domain": unique})
address = life("ReservedAddrs", 125)
life("StaticBackends", address="a.test:80")
response = life("HTTPResponseBackends")
weighted = life("WeightedBackends", backends={response.id: 1})
life("FailoverBackends", backends=[response.id, weighted.id])
life("TunnelGroupBackends", labels={"app": "x"})
policy = life("IPPolicies", 125)
life("IPPolicyRules", 125, cidr="192.0.2.0/24", ip_policy_id=policy.id, action="allow")
life("IPRestrictions", type="endpoints", ip_policy_ids=[policy.id])
life("AgentIngresses", domain=f"agents.{unique}")
life("APIKeys")
life("BotUsers", name="bot")
life("ServiceUsers", name="service")
life("Credentials", 125)
authority = life("CertificateAuthorities", ca_pem=chain)
life("TLSCertificates", certificate_pem=chain, private_key_pem=key)
ssh = life("SSHCertificateAuthorities")
life("SSHCredentials", public_key=ssh.public_key)
times = {"valid_after": "", "valid_until": ""}  # what the client takes instead, datetimes, it cannot send
life("SSHHostCertificates", ssh_certificate_authority_id=ssh.id, public_key=ssh.public_key, **times)
life("SSHUserCertificates", ssh_certificate_authority_id=ssh.id, public_key=ssh.public_key, **times)
vault = life("Vaults", name=unique)
if vault:
    by_name = "vault_name" in inspect.signature(services.SecretsClient.create).parameters
    life("Secrets", name="a", value="v", **({"vault_name": unique} if by_name else {"vault_id": vault.id}))
    if hasattr(have("Vaults"), "get_secrets_by_vault"):
        call(have("Vaults")(client), "get_secrets_by_vault", vault.id)
destination = life("EventDestinations", format="json", target=Raw(datadog={"api_key": "a", "ddsite": "datadoghq.com"}))
subscription = life("EventSubscriptions", sources=[Raw(type="vault_created.v0")], destination_ids=[destination.id])
sources = services.EventSourcesClient(client)
for kind in ("http_request_complete.v0", "api_key_created.v0"):
    call(sources, "create", subscription.id, kind)
    call(sources, "get", subscription.id, kind)
    call(sources, "update", subscription.id, kind)
call(sources, "list", subscription.id)
call(sources, "delete", subscription.id, "api_key_created.v0")

edge = life("EdgesHTTPS", hostports=[f"{unique}:443"])
routes = services.EdgesHTTPSRoutesClient(client)
route = call(routes, "create", edge.id, "path_prefix", "/", backend=Raw(backend_id=response.id))
call(routes, "get", edge.id, route.id)
same("EdgesHTTPSRoutes.update", props(route), props(call(routes, "update", edge.id, route.id)))
tcp = life("EdgesTCP", hostports=[address.addr])
other = life("EdgesTLS")
restriction, traffic = {"ip_policy_ids": [policy.id]}, {"value": '{"on_tcp_connect":[]}'}
oidc = {"issuer": "https://a.test", "client_id": "a", "client_secret": "b"}
metadata = '<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://a.test"></EntityDescriptor>'
values = {
    "Backend": ({"backend_id": response.id}, 122), "IPRestriction": (restriction, 162), "RequestHeaders": ({"add": {"x-a": "b"}}, None), "ResponseHeaders": ({"remove": ["x-a"]}, None),
    "Compression": ({"enabled": True}, None), "CircuitBreaker": ({"error_threshold_percentage": 0.5}, 161), "WebhookVerification": ({"provider": "github", "secret": "s"}, 167),
    "OAuth": ({"provider": {"google": {}}}, 121), "SAML": ({"idp_metadata": metadata}, 177), "OIDC": (oidc, 176), "WebsocketTCPConverter": ({}, None), "UserAgentFilter": ({"deny": ["x"]}, None),
    "TrafficPolicy": (traffic, 179), "MutualTLS": ({"certificate_authority_ids": [authority.id]}, 163), "TLSTermination": ({"min_version": "1.3"}, None), "Policy": (None, None)}
for name in values:
    module(f"EdgeRoute{name}", *values[name], edge.id, route.id)
    module(f"HTTPSEdge{name}", *values[name], edge.id)
    module(f"TCPEdge{name}", *values[name], tcp.id)
    module(f"TLSEdge{name}", *values[name], other.id)

endpoints = services.EndpointsClient(client)
one = next(iter(call(endpoints, "list", None, "100")))
call(endpoints, "get", one.id)
if "id" in inspect.signature(endpoints.list).parameters and [item.id for item in call(endpoints, "list", id=[one.id])] != [one.id]:
    failures.append("endpoints by id")
if hasattr(endpoints, "create"):
    mine = call(endpoints, "create", url=f"https://{unique.split('.')[0]}.internal", type="cloud", traffic_policy='{"on_http_request":[]}', bindings=["internal"])
    call(endpoints, "update", mine.id, description="changed")
    call(endpoints, "delete", mine.id)

reports = services.AbuseReportsClient(client)
call(reports, "create", ["https://a.test"], expect=118)
call(reports, "get", "abrp_x", expect=118)
for name in filter(have, ("ApplicationUsers", "ApplicationSessions", "Tunnels", "TunnelSessions")):
    service = have(name)(client)
    list(call(service, "list"))
    for method in ("get", "delete", "restart", "stop", "update"):
        if hasattr(service, method):
            call(service, method, "nothing", expect=146)

domains = services.ReservedDomainsClient(client)
call(domains, "delete_certificate", domain.id)
call(domains, "delete_certificate_management_policy", domain.id)

# what refers to others first
call(routes, "delete", edge.id, route.id)
for name in ["EdgesHTTPS", "EdgesTCP", "EdgesTLS", "FailoverBackends", "WeightedBackends", "IPRestrictions", "IPPolicyRules", "EventSubscriptions", "Secrets", "SSHHostCertificates", "SSHUserCertificates", *made]:
    if name in made:
        service, result = made.pop(name)
        call(service, "delete", result.id)
        call(service, "get", result.id, expect=140)

every = {f"{name}.{method}" for name, one in inspect.getmembers(services, inspect.isclass) if name.endswith("Client") and name != "HTTPClient"
         for method, _ in inspect.getmembers(one, inspect.isfunction) if not method.startswith("_")}
if every - set(called):
    failures.append(f"never called: {sorted(every - set(called))}")
print(json.dumps({"methods": len(called), "calls": calls, "failures": len(failures)}))
sys.exit(bool(failures))
