"""An API that keeps orders in memory. It contains nothing of Weir."""

from apig_wsgi import make_lambda_handler
from flask import Flask, jsonify, request

app = Flask(__name__)
orders = []


@app.post("/orders")
def create():
    order = {"id": len(orders) + 1, **request.get_json()}
    orders.append(order)
    return jsonify(order), 201


@app.get("/orders/<int:number>")
def read(number):
    if not 1 <= number <= len(orders):
        return jsonify(error="no such order"), 404
    return jsonify(orders[number - 1]), 200, {"Cache-Control": "no-store"}


handler = make_lambda_handler(app)
