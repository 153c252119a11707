package lambdaenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"
)

// The time limits of the shutdown of an environment with extensions.
const (
	runtimeGrace = 300 * time.Millisecond // between SIGTERM and SIGKILL of the process
	maxShutdown  = 2 * time.Second        // of all processes
)

// maxExtensionBody is the largest body that the Extensions API reads.
const maxExtensionBody = 64 << 10

type extension struct {
	*process

	name       string
	id         string        // identifies the extension in its requests
	registered chan struct{} // closed when the extension has registered
	types      []string      // types of the events for which it registered; valid after registered is closed
	ready      chan struct{} // gets an element when the extension requests an event and has none
	events     chan extensionEvent
}

type extensionEvent struct {
	EventType          string `json:"eventType"`
	DeadlineMs         int64  `json:"deadlineMs"`
	RequestID          string `json:"requestId,omitempty"`
	InvokedFunctionArn string `json:"invokedFunctionArn,omitempty"`
	ShutdownReason     string `json:"shutdownReason,omitempty"`
}

// The types of events of the Extensions API.
const (
	invokeEvent   = "INVOKE"
	shutdownEvent = "SHUTDOWN"
)

func newExtension(path string, variables []string, output io.Writer) *extension {
	return &extension{
		process: newProcess(path, nil, variables, output), name: filepath.Base(path), id: rand.Text(),
		// An extension has at most one event of each type that it did not read.
		registered: make(chan struct{}), ready: make(chan struct{}, 1), events: make(chan extensionEvent, 2),
	}
}

// startExtensions starts all extensions and waits until they have registered.
func (e *Environment) startExtensions(ctx context.Context) error {
	for _, x := range e.extensions {
		err := x.start(func(err error) {
			e.failExtension(x, "Extension.Crash", cmp.Or(err, errors.New("exit status 0")).Error())
		})
		if err != nil {
			return functionError("Extension.LaunchError", fmt.Sprintf("extension %s: %s", x.name, err))
		}
	}
	for _, x := range e.extensions {
		if err := e.await(ctx, x.registered); err != nil {
			return err
		}
	}
	return nil
}

func (e *Environment) failExtension(x *extension, kind, message string) {
	e.fail(functionError(kind, fmt.Sprintf("extension %s: %s", x.name, message)))
}

// announce sends an INVOKE event to each extension that registered for it. It returns channels that get an
// element when the extensions have requested another event. The extensions must be frozen.
func (e *Environment) announce(i invocation) (ready []<-chan struct{}) {
	for _, x := range e.extensions {
		if !slices.Contains(x.types, invokeEvent) {
			continue
		}
		select {
		case <-x.ready: // the extension repeated its request
		default:
		}
		x.events <- extensionEvent{EventType: invokeEvent, DeadlineMs: i.deadline.UnixMilli(), RequestID: i.id, InvokedFunctionArn: i.arn}
		ready = append(ready, x.ready)
	}
	return ready
}

// shutDown sends a SHUTDOWN event to each extension that registered for it, and kills the others. It waits
// until all have ended, and kills them at the deadline.
func (e *Environment) shutDown(reason string, deadline time.Time) {
	for _, x := range e.extensions {
		switch {
		case !x.started():
		case closed(x.registered) && slices.Contains(x.types, shutdownEvent):
			select {
			case x.events <- extensionEvent{EventType: shutdownEvent, DeadlineMs: deadline.UnixMilli(), ShutdownReason: reason}:
			default: // an earlier Close has sent the event
			}
		default:
			x.kill()
		}
	}
	for _, x := range e.extensions {
		if x.started() {
			x.killAfter(time.Until(deadline))
		}
	}
}

// extensionsAPI adds the API that extensions call:
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-extensions-api.html
func (e *Environment) extensionsAPI(mux *http.ServeMux) {
	mux.HandleFunc("POST /2020-01-01/extension/register", e.register)
	mux.HandleFunc("GET /2020-01-01/extension/event/next", e.identified(nextEvent))
	mux.HandleFunc("POST /2020-01-01/extension/init/error", e.identified(e.extensionError("Extension.InitError")))
	mux.HandleFunc("POST /2020-01-01/extension/exit/error", e.identified(e.extensionError("Extension.ExitError")))
}

// register accepts each extension once, by the name of its file.
func (e *Environment) register(w http.ResponseWriter, r *http.Request) {
	name := r.Header.Get("Lambda-Extension-Name")
	at := slices.IndexFunc(e.extensions, func(x *extension) bool { return x.name == name })
	if at < 0 {
		reject(w, http.StatusForbidden, "Extension.InvalidExtensionName", fmt.Sprintf("no external extension %q", name))
		return
	}
	var body struct {
		Events []string `json:"events"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxExtensionBody)).Decode(&body); err != nil {
		reject(w, http.StatusBadRequest, "InvalidRequestFormat", err.Error())
		return
	}
	for _, kind := range body.Events {
		if kind != shutdownEvent && (kind != invokeEvent || e.concurrent) {
			reject(w, http.StatusBadRequest, "Extension.InvalidEventType", fmt.Sprintf("cannot register for the event %q", kind))
			return
		}
	}
	x := e.extensions[at]
	e.mu.Lock()
	defer e.mu.Unlock()
	if closed(x.registered) {
		reject(w, http.StatusForbidden, "Extension.AlreadyRegistered", fmt.Sprintf("extension %s has registered", name))
		return
	}
	x.types = body.Events
	w.Header().Set("Lambda-Extension-Identifier", x.id)
	respond(w, http.StatusOK, map[string]string{"functionName": e.name, "functionVersion": version, "handler": handler})
	close(x.registered)
}

// identified passes on requests of a registered extension.
func (e *Environment) identified(handle func(*extension, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Lambda-Extension-Identifier")
		for _, x := range e.extensions {
			if x.id == id && closed(x.registered) {
				handle(x, w, r)
				return
			}
		}
		reject(w, http.StatusForbidden, "Extension.UnknownExtensionIdentifier", fmt.Sprintf("no registered extension %q", id))
	}
}

func nextEvent(x *extension, w http.ResponseWriter, r *http.Request) {
	select {
	case x.ready <- struct{}{}:
	default: // the extension repeats its request
	}
	select {
	case event := <-x.events:
		w.Header().Set("Lambda-Extension-Event-Identifier", rand.Text())
		respond(w, http.StatusOK, event)
	case <-r.Context().Done():
	}
}

// extensionError returns a handler that ends the environment with the error that an extension reports.
func (e *Environment) extensionError(kind string) func(*extension, http.ResponseWriter, *http.Request) {
	return func(x *extension, w http.ResponseWriter, r *http.Request) {
		var reported messages.InvokeResponse_Error
		_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, maxExtensionBody)).Decode(&reported) // like Lambda, accepts any body
		e.failExtension(x, kind, r.Header.Get("Lambda-Extension-Function-Error-Type")+": "+reported.Message)
		respond(w, http.StatusAccepted, map[string]string{"status": "OK"})
	}
}

func reject(w http.ResponseWriter, status int, kind, message string) {
	respond(w, status, map[string]string{"errorType": kind, "errorMessage": message})
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the process has ended
}
