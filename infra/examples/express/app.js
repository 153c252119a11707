// An API that keeps orders in memory. It does not use Weir.
const express = require("express");
const serverless = require("serverless-http");

const app = express();
app.use(express.json());

const orders = [];

app.post("/orders", (request, response) => {
  const order = { id: orders.length + 1, ...request.body };
  orders.push(order);
  response.status(201).json(order);
});

app.get("/orders/:id", (request, response) => {
  const order = orders[request.params.id - 1];
  if (!order) {
    return response.status(404).json({ error: "no such order" });
  }
  response.set("Cache-Control", "no-store").json(order);
});

exports.handler = serverless(app);
