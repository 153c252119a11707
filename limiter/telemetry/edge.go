package telemetry

import "context"

// LineEdge is the kind of an EdgeLine.
const LineEdge = "edge"

// EdgeLine is the line of a caller whom a CDN in front of the API should refuse until the end of its wait.
type EdgeLine struct {
	Kind string `json:"weir"` // always LineEdge
	Signature
	Namespace string `json:"namespace"`
	Key       string `json:"key"`   // the caller's key in the list
	Until     int64  `json:"until"` // end of the wait, in Unix milliseconds
	Reset     int64  `json:"reset"` // when the quota is full again, in Unix milliseconds
	Limit     string `json:"limit"`
	Capacity  int64  `json:"capacity"`
	Requests  int64  `json:"requests"`
	Window    int64  `json:"window"`           // in seconds
	Version   int64  `json:"version"`          // of the rules
	Period    bool   `json:"period,omitempty"` // the limit counts in periods of a calendar
	Owner     string `json:"owner,omitempty"`  // of the API key
	// These members describe the rules, as in package functions/edge.
	Pass         []string `json:"pass,omitempty"`
	Below        int      `json:"below"`
	Credentials  bool     `json:"credentials,omitempty"`
	APIKeyHeader string   `json:"header,omitempty"`
	IPv6Bits     int      `json:"bits"`
	Origins      []string `json:"origins,omitempty"`
}

// Edge writes a line for a caller, and sets its kind, namespace and signature. An error means that it cannot be signed.
func (r *Recorder) Edge(ctx context.Context, line EdgeLine) error {
	if r == nil || r.out == nil {
		return nil
	}
	line.Kind, line.Namespace = LineEdge, r.namespace
	return r.writeSigned(ctx, &line)
}

// writeSigned writes a line at once.
func (r *Recorder) writeSigned(ctx context.Context, line Signed) error {
	if err := r.sign(ctx, line); err != nil {
		return err
	}
	r.writeNow(line)
	return nil
}
