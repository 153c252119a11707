"""A language model as a server: it answers with as many words as the request asks for, and prints its port."""

import json

from flask import Flask, Response, request
from werkzeug.serving import make_server

app = Flask(__name__)


@app.post("/<path:path>")
def answer(path):
    asked = request.get_json()
    words = asked["max_tokens"]
    usage = {"prompt_tokens": 12, "completion_tokens": words, "total_tokens": 12 + words}
    if not asked.get("stream"):
        return {"choices": [{"message": {"content": "word " * words}}], "usage": usage}

    def events():
        for _ in range(words):
            yield f"data: {json.dumps({'choices': [{'delta': {'content': 'word '}}], 'usage': None})}\n\n"
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"

    return Response(events(), mimetype="text/event-stream")


server = make_server("127.0.0.1", 0, app)
print(server.port, flush=True)
server.serve_forever()
