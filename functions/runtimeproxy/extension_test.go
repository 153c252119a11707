package runtimeproxy_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/runtimeproxy"
)

// extensionsAPI is the Extensions API of Lambda, and its Runtime API.
type extensionsAPI struct {
	*lambdaAPI

	shutdown chan struct{}  // closed when the environment ends
	file     string         // of the addresses
	late     chan time.Time // Extension.Late
}

func newExtensionsAPI(t *testing.T) *extensionsAPI {
	x := &extensionsAPI{newLambdaAPI(t), make(chan struct{}), filepath.Join(t.TempDir(), contract.LayerAddress), make(chan time.Time)}
	others := x.Config.Handler
	x.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/2020-01-01/extension/event/next" {
			x.others <- posted{path: r.URL.Path, header: r.Header}
			<-x.shutdown
			_, _ = w.Write([]byte(`{"eventType":"SHUTDOWN","shutdownReason":"spindown","deadlineMs":1}`))
			return
		}
		others.ServeHTTP(w, r)
	})
	return x
}

// proxy returns the address that the wrapper script gives to the runtime.
func (x *extensionsAPI) proxy(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(x.address())
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(contract.LayerHost, port)
}

// run starts the extension. The channel gets the error of Run.
func (x *extensionsAPI) run(t *testing.T, wrapper string, open runtimeproxy.Open) (log *lockedBuffer, done <-chan error) {
	t.Helper()
	log = &lockedBuffer{}
	e := runtimeproxy.Extension{Name: "weir", API: x.address(), Wrapper: wrapper, File: x.file, Late: x.late, Open: open,
		Logger: slog.New(slog.NewTextHandler(log, nil))}
	result := make(chan error, 1)
	go func() { result <- e.Run(context.WithoutCancel(t.Context())) }()
	return log, result
}

// The extension listens before it registers, lets events through, and settles the current request at the end.
func TestExtension(t *testing.T) {
	x := newExtensionsAPI(t)
	e := environment(t, settling, nil)
	log, done := x.run(t, "/opt/weir", func(context.Context, *slog.Logger) (*lambdahttp.Environment, error) { return e, nil })
	if got := <-x.others; got.path != "POST /2020-01-01/extension/register" || got.header.Get("Lambda-Extension-Name") != "weir" ||
		string(got.body) != `{"events":["SHUTDOWN"]}` {
		t.Errorf("registration: got %+v, want the name, and only the event SHUTDOWN", got)
	}
	l := &layered{lambdaAPI: x.lambdaAPI, t: t, log: log, server: &httptest.Server{URL: "http://" + x.proxy(t)}}
	next := l.request()
	x.events <- event{payload: sample(t, "http-api-anonymous.json")}
	if got := <-next; got.status != http.StatusOK {
		t.Fatalf("event: got %+v, want one", got)
	}
	if got := <-x.others; got.path != "/2020-01-01/extension/event/next" || got.header.Get("Lambda-Extension-Identifier") != "ext-1" {
		t.Errorf("request: got %+v, want one for the next event with the identifier", got)
	}
	close(x.shutdown)
	if err := <-done; err != nil || log.String() != "" {
		t.Errorf("end: got %v, log %s, want neither", err, log.String())
	}
	if got := used(t, e); got != "100 0 1 0" {
		t.Errorf("used: got %s, want 100 0 1 0", got)
	}
	if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", x.proxy(t)); err == nil {
		_ = c.Close()
		t.Error("listener: got a connection after the end, want none")
	}
}

// An invalid configuration fails the init, with a message that names the variable.
func TestExtension_configuration(t *testing.T) {
	x := newExtensionsAPI(t)
	_, done := x.run(t, "/opt/weir", func(context.Context, *slog.Logger) (*lambdahttp.Environment, error) {
		return nil, errors.New("WEIR_STORE: required")
	})
	<-x.others // the registration
	got := <-x.others
	if got.path != "POST /2020-01-01/extension/init/error" || got.header.Get("Lambda-Extension-Identifier") != "ext-1" ||
		got.header.Get("Lambda-Extension-Function-Error-Type") != "Extension.ConfigInvalid" || !strings.Contains(string(got.body),
		`"errorMessage":"WEIR_STORE: required"`) {
		t.Errorf("report: got %+v, want an error of the init", got)
	}
	if err := <-done; err == nil || err.Error() != "WEIR_STORE: required" {
		t.Errorf("end: got %v, want the error of the configuration", err)
	}
}

// With another wrapper script, which runs that of the layer, the extension limits.
func TestExtension_otherWrapper(t *testing.T) {
	x := newExtensionsAPI(t)
	e := environment(t, limited, nil)
	log, done := x.run(t, "/opt/other", func(context.Context, *slog.Logger) (*lambdahttp.Environment, error) { return e, nil })
	<-x.others
	l := &layered{lambdaAPI: x.lambdaAPI, t: t, log: log, server: &httptest.Server{URL: "http://" + x.proxy(t)}}
	if got, _ := l.send(sample(t, "http-api-anonymous.json"), `{"statusCode":200}`); !strings.Contains(string(got.body), "RateLimit") {
		t.Errorf("answer: got %s, want the fields of the decision", got.body)
	}
	<-x.others
	close(x.shutdown)
	if err := <-done; err != nil || log.String() != "" {
		t.Errorf("end: got %v, log %s, want neither", err, log.String())
	}
}

// script runs the wrapper script after another proxy has replaced the address of the Runtime API. It returns the
// address that the runtime gets.
func (x *extensionsAPI) script(t *testing.T, before string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", contract.LayerScript(), "weir", "sh", "-c", "echo $"+contract.VariableRuntimeAPI)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=/missing", contract.VariableLayerFolder + "=" + filepath.Dir(x.file),
		contract.VariableRuntimeAPI + "=" + before}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// The events come from the address that the wrapper script replaced, and the extension itself calls Lambda.
func TestExtension_otherProxy(t *testing.T) {
	x, other := newExtensionsAPI(t), newLambdaAPI(t)
	e := environment(t, limited, nil)
	log, done := x.run(t, "/opt/weir", func(context.Context, *slog.Logger) (*lambdahttp.Environment, error) { return e, nil })
	<-x.others
	address := x.script(t, other.address())
	if again := x.script(t, address); address != x.proxy(t) || again != address {
		t.Errorf("runtime: got the address %s, then %s, want that of the extension, %s", address, again, x.proxy(t))
	}
	l := &layered{lambdaAPI: other, t: t, log: log, server: &httptest.Server{URL: "http://" + address}}
	for i := range 4 {
		if got, ran := l.send(sample(t, "http-api-anonymous.json"), `{"statusCode":200}`); ran != (i < 2) || !strings.Contains(string(got.body),
			"RateLimit") {
			t.Errorf("request %d: got %t %s, want a decision", i+1, ran, got.body)
		}
	}
	<-x.others
	close(x.shutdown)
	if err := <-done; err != nil || len(x.requests) != 0 {
		t.Errorf("end: got %v and %d requests past the other proxy, want none", err, len(x.requests))
	}
}

// If the runtime requests no event through the extension, the init does not end, and the log has the reason. A
// slow runtime starts later.
func TestExtension_bypassed(t *testing.T) {
	for wrapper, want := range map[string]string{
		"/opt/weir": "it uses another proxy of the Runtime API; make /opt/weir the last wrapper script",
		"":          "AWS_LAMBDA_EXEC_WRAPPER: not set, so the runtime requests no event through the layer; set it to /opt/weir",
	} {
		t.Run("wrapper "+wrapper, func(t *testing.T) { holdsInit(t, wrapper, want) })
	}
}

func holdsInit(t *testing.T, wrapper, want string) {
	t.Helper()
	x := newExtensionsAPI(t)
	e := environment(t, limited, nil)
	log, done := x.run(t, wrapper, func(context.Context, *slog.Logger) (*lambdahttp.Environment, error) { return e, nil })
	<-x.others
	x.late <- noon
	l := &layered{lambdaAPI: x.lambdaAPI, t: t, log: log, server: &httptest.Server{URL: "http://" + x.proxy(t)}}
	if got, ran := l.send(sample(t, "http-api-anonymous.json"), `{"statusCode":200}`); !ran || !strings.Contains(string(got.body),
		"RateLimit") {
		t.Errorf("request: got %t %s, want a decision", ran, got.body)
	}
	<-x.others
	close(x.shutdown)
	if err := <-done; err != nil || strings.Count(log.String(), want) != 1 {
		t.Errorf("end: got %v, log %s, want one line with %q", err, log.String(), want)
	}
}

// The init ends only after the runtime has requested an event, whether the report was written before or not.
func TestExtension_awaitRuntime(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			times, requested, ended := make(chan time.Time, 1), make(chan struct{}), make(chan struct{})
			x := runtimeproxy.Extension{Late: times, Logger: slog.New(slog.DiscardHandler)}
			go func() {
				x.AwaitRuntime(requested)
				close(ended)
			}()
			if late {
				times <- noon
			}
			synctest.Wait()
			select {
			case <-ended:
				t.Errorf("late %t: the init ended, want it to wait for the runtime", late)
			default:
			}
			close(requested)
			<-ended
		})
	}
}

// An extension that Lambda does not register ends.
func TestExtension_notRegistered(t *testing.T) {
	x := newExtensionsAPI(t)
	x.Config.Handler = http.NotFoundHandler()
	_, done := x.run(t, "/opt/weir", nil)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "register: status 404") {
		t.Errorf("end: got %v, want the status", err)
	}
}
