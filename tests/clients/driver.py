"""The Python client by reflection: driver.py URL. The key is in POSTERN_API_KEY; a line of JSON in is one call, a line out its result."""
import inspect
import json
import os
import sys

import ngrok
from ngrok.error import Error, NotFoundError

client = ngrok.Client(os.environ["POSTERN_API_KEY"], sys.argv[1])


class Object:
    """An argument that is an object, as the client unpacks it: its own classes cannot be sent when they hold another one."""

    def __init__(self, **props):
        self._props = props


def services():
    """Everything that the client's properties lead to, namespaces included."""
    for name, _ in inspect.getmembers(type(client), lambda member: isinstance(member, property)):
        one = getattr(client, name)
        if hasattr(one, "_fields"):
            yield from ((f"{name}.{part}", getattr(one, part)) for part in one._fields)
        else:
            yield name, one


def methods(service):
    return {name: one for name, one in inspect.getmembers(service, inspect.ismethod) if not name.startswith("_")}


every = {name: (service, methods(service)) for name, service in services()}


def argument(parameter, value):
    kind = str(parameter.annotation)
    if isinstance(value, dict) and not kind.startswith("Mapping"):
        return Object(**value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [Object(**one) for one in value]
    return value


def plain(value):
    """What came back, with every attribute that its class has: a missing one raises KeyError here."""
    if hasattr(value, "_props"):
        for name, _ in inspect.getmembers(type(value), lambda member: isinstance(member, property)):
            getattr(value, name)
        return {name: plain(one) for name, one in value._props.items()}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def call(service, method, args):
    function = every[service][1][method]
    parameters = inspect.signature(function).parameters
    try:
        result = function(**{name: argument(parameters[name], value) for name, value in args.items()})
        if hasattr(result, "__iter__") and not isinstance(result, dict):  # a list, which asks for its pages itself
            return {"result": [plain(one) for one in result]}
        return {"result": plain(result)}
    except Error as error:
        return {"error": {"status": error.http_status_code, "code": error.error_code, "message": error.args[1], "operation": error.operation_id, "notFound": isinstance(error, NotFoundError)}}
    except Exception as error:  # the client fell over what it was sent
        return {"broken": f"{type(error).__name__} {error}"}


print(json.dumps({name: {method: list(inspect.signature(one).parameters) for method, one in functions.items()} for name, (_, functions) in every.items()}), flush=True)
for line in sys.stdin:
    print(json.dumps(call(**json.loads(line))), flush=True)
