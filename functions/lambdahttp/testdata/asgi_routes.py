"""Writes for each event, one a line, the name of the route that serves it in Starlette or FastAPI, or an empty line.

With the argument serve, it serves the routes on a port, which it prints."""

import asyncio
import json
import socket
import sys
from urllib.parse import unquote

import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

ROUTES = {
    "admin": "/admin",
    "item": "/items/{id}",
    "part": "/items/{id}/parts/{part}",
    "files": "/files/{rest:path}",
    "report": "/{tenant}/report",
    "health": "/health",
}


def respond(name):
    async def endpoint(request):
        return PlainTextResponse(name)

    return endpoint


routes = [Route(path, respond(name)) for name, path in ROUTES.items()]
app = Starlette(routes=routes) if sys.argv[1] == "Starlette" else FastAPI(routes=routes, openapi_url=None)


async def get(path):
    """Returns the name of the route. The scope is that of a server, which decodes the path."""
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "https", "path": unquote(path),
             "raw_path": path.encode(), "root_path": "", "query_string": b"", "headers": [], "client": ("203.0.113.7", 1), "server": ("api", 443)}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[1]["body"].decode() if sent[0]["status"] == 200 else ""


async def main():
    for line in sys.stdin:
        event = json.loads(line)
        print(await get(event.get("rawPath") or event.get("path")))


if sys.argv[-1] == "serve":
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio needs the protocol to set TCP_NODELAY
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_config=None)).run([listener])
else:
    asyncio.run(main())
