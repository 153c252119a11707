"""A function that fails as its event says. An event that is no HTTP request is its answer."""

import os
import urllib.request


def handler(event, context):
    if not isinstance(event, dict) or "rawPath" not in event:
        return event
    path = event["rawPath"]
    if path == "/crash":
        os._exit(7)
    if path == "/error":
        raise TypeError("no such order")
    if path == "/wait":
        urllib.request.urlopen(event["body"]).close()
    return {"statusCode": 200, "headers": {"Content-Type": "text/plain"}, "body": "answered"}
