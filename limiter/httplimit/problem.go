package httplimit

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
)

// Problem is the body of the response to a refused or failed request (RFC 9457).
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Error    string   `json:"error"`
	Message  string   `json:"message"`
	Wait     int64    `json:"retry_after,omitempty"` // in seconds, as in Retry-After; 0 means that no wait is known to help
	Limit    int64    `json:"limit,omitempty"`
	Window   string   `json:"window,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// These are the types of problems (RFC 9457, 4.2.1, and the draft of the RateLimit fields).
const (
	blank           = "about:blank"
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// retrySoon is the Retry-After of a failure. One second is enough, because a circuit breaker calls the
// store again earlier.
const retrySoon = "1"

func problem(problemType string, status int, code, message string) *Problem {
	return &Problem{Type: problemType, Title: http.StatusText(status), Status: status, Error: code, Message: message}
}

// refusal returns the problem of a request over a limit, without details of the limit.
func refusal(message string) *Problem {
	return problem(quotaExceeded, http.StatusTooManyRequests, "rate_limit_exceeded", message)
}

// overLimit returns the problem of a request that d refuses. wait is in seconds. -1 means that no
// wait helps.
func overLimit(d *limiter.Decision, wait int64) *Problem {
	concurrent, text := d.Limit.Count.Of == limiter.CountConcurrent, tooMany(d.Limit.Count.Of)
	if d.Limit.Count.Of == limiter.CountCost && d.Remaining > 0 && wait >= 0 {
		text = fmt.Sprintf("This request reserves %d, and %d of %d are left.", d.Cost, d.Remaining, d.Capacity)
	}
	if end := periodEnd(d); !end.IsZero() {
		text += end.Format(" The limit resets 2006-01-02 15:04 ") + end.Location().String() + "."
	}
	if wait >= 0 {
		text += retry(wait)
	} else {
		text += " This request costs more than the whole limit."
	}
	p := refusal(text)
	p.Limit, p.Violated, p.Wait = d.Capacity, []string{d.Limit.Name}, max(wait, 0)
	if !d.Superseded {
		p.Limit = d.Limit.Rate.Requests
		if !concurrent {
			p.Window = strconv.FormatInt(seconds(d.Limit.WindowAt(d.At)), 10) + "s"
		}
	}
	return p
}

// tooMany says in the unit of a limit that a request is over it.
func tooMany(counted limiter.Counted) string {
	switch counted {
	case limiter.CountCost:
		return "The cost is over the limit."
	case limiter.CountFailures:
		return "Too many failed requests."
	case limiter.CountBytes:
		return "Too many bytes."
	case limiter.CountConcurrent:
		return "Too many requests in flight."
	default:
		return "Too many requests."
	}
}

// busy returns the problem of a request whose subject gets too many concurrent charges. No limit
// refused the request.
func busy(wait int64) *Problem {
	p := problem(reducedCapacity, http.StatusTooManyRequests, string(limiter.ReasonBusy), "Too many requests at once."+retry(wait))
	p.Wait = wait
	return p
}

// failure returns the problem of a request that is denied because the store fails.
func failure() *Problem {
	return soon(problem(reducedCapacity, http.StatusServiceUnavailable, "store_unavailable",
		"The limits of this request cannot be checked now. Retry after 1 second."))
}

// soon sets the wait of retrySoon in p.
func soon(p *Problem) *Problem {
	p.Wait = 1
	return p
}

// queueLeft returns the problem of a request that ends before its turn in the queue of a leaky bucket.
func queueLeft() *Problem {
	return problem(blank, http.StatusServiceUnavailable, "queue_left", "The request would end before its turn in the queue.")
}

// MalformedPath returns the answer to a request whose path is malformed; see rules.Selection. The status is
// 400. The authorizer of a REST API can only deny, so it puts the problem into the body of its 429.
func MalformedPath() Answer {
	return Answer{Problem: problem(blank, http.StatusBadRequest, "malformed_path",
		"The path does not begin with a slash, is longer than 8 KB, or has a . or .. segment, a control character, invalid UTF-8, too many "+
			"readings, or a percent sign without two hexadecimal digits. Write %25 for a percent sign.")}
}

// mistaken returns the answer to a request that must be refused with 400 for another reason.
func mistaken(m *rules.Mistake) Answer {
	return Answer{Problem: problem(blank, http.StatusBadRequest, m.Code, m.Message)}
}

// blocked returns the answer to a caller whom an operator has blocked. The authorizer of a REST API answers 429.
func blocked() Answer {
	return Answer{Problem: problem(blank, http.StatusForbidden, "blocked", "The operator of this API has blocked this caller.")}
}

// ambiguousBody returns the answer to a request whose body a back end can read in another way than Weir.
func ambiguousBody(err error) Answer {
	return Answer{Problem: problem(blank, http.StatusBadRequest, "ambiguous_body", "The body has a "+err.Error()+".")}
}

// incompleteBody returns the answer to a request whose reserve is in a body that did not arrive.
func incompleteBody() Answer {
	return Answer{Problem: problem(blank, http.StatusBadRequest, "incomplete_body",
		"The body ended early, has a malformed encoding, or took longer than 30 seconds.")}
}

func internalError() Answer {
	return Answer{Problem: problem(blank, http.StatusInternalServerError, "internal_error",
		"The limits of this request could not be applied.")}
}

// unverified returns the answer to a request whose credential could not be verified. Like the answer of unauthorized,
// it contains no numbers of limits: the charged limits count the address and not the claimed caller.
func unverified(degraded limiter.Reason) Answer {
	return Answer{
		RetryAfter: retrySoon, Degraded: string(degraded),
		Problem: soon(problem(blank, http.StatusServiceUnavailable, "authorizer_failed", "The request could not be authorized. Try again.")),
	}
}

// unauthorized returns the answer to a request with a bad credential or without a required
// credential.
func unauthorized(degraded limiter.Reason, suspended bool) Answer {
	a := Answer{
		Degraded: string(degraded),
		Problem:  problem(blank, http.StatusUnauthorized, "unauthorized", "The credentials are missing, malformed, unknown or expired."),
	}
	if suspended {
		a.Problem.Error, a.Problem.Message = "suspended", "The API key is suspended. Ask the operator of this API."
	}
	return a
}

func retry(wait int64) string {
	if wait == 1 {
		return " Retry after 1 second."
	}
	return " Retry after " + strconv.FormatInt(wait, 10) + " seconds."
}
