"""Writes for each event, one a line, the name of the route that serves it in Flask, or an empty line.

With the argument serve, it serves the routes on a port, which it prints."""

import json
import sys

from apig_wsgi import make_lambda_handler
from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

app = Flask(__name__)
for name, path in {
    "admin": "/admin",
    "item": "/items/<id>",
    "part": "/items/<id>/parts/<part>",
    "files": "/files/<path:rest>",
    "report": "/<tenant>/report",
    "health": "/health",
}.items():
    app.add_url_rule(path, name, lambda name=name, **_: name)

if sys.argv[-1] == "serve":
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    WSGIRequestHandler.disable_nagle_algorithm = True
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.port, flush=True)
    server.serve_forever()

handler = make_lambda_handler(app)
for line in sys.stdin:
    try:
        answer = handler(json.loads(line), None)
    except UnicodeError:  # apig_wsgi accepts no other characters than those of Latin-1
        print()
    else:
        print(answer["body"] if answer["statusCode"] == 200 else "")
