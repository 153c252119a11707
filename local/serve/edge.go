package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/viewer"
)

// distribution stands for one in front of the APIs: its viewer function, its list, and the function that writes the list
// from lines of the log.
type distribution struct {
	viewer  *viewer.Function
	list    *viewer.List
	forward lambda.Handler
	secrets origin.Secrets
	clock   func() time.Time
	logger  *slog.Logger
}

// prepareEdge sets the variables of functions behind the distribution.
func (s *Server) prepareEdge() error {
	switch {
	case s.Edge == 0:
		return nil
	case s.Edge < 0 || s.Edge > time.Hour:
		return command.Usage("--edge: got %s, want up to 1h, such as 2s", s.Edge)
	case s.ViewerAddress != "" && s.ViewerAddress != contract.ViewerWeir:
		return command.Usage("--viewer-address: got %s, want %s with --edge, whose viewer function writes the address", s.ViewerAddress, contract.ViewerWeir)
	}
	maps.Copy(s.variables, map[string]string{
		contract.VariableViewerAddress: contract.ViewerWeir, contract.VariableSignLines: "true", contract.VariableEdgeDelay: s.Edge.String(),
	})
	return nil
}

// openEdge opens the distribution in front of the functions that have the variables of c.
func (s *Server) openEdge(ctx context.Context, c boot.Config, store limiter.Store) error {
	key, err := s.checkout.SubjectKey()
	if err != nil {
		return err
	}
	made := &distribution{secrets: origin.Derive(key), list: viewer.NewList(s.Clock, s.Edge), clock: s.Clock, logger: s.Logger}
	if made.viewer, err = viewer.New(made.list.Functions()); err != nil {
		return err
	}
	e, err := c.LogEnvironment(ctx, store, boot.Options{Logger: s.Logger, Metrics: s.record, Clock: s.Clock})
	if err != nil {
		return err
	}
	e.List = made.list
	made.forward = lambdahttp.NewForward(e)
	s.recorders = append(s.recorders, e.Recorder)
	s.edge = made
	return nil
}

// before returns a handler that sends the requests that the viewer function does not answer to api.
func (d *distribution) before(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := d.clock()
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fields := map[string][]string{}
		for name, values := range r.Header {
			fields[strings.ToLower(name)] = values
		}
		answer, passed, err := d.viewer.Handle(now, viewer.Request{IP: host, Method: r.Method, URI: r.URL.EscapedPath(), Headers: fields})
		switch {
		case err != nil: // CloudFront answers 503 if a function fails
			d.logger.Error("viewer function failed", slog.Any("err", err))
			http.Error(w, "the viewer function failed", http.StatusServiceUnavailable)
		case answer != nil:
			for name, value := range answer.Headers {
				w.Header().Set(name, value)
			}
			w.WriteHeader(answer.Status)
			_, _ = io.WriteString(w, answer.Body) // the client may have disconnected
		default:
			r.Header[contract.ViewerAddressField] = passed[strings.ToLower(contract.ViewerAddressField)]
			r.Header[contract.OriginSecretField] = []string{d.secrets.Sent(now)}
			api.ServeHTTP(w, r)
		}
	})
}

// edgeLine is the beginning of a line about a caller whom the distribution should refuse.
var edgeLine = fmt.Appendf(nil, `{"%s":"%s"`, contract.LineKind, telemetry.LineEdge)

// edgeLines passes lines of functions on to out, and those for the list also to the function that writes it. The lag of
// the list includes the time that CloudWatch Logs needs.
type edgeLines struct {
	out    io.Writer
	server *Server
}

// Write implements io.Writer.
func (l edgeLines) Write(line []byte) (int, error) {
	n, err := l.out.Write(line)
	if at := bytes.Index(line, edgeLine); at >= 0 {
		err = errors.Join(err, l.server.edge.add(string(line[at:])))
	}
	return n, err
}

func (d *distribution) add(line string) error {
	content, _ := json.Marshal(events.CloudwatchLogsData{LogEvents: []events.CloudwatchLogsLogEvent{{Message: line}}}) // Marshal never fails for texts
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(content) // a Buffer never fails
	_ = z.Close()
	payload, _ := json.Marshal(map[string]any{"awslogs": map[string]any{"data": packed.Bytes()}})
	_, err := d.forward.Invoke(context.Background(), payload)
	if err != nil {
		d.logger.Error("caller not listed", slog.Any("err", err))
	}
	return err
}

// remembered is a store in memory that functions treat like a shared one: they remember its refusals. Only such
// refusals are listed.
type remembered struct{ limiter.Store }
