// Package runtimeproxy is the program of the Lambda layer. It limits requests before the code of a function
// runs, in any managed runtime.
//
// The program is an external extension of Lambda. It serves the Runtime API to the runtime of the function,
// at an address that the wrapper script of the layer (contract.LayerScript) gives to the runtime. It requests
// each event from Lambda, and decides it with a [lambdahttp.Layer], like the Go handler:
//
//   - A refused event is answered by the extension, and the function does not see it.
//   - An admitted event goes to the function unchanged. The answer gets the fields of the decision.
//   - An event that is no HTTP request goes to the function unchanged, and so does its answer.
//
// # Guarantee
//
// An event has at most one decision, and each admitted request is settled once: after its answer, or as a
// failure if the function crashes, times out or requests the next event without an answer. The settlement
// starts after the answer was sent, so the client does not wait for it. It ends before Lambda gets the next
// request for an event, because Lambda then freezes the environment.
//
// The init of the function ends only after the runtime has requested an event through the proxy, because the
// extension requests its own first event after that. So no other proxy of the Runtime API can bypass it. If the
// wrapper script of such a proxy ran before, the events come from that proxy.
//
// If an event has no decision, it goes to the function, and the log and the metric Failed report it. If the
// store fails, on_error of the limits decides, as in every other function. If the configuration is invalid,
// the init of the function fails.
//
// # What it does not do
//
// It does not limit before API Gateway's authorizers and quotas. A streamed answer gets the fields only if it
// begins with metadata. An answer that could exceed a maximum of its host with the fields stays without them.
package runtimeproxy
